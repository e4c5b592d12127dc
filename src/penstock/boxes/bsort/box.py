"""The BSort box: an approximate sort with a bounded buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks
from penstock.boxes.on_arrival import OnArrival

if TYPE_CHECKING:
    from penstock.operators.protocol import Holder, Slots


@dataclass(frozen=True)
class BSort(OnArrival):
    """SQuAl BSort (aurora.md 5.2.2.1): a buffer of `slack` + 1 tuples of each group gives up its smallest when full."""

    kind: ClassVar[str] = "bsort"
    page: ClassVar[str] = "boxes/bsort.md"

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # What is in the buffer holds progress back, so only the holder can say how far it has come.
        return Marks(dict.fromkeys(inputs[0].rising, inputs[0].end), ended=inputs[0].ended)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (port_columns[0] | {SEQ, self.order.on, *self.order.by, *self.inputs[0].progressing},)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.bsort.holder import BSortOp

        return BSortOp(self, slots, needed)

    def describe(self) -> str:
        by = f" by {', '.join(self.order.by)}" if self.order.by else ""
        return f"on {self.order.on}, slack {self.order.slack}{by}"
