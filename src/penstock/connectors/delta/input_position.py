"""How far a Delta table has been read, and the parts that lie between two such places.

A position is `{"version": the next version, "file": the next file in its commit}`, and `"row"` where a train has ended
inside a file; besides, what the table's writers have said up to there, and what was done with versions that change
rows. So what lies between two positions follows from them alone, whatever the input is declared with by now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.algebra.marks import UNKNOWN, Marks
from penstock.connectors.connector import Position, Split
from penstock.connectors.delta.commit_marks import NOTHING_SAID, NamedFile, Standing
from penstock.connectors.delta.table_log import Commit

ERROR: Final = "error"
"""What is done with versions that delete or rewrite rows, if nobody says otherwise: they end the run."""
_USUAL: Final[Mapping[str, Any]] = {"row": 0, "closed": False, "changes": ERROR}
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
    stated: Marks = UNKNOWN
    """In ticks of the input's types."""
    issued: Marks = UNKNOWN
    """What had been stated before the train: rows below it are late."""
    marked: tuple[NamedFile, ...] = ()
    """Files with marks of groups that are stated."""

    @property
    def found_in(self) -> str | None:
        return self.path


@dataclass(frozen=True)
class TablePlace:
    """How far a table has been read: the next version, file and row, and what its writers have said before."""

    version: int
    file: int = 0
    row: int = 0
    said: Standing = NOTHING_SAID
    closed: bool = False
    """Whether all writers have ended, and no version was there behind their last."""
    changes: str = ERROR
    """What was done with versions that delete or rewrite rows, on the way to here."""

    def to_json(self) -> Position:
        found = {"version": self.version, "file": self.file, "row": self.row, **self.said.to_json()}
        found |= {"closed": self.closed, "changes": self.changes}
        # What is as it mostly is goes without saying: a position is written with every batch.
        return {name: value for name, value in found.items() if value != _USUAL.get(name)}

    @staticmethod
    def of(position: Position) -> TablePlace:
        known = {**_USUAL, **position}
        said = Standing.from_json(position)
        return TablePlace(known["version"], known["file"], known["row"], said, known["closed"], known["changes"])

    def is_at(self, other: TablePlace) -> bool:
        """Whether nothing lies between two places."""
        return (self.version, self.file, self.row) == (other.version, other.file, other.row)

    def marks(self) -> Marks:
        """The low-water marks of the table at this place."""
        return self.said.marks() if self.said.writers or self.closed else UNKNOWN

    @property
    def number(self) -> int:
        """Places in order have numbers in order, with one left out between any two."""
        return 2 * ((self.version * _FILES + self.file) * _ROWS + self.row)

    def after(self, commit: Commit, *, listens: bool) -> TablePlace:
        """The place behind a version, for one who listens to what writers say or does not."""
        said = self.said
        if listens and commit.standing is not None:
            said = commit.standing
        elif listens and commit.said is not None:
            said = said.heard(commit.said)
        return TablePlace(self.version + 1, said=said, changes=self.changes)
