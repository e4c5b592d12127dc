"""Where a Delta table is begun to be read: at its beginning, at a version, or at a time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.ticks import tick_of
from penstock.connectors.delta.commit_marks import NOTHING_SAID, CommitMarks, KeptMarks, Standing
from penstock.connectors.delta.table_log import AddedFile, Commit, TableLog
from penstock.errors import QueryError, WorldError

Since = str | int | dt.datetime
"""`"beginning"`, a version, or a time: a datetime or a text in ISO 8601; without a zone it is in UTC."""

BEGINNING_WORD: Final = "beginning"
_LOOK_BACK: Final = 64
"""How many commits before the last that speaks are looked at: each writer is likely to have spoken in them."""
_MOST_BACK: Final = 256
"""How many commits are looked at for one that speaks: upkeep makes some that do not."""


@dataclass(frozen=True)
class Start:
    """Where reading starts: the version whose changes come first."""

    version: int
    files: tuple[AddedFile, ...] | None = None
    """All files of the table at that version, where the commits that had led to it are gone."""
    said: Standing = NOTHING_SAID
    """What writers had said before."""
    marks: tuple[KeptMarks, ...] = ()
    """Joint marks of the past, of a connection point that has any."""

    def to_json(self) -> dict[str, Any]:
        files = None if self.files is None else [file.to_json() for file in self.files]
        marks = {"marks": [kept.to_json() for kept in self.marks]} if self.marks else {}
        return {"version": self.version, "files": files, "said": self.said.to_json(), **marks}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Start:
        files = document["files"]
        return Start(
            document["version"],
            None if files is None else tuple(AddedFile.from_json(file) for file in files),
            Standing.from_json(document["said"]),
            tuple(KeptMarks.from_json(kept) for kept in document.get("marks", ())),
        )


def find_start(log: TableLog, since: Since) -> Start:
    """Where reading starts in the log as it is now."""
    if since == BEGINNING_WORD:
        return _beginning(log)
    versions = log.versions()
    if isinstance(since, int):
        first = since
        if first not in versions and first != versions[-1] + 1:
            raise _unknown_version(log, first, versions)
    else:
        first = _first_since(log, time_of(since), versions, str(since))
    return Start(first, said=standing_before(log, first))


def standing_before(log: TableLog, version: int) -> Standing:
    """What the writers of a table had said before a version, as far as commits not long before it tell."""
    heard: list[Commit] = []
    for number in range(version - 1, max(-1, version - 1 - _MOST_BACK), -1):
        commit = log.commit(number)
        if commit is None or (heard and heard[0].version - number > _LOOK_BACK):
            break
        heard += [commit] if commit.said is not None else []
    said = NOTHING_SAID
    for commit in reversed(heard):
        if commit.said is not None:
            said = said.heard(commit.said)
    return said


def newest_said(log: TableLog) -> CommitMarks | None:
    """What the newest commit that speaks says; None if there is none not long ago."""
    versions = log.versions()
    for version in reversed(versions[-_MOST_BACK:]):
        if (commit := log.commit(version)) is not None and commit.said is not None:
            return commit.said
    return None


def check_since(since: Since) -> None:
    """Refuse what is no place to start."""
    if isinstance(since, bool) or not isinstance(since, str | int | dt.datetime):
        raise QueryError(f"since={since!r} is no place to start", expected=f"{BEGINNING_WORD!r}, a version, or a time")
    if isinstance(since, int) and since < 0:
        raise QueryError("versions are counted from 0", found=f"since={since}")
    if not isinstance(since, int) and since != BEGINNING_WORD:
        time_of(since)


def time_of(since: str | dt.datetime) -> int:
    """A time in microseconds since the epoch.

    >>> time_of("1970-01-01 00:00:01"), time_of("1970-01-01T01:00:00+01:00")
    (1000000, 0)
    """
    try:
        moment = dt.datetime.fromisoformat(since) if isinstance(since, str) else since
    except ValueError as error:
        raise QueryError(
            f"since={since!r} is no time",
            expected=f"{BEGINNING_WORD!r}, a version such as 7, or a time such as '2026-01-01 10:00:00'",
        ) from error
    return tick_of(moment, pa.timestamp("us", "UTC") if moment.tzinfo is not None else pa.timestamp("us"))


def _beginning(log: TableLog) -> Start:
    oldest = log.oldest_whole()
    if oldest is None:
        raise WorldError(
            f"the log of the Delta table {log.folder.path} has gaps",
            expected="version 0, or a checkpoint with every commit behind it",
            hint="restore the log from a copy",
        )
    if log.commit(0) is not None and oldest == 0:
        return Start(0)
    return Start(oldest, tuple(log.files_at(oldest)), standing_before(log, oldest + 1))


def _unknown_version(log: TableLog, version: int, versions: list[int]) -> QueryError:
    gone = version < versions[0]
    return QueryError(
        f"the Delta table {log.folder.path} has no version {version}{' any more' if gone else ''}",
        expected=f"a version from {versions[0]} to {versions[-1]}, or {versions[-1] + 1} for what comes next",
        hint=f"since='{BEGINNING_WORD}' reads all that the table holds"
        if gone
        else "the input can start with a version that is there",
    )


def _first_since(log: TableLog, time: int, versions: list[int], text: str) -> int:
    """The first version that was made at a time or later."""
    if versions[0] > 0 and _made(log, versions[0]) > time:
        raise QueryError(
            f"what the Delta table {log.folder.path} was like at {text} is not known any more",
            expected=f"a time from {_as_text(_made(log, versions[0]))} on, when version {versions[0]} was made",
            hint=f"since='{BEGINNING_WORD}' reads all that the table holds",
        )
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if _made(log, versions[middle]) < time:
            low = middle + 1
        else:
            high = middle
    return versions[low] if low < len(versions) else versions[-1] + 1


def _made(log: TableLog, version: int) -> int:
    commit = log.commit(version)
    if commit is None:
        raise WorldError(f"version {version} of the Delta table {log.folder.path} has left its log meanwhile")
    return commit.time


def _as_text(time: int) -> str:
    return str(dt.datetime.fromtimestamp(time / 1e6, dt.UTC))
