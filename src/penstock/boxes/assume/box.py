"""The Assume box: an order specification over a stream, and what violates it set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, only_end
from penstock.boxes.on_arrival import OnArrival

if TYPE_CHECKING:
    from penstock.operators.protocol import Holder, Slots


@dataclass(frozen=True)
class Assume(OnArrival):
    """Passes the tuples that arrive as an order specification says; others leave by the late port (aurora.md 5.2.2)."""

    kind: ClassVar[str] = "assume"
    page: ClassVar[str] = "boxes/windows.md"
    LATE: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late")

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.LATE:
            return only_end(inputs)
        # In a stream of groups a new one may begin with anything, so there the order says nothing of what follows.
        stated = inputs[0]
        return stated if self.order.by or stated.has(self.order.on) else stated.with_mark(self.order.on, stated.end)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((SEQ, self.order.on, *self.order.by)).union(*port_columns),)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.assume.holder import AssumeOp

        return AssumeOp(self, slots)

    def describe(self) -> str:
        return self.order.describe()
