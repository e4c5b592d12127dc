"""What boxes and inputs did: counts that add up over places and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BoxWork:
    """What a box did in one batch at one place; counts add up over places and batches.

    >>> BoxWork(tuples_in=3, seconds=0.5) + BoxWork(tuples_in=4, late=1) == BoxWork(tuples_in=7, seconds=0.5, late=1)
    True
    """

    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    """On a core: time in which it waited for one is not counted."""
    released: int = 0
    """For a stateful box: tuples that it has let go of for good."""
    held_rows: int = 0
    """For a stateful box: rows in its state, such as partial aggregates."""
    open_windows: int = 0
    late: int = 0
    """For a box with a late stream: tuples that came too late for it."""
    refused: int = 0
    """For a box with an error stream: tuples that it has refused."""
    calls: int = 0
    """How often it was given tuples: a call costs something, however many they are."""
    skipped: int = 0
    """Left out before it, because they were of no use to anybody any more. They are not in `tuples_in`."""
    purged: int = 0
    """For a stateful box: tuples that it has let go of because they were of no use any more, besides `released`."""

    def __add__(self, more: BoxWork) -> BoxWork:
        return BoxWork(
            self.tuples_in + more.tuples_in,
            self.tuples_out + more.tuples_out,
            self.seconds + more.seconds,
            self.released + more.released,
            self.held_rows + more.held_rows,
            self.open_windows + more.open_windows,
            self.late + more.late,
            self.refused + more.refused,
            self.calls + more.calls,
            self.skipped + more.skipped,
            self.purged + more.purged,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON document; without feedback it is the one that earlier versions of Penstock know."""
        return {name: count for name, count in vars(self).items() if name not in ("skipped", "purged") or count}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> BoxWork:
        return BoxWork(**document)


@dataclass(frozen=True)
class InputCount:
    """Every tuple of an input, accounted for: `read` = `taken` + `late` + `refused` + `skipped` (+ `punctuation`)."""

    read: int = 0
    taken: int = 0
    late: int = 0
    refused: int = 0
    punctuation: int = 0
    skipped: int = 0
    """Left out, because they were of no use to anybody any more."""

    def __add__(self, more: InputCount) -> InputCount:
        return InputCount(
            self.read + more.read,
            self.taken + more.taken,
            self.late + more.late,
            self.refused + more.refused,
            self.punctuation + more.punctuation,
            self.skipped + more.skipped,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON document; without feedback it is the one that earlier versions of Penstock know."""
        return {name: count for name, count in vars(self).items() if name != "skipped" or count}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> InputCount:
        return InputCount(**document)
