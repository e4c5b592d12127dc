"""The catalog's database: one small SQLite file, which several processes may read and write at a time.

Every call opens it, and closes it again. Nobody depends on it: it says where runs are, and each start of a run says it
again. So a file that is damaged is put aside, with a warning, and another one is begun.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from penstock.catalog.entry import PartEntry, RunEntry
from penstock.catalog.home import home
from penstock.errors import QueryError, WorldError

LOG = logging.getLogger("penstock.catalog")
FILE: Final = "catalog.db"
FORMAT: Final = 1
"""The user_version of the database: 0 is an empty one."""
_PATIENCE_SECONDS: Final = 10.0
"""How long to wait for another process that writes."""
_TABLES: Final = """
CREATE TABLE runs (
  name TEXT PRIMARY KEY, place TEXT NOT NULL UNIQUE, run TEXT NOT NULL, network TEXT NOT NULL,
  entered INTEGER NOT NULL, disk TEXT NOT NULL);
CREATE TABLE parts (
  run TEXT NOT NULL REFERENCES runs (name) ON DELETE CASCADE, kind TEXT NOT NULL, name TEXT NOT NULL,
  place TEXT NOT NULL, columns TEXT NOT NULL, keeps TEXT NOT NULL, PRIMARY KEY (run, kind, name));
"""
_RUNS: Final = "SELECT name, place, run, network, entered, disk FROM runs"
_PARTS: Final = "SELECT kind, name, place, columns, keeps FROM parts WHERE run = ? ORDER BY rowid"

IsGone = Callable[[str], bool]
"""Whether there is no run any more at a place."""
_Found = TypeVar("_Found")


class Catalog:
    """The runs that a user has started, by name."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else home()

    def runs(self) -> list[RunEntry]:
        """All of them, by name."""
        return self._read(lambda db: [_entry(db, row) for row in db.execute(f"{_RUNS} ORDER BY name")], [])

    def named(self, name: str) -> RunEntry | None:
        """The run of that name."""
        return self._read(lambda db: _one(db, "name", name), None)

    def at(self, place: str) -> RunEntry | None:
        """The run that has its checkpoint at a place."""
        return self._read(lambda db: _one(db, "place", place), None)

    def enter(self, entry: RunEntry, wanted: str | None, is_gone: IsGone) -> str:
        """Say that a run has started, and return its name.

        `wanted` is the name that somebody has asked for; refused if another run that is still there has it. Without
        one a run keeps the name that it has, or takes that of the entry: with a number, if another run has it.
        """
        return self._try(lambda db: _entered(db, entry, wanted, is_gone))

    def forget(self, name: str) -> None:
        """Forget a run; fine if nobody knows it."""
        self._read(lambda db: db.execute("DELETE FROM runs WHERE name = ?", [name]), None)

    @property
    def _file(self) -> Path:
        return self._folder / FILE

    def _read(self, look: Callable[[sqlite3.Connection], _Found], nothing: _Found) -> _Found:
        """What somebody finds; the same as in an empty catalog if there is none."""
        return self._try(look) if self._file.exists() else nothing

    def _try(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        try:
            with self._opened() as db:
                return work(db)
        except (sqlite3.Error, ValueError, OSError) as error:
            if not _is_damage(error):
                raise WorldError(f"the catalog {self._file} cannot be used: {error}") from error
            self._put_aside(error)
        try:
            with self._opened() as db:
                return work(db)
        except (sqlite3.Error, ValueError, OSError) as error:
            raise WorldError(f"the catalog {self._file} cannot be used: {error}") from error

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database within a transaction that nobody else writes in."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
        # Without WAL: that needs memory which processes share, and a home may lie on a network.
        with contextlib.closing(sqlite3.connect(self._file, _PATIENCE_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE")
            try:
                (found,) = db.execute("PRAGMA user_version").fetchone()
                if found == 0:
                    for statement in filter(str.strip, _TABLES.split(";")):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {FORMAT}")
                elif found != FORMAT:
                    raise WorldError(
                        f"the catalog {self._file} was written by another version of Penstock",
                        expected=f"format {FORMAT}",
                        found=f"format {found}",
                        hint="use that version, or another folder by the environment variable PENSTOCK_HOME",
                    )
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def _put_aside(self, error: Exception) -> None:
        aside = self._file.with_name(f"{FILE}.damaged")
        LOG.warning("the catalog %s is damaged (%s); it is now %s, and runs enter another", self._file, error, aside)
        with contextlib.suppress(OSError):
            os.replace(self._file, aside)
            # What was to be undone in the old one must not be undone in the next.
            os.unlink(f"{self._file}-journal")


def _entered(db: sqlite3.Connection, entry: RunEntry, wanted: str | None, is_gone: IsGone) -> str:
    before = _one(db, "place", entry.place)
    if before is None:
        moved = [_entry(db, row) for row in db.execute(f"{_RUNS} WHERE run = ?", [entry.run])]
        before = next((other for other in moved if is_gone(other.place)), None)
    kept = before.name if before is not None else None
    name = _free(db, wanted or kept or entry.name, kept, is_gone, asked=wanted is not None)
    db.execute("DELETE FROM runs WHERE name IN (?, ?) OR place = ?", [name, kept or name, entry.place])
    values = [name, entry.place, entry.run, entry.network, entry.entered, entry.disk]
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)
    parts = [(name, p.kind, p.name, p.place, json.dumps(p.columns), p.keeps) for p in entry.parts]
    db.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?)", parts)
    return name


def _free(db: sqlite3.Connection, name: str, kept: str | None, is_gone: IsGone, *, asked: bool) -> str:
    """A name that no other run has which is still there."""
    other = _one(db, "name", name)
    if other is None or name == kept or is_gone(other.place):
        return name
    if asked:
        raise taken(other)
    names = {known for (known,) in db.execute("SELECT name FROM runs")}
    number = 2
    while f"{name}-{number}" in names:
        number += 1
    return f"{name}-{number}"


def taken(other: RunEntry, place: str = "") -> QueryError:
    """The error for a name that another run has."""
    return QueryError(
        f"another run has the name '{other.name}'",
        expected=f"the checkpoint {other.place}",
        found=f"the checkpoint {place}" if place else None,
        hint=f"choose another name, or let go of that run with `penstock drop {other.name}`",
    )


def _one(db: sqlite3.Connection, column: str, value: str) -> RunEntry | None:
    row = db.execute(f"{_RUNS} WHERE {column} = ?", [value]).fetchone()
    return _entry(db, row) if row is not None else None


def _entry(db: sqlite3.Connection, row: tuple[str, str, str, str, int, str]) -> RunEntry:
    parts = tuple(
        PartEntry(kind, name, place, tuple((str(column), str(of)) for column, of in json.loads(columns)), keeps)
        for kind, name, place, columns, keeps in db.execute(_PARTS, [row[0]])
    )
    return replace(RunEntry(*row), parts=parts)


def _is_damage(error: Exception) -> bool:
    """Whether the file itself is at fault: not a lock that nobody gives free, or a folder that cannot be written."""
    if isinstance(error, ValueError):
        return True
    codes = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
    return isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in codes
