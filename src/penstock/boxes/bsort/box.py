"""The BSort box: an approximate sort with a bounded buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Marks, Stateful
from penstock.algebra.hidden import ENDED, SEQ, end_of, visible
from penstock.algebra.order import ARRIVAL, Order

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class BSort(Stateful):
    """SQuAl BSort (aurora.md 5.2.2.1): a buffer of `slack` + 1 tuples of each group gives up its smallest when full."""

    order: Order

    kind: ClassVar[str] = "bsort"
    page: ClassVar[str] = "boxes/bsort.md"

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        # What is in the buffer holds progress back, so only the holder can say how far it has come.
        ended = end_of(marks)
        return dict.fromkeys(visible(marks[0]), ended[ENDED]) | ended

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (port_columns[0] | {SEQ, self.order.on, *self.order.by, *self.inputs[0].progressing},)

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
        from penstock.boxes.bsort.holder import BSortOp

        return BSortOp(self, slots, needed)

    def describe(self) -> str:
        by = f" by {', '.join(self.order.by)}" if self.order.by else ""
        return f"on {self.order.on}, slack {self.order.slack}{by}"
