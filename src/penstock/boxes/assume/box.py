"""The Assume box: an order specification over a stream, and what violates it set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Marks, Stateful
from penstock.algebra.hidden import ENDED, SEQ, end_of
from penstock.algebra.joint_punctuation import joint_only
from penstock.algebra.order import ARRIVAL, Order

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Assume(Stateful):
    """Passes the tuples that arrive as an order specification says; others leave by the late port (aurora.md 5.2.2)."""

    order: Order

    kind: ClassVar[str] = "assume"
    page: ClassVar[str] = "boxes/windows.md"
    LATE: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late")

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        ended = end_of(marks)
        if port == self.LATE:
            return ended
        # In a stream of groups a new one may begin with anything, so there the order says nothing of what follows.
        deduced = {} if self.order.by or self.order.on in marks[0] else {self.order.on: ended[ENDED]}
        return {**marks[0], **deduced, **ended}

    def joint_marks(self, port: int, inputs: Sequence[Marks]) -> dict[str, int]:
        return {} if port == self.LATE else joint_only(inputs[0])

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((SEQ, self.order.on, *self.order.by)).union(*port_columns),)

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.order.by

    @property
    def partition(self) -> tuple[str, ...]:
        return self.order.by

    def time_of(self, slot: int) -> str:
        return self.order.on

    def order_before(self, slot: int, order: str) -> str:
        # It is defined on arrival, which a sort would destroy.
        return ARRIVAL

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardOp

        return ForwardOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.assume.holder import AssumeOp

        return AssumeOp(self, slots)

    def describe(self) -> str:
        return self.order.describe()
