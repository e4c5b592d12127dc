"""The Aggregate box: windows on a progressing attribute, groups, and decomposed aggregates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import PaceUse, Port, Stateful
from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import SEQ
from penstock.algebra.joint_punctuation import JointUse, joint_use
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.order import ARRIVAL
from penstock.algebra.source import Source
from penstock.algebra.temporal.properties import Properties
from penstock.algebra.ticks import span_text
from penstock.algebra.window import Window, start_field
from penstock.boxes.aggregate.by_group.box import ByMark, GroupwiseAggregate, Periodic
from penstock.boxes.aggregate.closing import PARTIAL, TUPLES
from penstock.boxes.aggregate.low_level.box import LowLevel

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
    page: ClassVar[str] = "boxes/aggregate.md"
    has_windows: ClassVar[bool] = True

    @property
    def calls_functions(self) -> bool:
        return bool(self.aggregation.called)

    @property
    def tuple_count(self) -> str:
        """The partial that counts tuples."""
        return self.aggregation.tuple_count

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    @cached_property
    def joint(self) -> JointUse | None:
        return joint_use(self.inputs[0], self.on, self.by)

    @property
    def pair_use(self) -> JointUse | None:
        return self.joint

    @cached_property
    def results(self) -> pa.Schema:
        """Of windows: their start, under the name of `on`, the group, and the outputs."""
        source = self.inputs[0].schema
        return pa.schema(
            [start_field(source, self.on), *(source.field(name) for name in self.by), *self.aggregation.output_schema]
        )

    def schema(self, port: int) -> pa.Schema:
        return self.results

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.by

    @property
    def partition(self) -> tuple[str, ...]:
        return self.by

    def timed(self, part: str) -> bool:
        # One time for a window and group is enough, and there can be many held values.
        return part in (PARTIAL, TUPLES)

    @property
    def coded(self) -> frozenset[str]:
        seen = {self.on, *self.aggregation.columns} - self.aggregation.hashed
        return (frozenset(self.by) | self.aggregation.hashed) - seen if self.reduces else frozenset()

    @property
    def keeps_sets(self) -> bool:
        """Whether values that count once can be held as sets of codes: not where groups of a window leave apart."""
        return self.joint is None

    @property
    def reduces(self) -> bool:
        # Sketches are as good as partial aggregates.
        kept_whole = any(held.sketch is None for held in self.aggregation.held)
        return not kept_whole and not self.aggregation.called

    def properties(self, port: int) -> Properties:
        # A window leaves once, and before those that begin later; unless groups close by marks of their own.
        in_order = self.joint is None and not _closes_by_group(self.inputs[0])
        return Properties(insert_only=True, ordered=in_order, strict=in_order and not self.by, unique=True)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return Marks({self.on: self.window.output_mark(inputs[0].of(self.on))}, ended=all_ended(inputs))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        # A tuple is of use to the windows that begin at or before it, and a result has the start of its window.
        if behind[0] is None:
            return None
        return {self.on: self.window.first_start(behind[0][self.on])} if self.on in behind[0] else NO_FLOORS

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # Functions take tuples in order of arrival, where the window attribute does not decide.
        order = (SEQ,) if self.aggregation.called else ()
        return (frozenset((self.on, *self.by, *self.aggregation.columns, *order)),)

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def step(self) -> int:
        return self.window.pane

    @property
    def two_level(self) -> bool:
        """Whether it merges the partial aggregates of a low level of its own: then nothing comes between the two."""
        return isinstance(self.inputs[0].box, LowLevel)

    @property
    def pace_use(self) -> PaceUse | None:
        # Groups that joint punctuation closes do not wait for the band: marks of groups would, behind a join.
        return PaceUse(self.on, self.by, self._paced) if self.joint is None else None

    def _paced(self, marks: Port, groups: tuple[str, ...]) -> Stateful:
        inputs, windows = (*self.inputs, marks), Periodic(self.window)
        return GroupwiseAggregate(
            self.name, inputs, self.aggregation, self.outputs, self.on, windows, self.by, ByMark(groups)
        )

    def order_before(self, slot: int, order: str) -> str:
        return ARRIVAL if self.two_level else super().order_before(slot, order)

    def in_order(self) -> Stateful:
        from penstock.boxes.aggregate.buffered.box import BufferedAggregate

        if self.window.size <= self.window.advance or self.two_level:
            return self
        return BufferedAggregate(**{f.name: getattr(self, f.name) for f in fields(self)})

    def leaves_in_order(self, on: str) -> bool:
        return self.on == on and not self.by

    def exchange(self, slot: int) -> str | None:
        return None if self.two_level else super().exchange(slot)

    def details(self, needed: Collection[str]) -> Sequence[str]:
        pane = span_text(self.window.pane, self.on_type)
        low = f"partial aggregates per pane of {pane}, before the exchange"
        low = f"{self.inputs[0].box.name}, whose partial aggregates are merged" if self.two_level else low
        lines = [f"low level: {low}", f"high level: results leave when {self.on} has passed a window's end"]
        if self.joint is not None:
            lines.append(f"or has in all pairs with their {self.joint.column} (joint punctuation)")
        return lines

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


def _closes_by_group(port: Port) -> bool:
    """Whether an input above has a mark for each group."""
    box = port.box
    return bool(box.policy.groups) if isinstance(box, Source) else any(map(_closes_by_group, box.inputs))
