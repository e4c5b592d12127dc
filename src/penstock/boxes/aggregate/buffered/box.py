"""The Aggregate box of an in-order plan: tuples are buffered, and a window is computed when it is complete."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.algebra.box import PaceUse, Stateful
from penstock.algebra.joint_punctuation import JointUse
from penstock.boxes.aggregate.box import Aggregate

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class BufferedAggregate(Aggregate):
    """Overlapping windows as an in-order system computes them: the buffered implementation of oop.md 4.1."""

    kind: ClassVar[str] = "buffered aggregate"
    page: ClassVar[str] = "in-order.md"

    @property
    def reduces(self) -> bool:
        return False

    def timed(self, part: str) -> bool:
        return True

    @property
    def pair_use(self) -> JointUse | None:
        # A window that is only computed once it is complete has no groups that could leave before.
        return None

    @property
    def keeps_sets(self) -> bool:
        # Windows are computed from the tuples themselves.
        return False

    @property
    def pace_use(self) -> PaceUse | None:
        return None

    def in_order(self) -> Stateful:
        return self

    def details(self, needed: Collection[str]) -> Sequence[str]:
        return ("keeps every tuple until its last window has closed, and then computes that window",)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.aggregate.buffered.workers import BufferEntryOp

        return BufferEntryOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.aggregate.buffered.workers import BufferedAggregateOp

        return BufferedAggregateOp(self, slots)

    def last_window(self, tick: int) -> int:
        """The last window that a tuple belongs to, as they overlap: when it has closed, nobody needs the tuple."""
        return tick // self.window.advance

    def last_needed(self, window: int) -> int:
        """The greatest `last_window` of the tuples in a window.

        Of windows of 3 every 2, window 0 has the ticks 0, 1 and 2, and tick 2 is in window 1 too.
        """
        return (self.window.start_of(window) + self.window.size - 1) // self.window.advance
