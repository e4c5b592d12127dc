"""What is true of a run that the catalog names: read from its checkpoint, which may be gone, or in use elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import deltalake

from penstock.catalog.entry import POINT, PartEntry, RunEntry
from penstock.connectors.delta.table_log import opening
from penstock.connectors.points.stored_files import stored_files
from penstock.errors import PenstockError, WorldError
from penstock.runtime.board import Board, Record
from penstock.runtime.opening import has_run, history_of, identity_of
from penstock.runtime.versions import Version
from penstock.storage.folder import Folder
from penstock.storage.lease import holding

RUNNING: Final = "running"
STOPPED: Final = "stopped"
GONE: Final = "gone"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True)
class RunFacts:
    """How a run stands."""

    entry: RunEntry
    state: str
    told: str = ""
    """Who holds it, or why it cannot be read."""
    record: Record | None = None
    """The board's latest; None if there is none to be read."""
    identity: dict[str, Any] | None = None
    versions: tuple[Version, ...] = ()
    bytes: int = 0
    """What it takes up: its checkpoint, and connection points elsewhere."""
    files: int = 0

    @property
    def batch(self) -> int | None:
        """The last batch that was done."""
        return self.record.batch if self.record is not None and self.record.batch >= 0 else None

    @property
    def rows(self) -> int:
        """Tuples that its inputs have brought."""
        return sum(count.read for count in self.record.inputs.values()) if self.record is not None else 0


@dataclass(frozen=True)
class PointFacts:
    """What the table of a connection point holds."""

    rows: int
    bytes: int
    files: int


def facts_of(entry: RunEntry) -> RunFacts:
    """Look into the checkpoint of a run; nothing of it is locked or changed."""
    folder = Folder(entry.place)
    try:
        if not has_run(folder):
            return RunFacts(entry, GONE)
        holder = holding(folder)
        sizes = [size for _, size in folder.files()]
        sizes += [size for place in places_outside(entry) for _, size in Folder(place).files()]
        facts = RunFacts(
            entry,
            STOPPED if holder is None else RUNNING,
            "" if holder is None else f"held by {holder}",
            _latest(folder),
            identity_of(folder),
            tuple(history_of(folder)),
            sum(sizes),
            len(sizes),
        )
    except PenstockError as error:
        return RunFacts(entry, UNREADABLE, error.what)
    return facts


def point_facts(part: PartEntry) -> PointFacts | None:
    """Look at the table of a connection point; None if there is none."""
    try:
        with opening(folder := Folder(part.place)):
            files = stored_files(deltalake.DeltaTable(folder.path))
    except WorldError:
        return None
    return PointFacts(sum(file.rows for file in files), sum(file.size for file in files), len(files))


def places_outside(entry: RunEntry) -> list[str]:
    """The connection points of a run that do not lie in its checkpoint."""
    return [part.place for part in entry.of_kind(POINT) if not part.place.startswith(f"{entry.place}/")]


def _latest(folder: Folder) -> Record:
    board = Board(folder.child("board"))
    for _ in range(3):  # the run may go on, and forget the record, while it is looked for
        try:
            return board.latest()
        except WorldError as error:
            last = error
    raise last
