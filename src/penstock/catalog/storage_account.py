"""What of a run lies where, and why: what limits it, and what could be freed. Nothing of it needs the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import deltalake

from penstock.catalog.entry import OUTPUT, PartEntry, RunEntry
from penstock.catalog.entry import POINT as POINT_PART
from penstock.catalog.facts import places_outside
from penstock.connectors.delta.table_log import opening
from penstock.connectors.points.stored_files import stored_files
from penstock.connectors.targets.kept_results import SETTLED, KeptResults, data_bytes
from penstock.connectors.targets.target import PART, enrolled_place, is_enrolled
from penstock.errors import PenstockError
from penstock.plan.keep_rejects import errors_output, late_output
from penstock.runtime.board import KEEP_RECORDS, Board
from penstock.runtime.footprint import (
    BOARD,
    ERRORS,
    JOURNAL,
    LATE,
    POINT,
    RESULTS,
    SPARK,
    STATE,
    TABLE,
    VERSIONS,
    Stored,
    footprint,
)
from penstock.runtime.table_versions import KEPT_VERSIONS as KEPT_TABLES
from penstock.storage.folder import Folder
from penstock.storage.state import KEPT_VERSIONS, State

STAGED: Final = "staged parts"
_STAGED_PART: Final = re.compile(rf"{PART}(\d+)-.*\.arrow")
_LIMITS: Final = {
    STATE: f"what the boxes hold, in {KEPT_VERSIONS} versions",
    BOARD: f"{KEEP_RECORDS} records, with their traces",
    JOURNAL: "what its input has found: an entry for each file",
    VERSIONS: "a small file for each version of the network; plans leave with the batches that need them",
    SPARK: "the last 100 batches",
    TABLE: f"{KEPT_TABLES} versions of the table",
    STAGED: "the batch that is under way; a restart deletes what it has left",
}
UNKNOWN: Final = "not known here: start the run once"


@dataclass(frozen=True)
class StorageLine:
    """What is stored for one purpose, why it does not grow, and what could leave."""

    stored: Stored
    limit: str
    free: int = 0
    """Bytes that could be freed."""
    how: str = ""
    """By what they would be freed."""
    of: Mapping[str, int] | None = None
    """Its bytes by box, where several share it."""


def storage_of(checkpoint: Folder, entry: RunEntry | None = None) -> list[StorageLine]:
    """Look through a checkpoint and its connection points; what the catalog says helps to find and to explain them."""
    parts = {(part.kind, part.name): part for part in entry.parts} if entry is not None else {}
    outside = {p.name: p.place for p in entry.of_kind(POINT_PART) if p.place in places_outside(entry)} if entry else {}
    newest = Board(checkpoint.child("board")).newest()
    found: list[StorageLine] = []
    for stored in footprint(checkpoint, outside):
        explain = _EXPLAINED.get(stored.kind, _plainly)
        try:
            found += explain(stored, parts, newest)
        except PenstockError as error:
            found.append(StorageLine(stored, f"cannot be read: {error.what}"))
    return found


_Parts = Mapping[tuple[str, str], PartEntry]


def _plainly(stored: Stored, parts: _Parts, newest: int) -> Iterator[StorageLine]:
    yield StorageLine(stored, _LIMITS.get(stored.kind, ""))


def _state(stored: Stored, parts: _Parts, newest: int) -> Iterator[StorageLine]:
    """State by box, as its newest version has it; the rest are versions to go back to."""
    held: dict[str, int] = {}
    top = Folder(stored.place)
    for stage in top.names():
        for bucket in top.child(stage).names():
            for box, (_, size) in State(top.child(stage, bucket), newest + 1).sizes().items():
                held[box] = held.get(box, 0) + size
    yield StorageLine(stored, _LIMITS[STATE], of=held)


def _results(stored: Stored, parts: _Parts, newest: int) -> Iterator[StorageLine]:
    """Results that are kept; and apart from them what a batch has staged that is not done."""
    folder = Folder(stored.place)
    name = {LATE: late_output, ERRORS: errors_output}.get(stored.kind, str)(stored.name)
    part = parts.get((OUTPUT, name)) or parts.get((POINT_PART, name))
    place = enrolled_place(folder)[0] if is_enrolled(folder) else ""
    if place:
        yield StorageLine(stored, f"what is written elsewhere has its notes here: {place}")
        return
    staged = [
        size
        for file, size in folder.files()
        if (found := _STAGED_PART.fullmatch(file)) is not None and int(found.group(1)) > newest
    ]
    if staged:
        yield StorageLine(Stored(STAGED, stored.name, stored.place, sum(staged), len(staged)), _LIMITS[STAGED])
        stored = replace(stored, bytes=stored.bytes - sum(staged), files=stored.files - len(staged))
    free = data_bytes(KeptResults(folder).batches(newest - SETTLED))
    limit = f"keeps {part.keeps}" if part is not None and part.keeps else UNKNOWN
    yield StorageLine(stored, limit, free, f"keep=, or disk= with when_full='oldest'; not the last {SETTLED} batches")


def _point(stored: Stored, parts: _Parts, newest: int) -> Iterator[StorageLine]:
    """A connection point: what it holds, and what only waits for the end of its grace."""
    with opening(folder := Folder(stored.place)):
        live = sum(file.size for file in stored_files(deltalake.DeltaTable(folder.path)))
    log = sum(size for path, size in folder.files() if path.startswith("_delta_log/"))
    part = parts.get((POINT_PART, stored.name))
    limit = f"keeps {part.keeps}" if part is not None else UNKNOWN
    dead = max(0, stored.bytes - live - log)
    yield StorageLine(stored, limit, dead, "the end of the grace: files that have left or were merged" if dead else "")


_EXPLAINED: Final[Mapping[str, Callable[[Stored, _Parts, int], Iterator[StorageLine]]]] = {
    STATE: _state,
    RESULTS: _results,
    LATE: _results,
    ERRORS: _results,
    POINT: _point,
}
