"""What the catalog says of a run: its name, where its checkpoint is, and the parts of its network that others use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.errors import QueryError

INPUT: Final = "input"
OUTPUT: Final = "output"
POINT: Final = "point"
TABLE: Final = "table"
VIEW: Final = "view"
"""One that is computed when it is read; others are points."""
_NAME: Final = re.compile(r"\w[\w.-]*")
_OTHER: Final = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class PartEntry:
    """An input, an output, a connection point or a static table of a run."""

    kind: str
    name: str
    place: str
    """Where it is: a path, or in words."""
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    keeps: str = ""
    """How much of it is kept, in words; nothing where that is nobody's question."""


@dataclass(frozen=True)
class RunEntry:
    """A run. All of it is a hint: what is true stands in the checkpoint."""

    name: str
    place: str
    """Its checkpoint."""
    run: str
    """What the checkpoint calls itself: one that has been moved is known by it."""
    network: str
    entered: int
    """When it started last, in microseconds since the epoch."""
    disk: str = ""
    """What it may take up on disks, in words; nothing if there is no limit."""
    parts: tuple[PartEntry, ...] = ()

    def of_kind(self, *kinds: str) -> list[PartEntry]:
        return [part for part in self.parts if part.kind in kinds]


def check_name(name: str) -> None:
    """Refuse what is no name of a run, or could be taken for a path."""
    if not _NAME.fullmatch(name):
        raise QueryError(
            f"{name!r} is no name of a run",
            expected="letters, digits, dots, dashes and underscores, with a letter or digit at the beginning",
        )


def name_for(network: str) -> str:
    """What a run of a network is called, if nobody says otherwise.

    >>> name_for("calls"), name_for("calls of / today")
    ('calls', 'calls-of-today')
    """
    return _OTHER.sub("-", network).strip("-.") or "network"
