"""The Top box: the n best tuples of every window and group."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.temporal.properties import Properties
from penstock.algebra.ticks import span_text, within
from penstock.algebra.window import Window, start_field

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots

WINDOW: Final = "window"
"""The attribute of results with the start of their window."""
RANK: Final = "rank"
"""The attribute with their place in it, from 1."""


@dataclass(frozen=True)
class Top(Stateful):
    """The n tuples with the largest value of an expression, in every window of a progressing attribute and group.

    Windows are those of Aggregate (oop.md 5.2), so panes are shared as well: the best of a window are among the best of
    its panes. Ties go to the tuple with the smaller `on`, then to the one that arrived first.
    """

    n: int
    by: Expression
    on: str
    window: Window
    groups: tuple[str, ...] = ()
    ascending: bool = False
    """Whether the smallest values are the best."""

    kind: ClassVar[str] = "top"
    page: ClassVar[str] = "boxes/top.md"
    has_windows: ClassVar[bool] = True

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    @property
    def start_type(self) -> pa.DataType:
        return start_field(self.inputs[0].schema, self.on).type

    @property
    def reduces(self) -> bool:
        return True

    def schema(self, port: int) -> pa.Schema:
        return pa.schema([pa.field(WINDOW, self.start_type), pa.field(RANK, pa.int64()), *self.inputs[0].schema])

    def properties(self, port: int) -> Properties:
        # Windows leave in order; those who tie are put in order of their rank.
        return Properties(insert_only=True, ordered=True, deterministic=not self.groups)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # What leaves later is in a window that is open now, and not before its start.
        start = self.window.output_mark(inputs[0].of(self.on))
        return Marks({WINDOW: start, self.on: within(start, self.on_type)}, ended=all_ended(inputs))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        if behind[0] is None:
            return None
        found = [self.window.first_start(behind[0][WINDOW])] if WINDOW in behind[0] else []
        if self.on in behind[0]:
            # A tuple of no use has a rank all the same, in the windows that hold one of use.
            found.append(self.window.first_start_reaching(behind[0][self.on]))
        return {self.on: max(found)} if found else NO_FLOORS

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return ((port_columns[0] - {WINDOW, RANK}) | {SEQ, self.on, *self.groups, *self.by.columns},)

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.groups

    @property
    def partition(self) -> tuple[str, ...]:
        return self.groups

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def step(self) -> int:
        return self.window.pane

    def leaves_in_order(self, on: str) -> bool:
        return on == WINDOW and not self.groups

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.top.workers import TopEntryOp

        return TopEntryOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.top.workers import TopOp

        return TopOp(self, slots, needed)

    def describe(self) -> str:
        best = f"the {self.n} {'smallest' if self.ascending else 'largest'} {self.by.text}"
        size, advance = (span_text(n, self.on_type) for n in (self.window.size, self.window.advance))
        groups = f" by {', '.join(self.groups)}" if self.groups else ""
        return f"{best} on {self.on}, size {size}, advance {advance}{groups}"

    def details(self, needed: Collection[str]) -> Sequence[str]:
        pane = span_text(self.window.pane, self.on_type)
        return (f"keeps the best {self.n} of each pane of {pane}{' and group' if self.groups else ''}",)
