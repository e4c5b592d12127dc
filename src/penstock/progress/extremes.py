"""What is known of a shard: the extremes of what it has delivered.

`Extremes` is a monoid: the splits of a shard can be read by different tasks, in any order and any cut, and their
extremes merge to the same whole. A policy turns the whole into a low-water mark.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.algebra.ticks import BEGINNING, END


@dataclass(frozen=True)
class Extremes:
    """The largest value a shard has delivered, the strongest punctuation it has stated, whether it has ended, and when
    it last delivered anything (a clock reading in microseconds since the epoch).

    >>> Extremes(largest=3).merge(Extremes(largest=7)) == Extremes(largest=7).merge(Extremes(largest=3))
    True
    >>> Extremes(largest=3).merge(NOTHING) == Extremes(largest=3)
    True
    """

    largest: int = BEGINNING
    stated: int = BEGINNING
    ended: bool = False
    at: int = 0

    def merge(self, other: Extremes) -> Extremes:
        return Extremes(
            max(self.largest, other.largest),
            max(self.stated, other.stated),
            self.ended or other.ended,
            max(self.at, other.at),
        )


NOTHING = Extremes()


@dataclass(frozen=True)
class Punctuation:
    """Every later tuple has `attribute >= value` (in ticks)."""

    attribute: str
    value: int

    @property
    def is_end(self) -> bool:
        return self.value == END
