"""The Resample box: for every tuple of one stream, aggregates over the tuples of another that are near it in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, all_ended, only_end
from penstock.algebra.order import ARRIVAL, Order
from penstock.algebra.ticks import BEGINNING, END, span_text

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots

LEFT: Final = "l."
"""What the columns of the left stream begin with in aggregates; those of the right one go by their own names."""


@dataclass(frozen=True)
class Resample(Stateful):
    """SQuAl Resample (aurora.md 5.2.2.4): an asymmetric, semijoin-like alignment of two streams.

    The window of a left tuple t and a group g holds the right tuples u of g with `|t.A - u.B| <= size`; if it holds
    any, one result leaves when it is complete: the group, A, and the aggregates over the window.
    """

    aggregation: Aggregation
    """Over the columns of the right stream, and those of the left one with `LEFT` before their names."""
    outputs: tuple[tuple[str, str], ...]
    on: tuple[str, str]
    """A, of the left stream, and B, of the right one."""
    size: int
    by: tuple[str, ...] = ()
    assuming: Order | None = None
    """How right tuples are expected to arrive; their progress is then deduced group by group, too."""

    kind: ClassVar[str] = "resample"
    page: ClassVar[str] = "boxes/resample.md"
    PARTS: ClassVar[tuple[str, str]] = ("left", "right")
    LATE: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("",) if self.assuming is None else ("", "late")

    def schema(self, port: int) -> pa.Schema:
        left, right = (p.schema for p in self.inputs)
        if port == self.LATE:
            return right
        groups = [right.field(name) for name in self.by]
        return pa.schema([*groups, left.field(self.on[0]), *self.aggregation.output_schema])

    @property
    def left_columns(self) -> tuple[str, ...]:
        """The columns of the left stream that aggregates use."""
        return tuple(c.removeprefix(LEFT) for c in self.aggregation.columns if c.startswith(LEFT))

    @property
    def right_columns(self) -> tuple[str, ...]:
        """The columns of the right stream that aggregates use."""
        return tuple(c for c in self.aggregation.columns if not c.startswith(LEFT))

    def right_mark(self, marks: Marks) -> int:
        """How far the right stream has come on B; where it makes no progress on it, its end is known all the same."""
        return marks.of(self.on[1]) if marks.has(self.on[1]) else marks.end

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.LATE:
            return only_end(inputs[1:])
        left, right = inputs[0].of(self.on[0]), self.right_mark(inputs[1])
        # Left tuples that may still come are not below their own mark; those that wait, wait for the right stream.
        waiting = right if right in (BEGINNING, END) else max(BEGINNING, right - self.size)
        known = {self.on[0]: min(left, waiting)} if inputs[1].has(self.on[1]) else {}
        return Marks(known, ended=all_ended(inputs))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        if self.assuming is not None:
            # Each right tuple says how far its group has come.
            return NO_FLOORS
        if behind[0] is None or self.on[0] not in behind[0]:
            return None if behind[0] is None else NO_FLOORS
        floor = behind[0][self.on[0]]
        near = floor if floor in (BEGINNING, END) else max(BEGINNING, floor - self.size)
        return {self.on[slot]: near if slot else floor}

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        order = () if self.assuming is None else (SEQ,)
        left = frozenset((self.on[0], *self.left_columns, *order))
        right = frozenset((self.on[1], *self.by, *self.right_columns, *order))
        # Tuples that come too late leave whole.
        return left, right.union(*port_columns[self.LATE :])

    def keys(self, slot: int) -> tuple[str, ...] | None:
        # Every group has its own window around a left tuple, so left tuples go wherever there are groups.
        return None if slot == 0 and self.by else self.by

    def slot_of(self, part: str) -> int:
        return self.PARTS.index(part)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.by

    def time_of(self, slot: int) -> str:
        return self.on[slot]

    def order_before(self, slot: int, order: str) -> str:
        return super().order_before(slot, order) if self.assuming is None else ARRIVAL

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.resample.workers import ResampleEntryOp

        return ResampleEntryOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.resample.workers import ResampleOp

        return ResampleOp(self, slots, needed)

    def describe(self) -> str:
        calls = ", ".join(f"{name}={text}" for name, text in self.outputs)
        by = f" by {', '.join(self.by)}" if self.by else ""
        size = span_text(self.size, self.inputs[0].schema.field(self.on[0]).type)
        assuming = f", assuming {self.assuming.describe()}" if self.assuming is not None else ""
        return f"{calls} of {self.inputs[1].name} on {self.on[0]}, {self.on[1]}, size {size}{by}{assuming}"
