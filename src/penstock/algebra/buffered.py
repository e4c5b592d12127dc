"""The Aggregate box of an in-order plan: tuples are buffered, and a window is computed when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.algebra.aggregate import Aggregate


@dataclass(frozen=True)
class BufferedAggregate(Aggregate):
    """Overlapping windows as an in-order system computes them: the buffered implementation of oop.md 4.1."""

    kind: ClassVar[str] = "buffered aggregate"

    def last_window(self, tick: int) -> int:
        """The last window that a tuple belongs to, as they overlap: when it has closed, nobody needs the tuple."""
        return tick // self.window.advance

    def last_needed(self, window: int) -> int:
        """The greatest `last_window` of the tuples in a window.

        Of windows of 3 every 2, window 0 has the ticks 0, 1 and 2, and tick 2 is in window 1 too.
        """
        return (self.window.start_of(window) + self.window.size - 1) // self.window.advance
