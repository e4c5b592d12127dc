"""The Aggregate box: windows on a progressing attribute, groups, and decomposed aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Marks, Stateful
from penstock.algebra.expressions.decomposition import Aggregation
from penstock.algebra.hidden import SEQ, end_of
from penstock.algebra.joint_punctuation import JointUse, joint_use
from penstock.algebra.ticks import span_text
from penstock.algebra.window import Window

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Aggregate(Stateful):
    """SQuAl Aggregate over windows of a progressing attribute, order-agnostic (oop.md 5.2, A.2.2)."""

    aggregation: Aggregation
    outputs: tuple[tuple[str, str], ...]
    on: str
    window: Window
    by: tuple[str, ...] = ()

    kind: ClassVar[str] = "aggregate"

    @property
    def tuple_count(self) -> str:
        """The partial that counts tuples."""
        return self.aggregation.tuple_count

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    @cached_property
    def joint(self) -> JointUse | None:
        """How it can use joint punctuation, if its input may state any."""
        return joint_use(self.inputs[0], self.on, self.by)

    def schema(self, port: int) -> pa.Schema:
        source = self.inputs[0].schema
        return pa.schema(
            [start_field(source, self.on), *(source.field(name) for name in self.by), *self.aggregation.output_schema]
        )

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.by

    @property
    def partition(self) -> tuple[str, ...]:
        return self.by

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        return {self.on: self.window.output_mark(marks[0][self.on])} | end_of(marks)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # Functions take tuples in order of arrival, where the window attribute does not decide.
        order = (SEQ,) if self.aggregation.called else ()
        return (frozenset((self.on, *self.by, *self.aggregation.columns, *order)),)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.aggregate.entry import SubAggregateOp

        return SubAggregateOp(self)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.aggregate.holder import AggregateOp
        from penstock.boxes.aggregate.joint_holder import JointAggregateOp

        return AggregateOp(self, slots) if self.joint is None else JointAggregateOp(self, slots, self.joint)

    def describe(self) -> str:
        calls = ", ".join(f"{name}={text}" for name, text in self.outputs)
        by = f" by {', '.join(self.by)}" if self.by else ""
        size, advance = (span_text(n, self.on_type) for n in (self.window.size, self.window.advance))
        return f"{calls} on {self.on}, size {size}, advance {advance}{by}"


def start_field(schema: pa.Schema, on: str) -> pa.Field:
    """Where windows or panes start: the first may lie below the smallest value of a narrow or unsigned integer."""
    kind = schema.field(on).type
    return pa.field(on, pa.int64() if pa.types.is_integer(kind) else kind)
