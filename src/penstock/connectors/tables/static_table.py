"""`pk.table`: a static table, to be joined with streams (aurora.md 5.2.2.3), or an input itself (`pushed_table`).

A table is declared where it lies. For joins the driver looks at it whenever it plans a batch; when it has changed, it
is read again, and the batch and those after it see the new content. A batch that is done again sees what it saw the
first time (`penstock.runtime.table_versions`).
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.schema import parse_schema
from penstock.algebra.ticks import duration_ns
from penstock.connectors.delta.as_table import StoredDelta, is_delta
from penstock.connectors.files.declaration import Files, files
from penstock.connectors.files.places import filesystem_of
from penstock.connectors.fitting import fit_table
from penstock.connectors.tables.file_store import StoredFiles
from penstock.connectors.tables.postgresql_store import SCHEMES, StoredPostgresql
from penstock.connectors.tables.sqlite_store import StoredSqlite
from penstock.connectors.tables.store import MisfitError, Stamp, Store
from penstock.errors import QueryError, WorldError

FORMATS: Final = ("parquet", "arrow", "csv", "jsonl", "delta", "sqlite", "postgresql")
TableChanges = Literal["error", "append"]
"""What becomes of rows that leave a followed table, or are rewritten: they end the run; or they leave unsaid, and a row
that is written in the place of another is a new row."""
_SQLITE_SUFFIXES: Final = (".sqlite", ".sqlite3", ".db", ".db3")


@dataclass(frozen=True)
class StaticTable:
    """A declared table."""

    store: Store
    columns: tuple[str, ...] | None = None
    """The columns to be seen; None for all."""
    interval: int | None = None
    """For how long, in microseconds, it is not looked at again; None: it is looked at for every batch."""
    follow: bool = False
    """Whether, as an input, it goes on with its changes."""
    changes: TableChanges = "error"

    def describe(self) -> str:
        return self.store.describe()

    def schema(self) -> pa.Schema:
        """The columns to be seen, as they are now."""
        shown = self.store.schema()
        for name in self.columns or ():
            if name not in shown.names:
                raise QueryError(
                    f"the table {self.describe()} has no column '{name}'",
                    expected=f"some of {', '.join(shown.names)}",
                    hint="correct columns=",
                )
        return parse_schema(shown if self.columns is None else pa.schema([shown.field(c) for c in self.columns]))

    def stamp(self) -> Stamp | None:
        return self.store.stamp()

    def read(self, schema: pa.Schema) -> pa.Table:
        """All rows of some columns, of exactly these types."""
        try:
            rows = self.store.read(schema)
            fitted, misfits = fit_table(rows.select(schema.names), schema)
            if misfits:
                raise MisfitError(f"row {misfits[0].row + 1}: {misfits[0].reason}")
        except MisfitError as error:
            raise WorldError(
                f"the table {self.describe()} does not fit what the network was built with",
                expected=", ".join(f"{f.name} {f.type}" for f in schema),
                found=error.reason,
                hint="bring the table back to this shape and resume, or build the network anew, with a new checkpoint",
            ) from error
        return fitted


@dataclass(frozen=True)
class StoredMemory(Store):
    """A table that the program itself holds. It never changes while a run lasts."""

    rows: pa.Table = field(repr=False)

    @property
    def refresh(self) -> int | None:
        return None

    def describe(self) -> str:
        return "a table in memory"

    def schema(self) -> pa.Schema:
        return self.rows.schema

    def stamp(self) -> Stamp:
        return Stamp("memory")

    @property
    def fixed(self) -> pa.Table:
        return self.rows

    def read(self, schema: pa.Schema) -> pa.Table:
        return self.rows.select(schema.names)


def table(
    place: str | os.PathLike[str] | Files | pa.Table,
    format: str | None = None,
    *,
    table: str | None = None,
    query: str | None = None,
    columns: Sequence[str] | None = None,
    refresh: str | dt.timedelta | None = None,
    follow: bool = False,
    changes: TableChanges = "error",
) -> StaticTable:
    """A static table, for `stream.join(table, predicate)`, or as an input: `net.source(name, table)`.

    `place` is a file, a folder or a glob of Parquet, Arrow, CSV or JSON lines (or `pk.files(...)`, which has more
    options); the folder of a Delta table; an SQLite file; a URI `postgresql://...` (with `penstock[postgresql]`
    installed); or a pyarrow Table. `format` says which, where suffixes do not: one of parquet, arrow, csv, jsonl,
    delta, sqlite, postgresql. Of a database it takes `table`, a name, or `query`, a SELECT. `columns` are the columns
    to be seen; without, all of them.

    A table that changes is read again with the next batch that is planned. `refresh`, such as "5 minutes", lets that
    much time pass before it is looked at again; for PostgreSQL, which must be read to be compared, "1 minute" if
    nothing is said. A password in a URI is stored with the checkpoint: better leave it to PGPASSWORD or a passfile.

    As an input it is the rows that the table has when the run starts. With `follow=True` it then goes on with rows that
    are added. `changes` is about rows that leave, or are rewritten: an "error"; or "append", which sends what a row was
    rewritten to as a new row, and says nothing of what is gone.
    """
    if isinstance(columns, str) or (columns is not None and not columns):
        raise QueryError("columns= names the columns to be seen", expected="a list of names", found=repr(columns))
    store = _store(place, format, table, query)
    interval = store.refresh
    if refresh is not None:
        if isinstance(store, StoredMemory):
            raise QueryError("a table in memory does not change, so refresh= has no meaning for it")
        interval = _microseconds(refresh)
    if follow and isinstance(store, StoredMemory):
        raise QueryError("a table in memory does not change, so there is nothing to follow", hint="leave out follow=")
    if changes not in ("error", "append"):
        raise QueryError(f"unknown changes={changes!r}", expected="'error' or 'append'")
    if changes != "error" and not follow:
        raise QueryError(f"changes={changes!r} goes with a table that is followed", hint="add follow=True")
    return StaticTable(store, None if columns is None else tuple(columns), interval, follow, changes)


def _store(
    place: str | os.PathLike[str] | Files | pa.Table, format: str | None, table: str | None, query: str | None
) -> Store:
    if isinstance(place, pa.Table | Files):
        _refuse_database_options(table, query, "of a database")
        if format is not None:
            raise QueryError("format= goes with a path", found=f"a {type(place).__name__}")
        if isinstance(place, pa.Table):
            return StoredMemory(place)
        if place.follow:
            raise QueryError("a static table cannot follow a folder", hint="leave out follow=: changes are seen anyway")
        return StoredFiles(place)
    if not isinstance(place, str | os.PathLike):
        raise QueryError(
            "a table needs a place", expected="a path, a URI, pk.files(...) or a pyarrow Table", found=repr(place)
        )
    where = os.fspath(place)
    if "://" not in where:
        where = filesystem_of(where)[1]  # workers may run in other folders
    kind = format or _kind_of(where)
    if kind not in (*FORMATS, None):
        raise QueryError(f"unknown format {format!r}", expected=f"one of {', '.join(FORMATS)}")
    if kind == "postgresql":
        if not where.startswith(SCHEMES):
            raise QueryError(
                f"{os.fspath(place)!r} is no URI of PostgreSQL", expected="postgresql://user@host:port/database"
            )
        return StoredPostgresql(where, *_select(table, query))
    if kind == "sqlite":
        return StoredSqlite(_local(where), *_select(table, query))
    _refuse_database_options(table, query, f"of a database, which {where} is not" if kind else "of a database")
    return StoredDelta(where) if kind == "delta" else StoredFiles(files(where, kind))


def _local(where: str) -> str:
    system, path = filesystem_of(where)
    if system.type_name != "local":
        raise QueryError("an SQLite file must be on a disk of this machine", found=where)
    return path


def _kind_of(where: str) -> str | None:
    """What a place is, where its name or its content tells; None for files, which tell by themselves."""
    if where.startswith(SCHEMES):
        return "postgresql"
    if where.lower().endswith(_SQLITE_SUFFIXES):
        return "sqlite"
    return "delta" if is_delta(where) else None


def _refuse_database_options(table: str | None, query: str | None, what: str) -> None:
    if table is not None or query is not None:
        raise QueryError(
            f"table= and query= name a part {what}",
            found=f"table={table!r}" if table is not None else f"query={query!r}",
            hint="leave them out, or give format='sqlite' or 'postgresql'",
        )


def _select(table: str | None, query: str | None) -> tuple[str, str]:
    """The SELECT that gives the rows, and what to call it."""
    if (table is None) == (query is None):
        raise QueryError(
            "say what to take from the database",
            expected="either table='name' or query='SELECT ...'",
            found="both" if table is not None else "neither",
        )
    if table is not None:
        return f"SELECT * FROM {'.'.join(kernel.quote(part) for part in table.split('.'))}", f"table {table}"
    return str(query).strip().rstrip(";"), f"query {' '.join(str(query).split())!r}"


def _microseconds(refresh: str | dt.timedelta) -> int:
    if isinstance(refresh, dt.timedelta):
        length = refresh // dt.timedelta(microseconds=1)
    elif isinstance(refresh, str):
        length = duration_ns(refresh) // 1000
    else:
        raise QueryError("refresh= is a duration", expected="for example '5 minutes'", found=repr(refresh))
    if length < 0:
        raise QueryError("refresh= is a duration", expected="no negative one", found=repr(refresh))
    return length
