"""How far a Delta table has been read, and the parts that lie between two such places.

A position is `{"version": the next version, "file": the next file in its commit}`, and `"row"` where a train has ended
inside a file; besides, what the table's writers have said up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.connectors.connector import Position, Split
from penstock.connectors.delta.commit_marks import NOTHING_SAID, Standing
from penstock.connectors.delta.table_log import Commit

ALL_GROUPS: Final = 1 << 31
"""The end of a part that reaches to the end of its file."""
_FILES: Final = 1 << 32
_ROWS: Final = 1 << 48
"""More than a commit has files, and a file rows: numbers of splits grow with (version, file, row)."""


@dataclass(frozen=True)
class DeltaSplit(Split):
    """A part of a file; or, without a path, what the table's writers have said."""

    version: int
    path: str | None = None
    size: int = 0
    at: int = 0
    end: int = ALL_GROUPS
    first: int = 0
    last: int | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    stated: tuple[tuple[str, int], ...] = ()

    @property
    def found_in(self) -> str | None:
        return self.path


@dataclass(frozen=True)
class Place:
    """How far a table has been read: the next version, file and row, and what its writers have said before."""

    version: int
    file: int = 0
    row: int = 0
    said: Standing = NOTHING_SAID
    closed: bool = False
    """Whether all writers have ended, and no version was there behind their last."""

    def to_json(self) -> Position:
        row = {"row": self.row} if self.row else {}
        closed = {"closed": True} if self.closed else {}
        return {"version": self.version, "file": self.file, **row, **self.said.to_json(), **closed}

    @staticmethod
    def of(position: Position) -> Place:
        said = Standing.from_json(position)
        return Place(position["version"], position["file"], position.get("row", 0), said, position.get("closed", False))

    def marks(self) -> Mapping[str, int]:
        """The low-water marks of the table at this place."""
        return self.said.marks() if self.said.writers or self.closed else {}

    @property
    def number(self) -> int:
        """Places in order have numbers in order, with one left out between any two."""
        return 2 * ((self.version * _FILES + self.file) * _ROWS + self.row)

    def after(self, commit: Commit) -> Place:
        """The place behind a version."""
        said = self.said if commit.said is None else self.said.heard(commit.said)
        return Place(self.version + 1, said=said)
