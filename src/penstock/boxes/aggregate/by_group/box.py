"""The Aggregate box whose windows open or close group by group: by arrival, by tuple number, by predicate, by timeout.

```
                 a window starts at                                and closes when
 Periodic        w * advance                                       the low-water mark has reached its end, of the
                                                                   stream or of the group (policies with by=), or
                 first + w * advance  (origin="first")             the frontier of the group has (assuming=), or
 Opening         the value of every tuple of a predicate           the group has that many tuples (Tup#),
                                                                   at the latest after the timeout
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import PaceUse, Port, Stateful
from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, only_end
from penstock.algebra.order import ARRIVAL, TUPLE_NUMBER, Order
from penstock.algebra.ticks import BEGINNING, END, span_text
from penstock.algebra.window import Window

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Periodic:
    """Windows at regular distances: from the epoch on, or from the first value of each group."""

    window: Window
    from_first: bool = False

    @property
    def size(self) -> int:
        return self.window.size

    def describe(self, on_type: pa.DataType) -> str:
        advance = span_text(self.window.advance, on_type)
        return f"advance {advance}{' from the first value' if self.from_first else ''}"


@dataclass(frozen=True)
class Opening:
    """A window of a group starts at the value of every tuple for which the predicate holds."""

    size: int
    predicate: Expression

    def describe(self, on_type: pa.DataType) -> str:
        return f"opened by {self.predicate.text}"


@dataclass(frozen=True)
class ByMark:
    """A group has come as far as the low-water mark of the stream, or its own if that is further."""

    groups: tuple[str, ...] = ()
    """The columns of `by` whose groups have marks of their own: the second input brings them."""

    def describe(self) -> list[str]:
        return [f"each group of {', '.join(self.groups)} by its own mark"] if self.groups else []


@dataclass(frozen=True)
class ByOrder:
    """A group has come as far as its order of arrival shows; who is further out of order is late."""

    order: Order

    def describe(self) -> list[str]:
        return [self.order.describe()]


@dataclass(frozen=True)
class ByCount:
    """Windows are on the numbers of tuples, and a group has come as far as it has tuples."""

    partial: bool = False
    """Whether windows that are not full leave at the end of the input."""

    def describe(self) -> list[str]:
        return ["partial windows too"] if self.partial else []


Pace = ByMark | ByOrder | ByCount
"""What tells how far a group has come."""


@dataclass(frozen=True)
class GroupwiseAggregate(Stateful):
    """SQuAl Aggregate with an order specification, a timeout, a predicate, tuple numbers or an origin (aurora.md
    5.2.2.2)."""

    aggregation: Aggregation
    outputs: tuple[tuple[str, str], ...]
    on: str
    windows: Periodic | Opening
    by: tuple[str, ...] = ()
    pace: Pace = ByMark()
    timeout: int | None = None
    """In microseconds."""

    kind: ClassVar[str] = "aggregate"
    page: ClassVar[str] = "boxes/windows.md"
    has_windows: ClassVar[bool] = True
    LATE: ClassVar[int] = 1
    MARKS: ClassVar[str] = "marks"
    """The part of its traffic with the marks of groups."""

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late") if self.sets_aside else ("",)

    @property
    def sets_aside(self) -> bool:
        """Whether tuples can come too late for the box, other than by violating punctuation."""
        return isinstance(self.pace, ByOrder) or self.timeout is not None

    @property
    def numbered(self) -> bool:
        """Whether windows are on tuple numbers, and not on a column that has their name."""
        return isinstance(self.pace, ByCount)

    @property
    def by_mark(self) -> bool:
        """Whether low-water marks close its windows."""
        return isinstance(self.pace, ByMark)

    @property
    def paced(self) -> tuple[str, ...]:
        return self.pace.groups if isinstance(self.pace, ByMark) else ()

    @property
    def calls_functions(self) -> bool:
        return bool(self.aggregation.called)

    @property
    def tuple_count(self) -> str:
        """The partial that counts tuples."""
        return self.aggregation.tuple_count

    @property
    def on_type(self) -> pa.DataType:
        return pa.int64() if self.numbered else self.inputs[0].schema.field(self.on).type

    @property
    def start_type(self) -> pa.DataType:
        """Of window starts: the first may lie below the smallest value of a narrow or unsigned integer."""
        return pa.int64() if pa.types.is_integer(self.on_type) else self.on_type

    def schema(self, port: int) -> pa.Schema:
        source = self.inputs[0].schema
        if port == self.LATE:
            return source
        start = pa.field(self.on, self.start_type)
        return pa.schema([start, *(source.field(name) for name in self.by), *self.aggregation.output_schema])

    def keys(self, slot: int) -> tuple[str, ...]:
        # The frontier of a coarser group closes the windows of all its finer ones, so these stay together.
        return self.pace.order.by if isinstance(self.pace, ByOrder) else self.paced or self.by

    def slot_of(self, part: str) -> int:
        return int(part == self.MARKS)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.keys(0)

    @property
    def coded(self) -> frozenset[str]:
        # Groups are numbered more than once; but who looks at tuples as such shall see texts.
        shown = {self.on, *self.aggregation.columns, *self.aggregation.whole}
        plain = self.sets_aside or isinstance(self.windows, Opening)
        return frozenset() if plain else frozenset(self.by) - shown

    @property
    def alone(self) -> bool:
        """Whether one group alone decides how far the box has come."""
        return not self.keys(0)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        ended = only_end(inputs)
        if port == self.LATE:
            return ended
        if not self.by_mark:
            # A new group may begin with any value; and what is held is known to the holder alone.
            known = self.alone or (inputs[0].has(self.on) and not self.numbered)
            return ended.with_rising({self.on: ended.end}) if known else ended
        mark = inputs[0].of(self.on)
        if isinstance(self.windows, Periodic) and not self.windows.from_first:
            return ended.with_rising({self.on: self.windows.window.output_mark(mark)})
        return ended.with_rising({self.on: self.lowest_open(mark)})

    def lowest_open(self, mark: int) -> int:
        """The lowest tick at which a window can start that a low-water mark leaves open.

        At other ticks than multiples of `advance`: then `size - 1` before the mark.
        """
        return mark if mark in (BEGINNING, END) else max(BEGINNING, mark - self.windows.size + 1)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        used = {*self.by, *self.aggregation.columns}
        used |= {SEQ} if not self.by_mark or self.aggregation.called else set()
        used |= set(self.windows.predicate.columns) if isinstance(self.windows, Opening) else set()
        used = used - {TUPLE_NUMBER} if self.numbered else used | {self.on}
        tuples = frozenset(used).union(*port_columns[self.LATE :])
        return (tuples, frozenset((self.on, *self.paced))) if self.paced else (tuples,)

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def pace_use(self) -> PaceUse | None:
        return PaceUse(self.on, self.by, self._paced) if self.by_mark else None

    def _paced(self, marks: Port, groups: tuple[str, ...]) -> Stateful:
        return replace(self, inputs=(*self.inputs, marks), pace=ByMark(groups))

    def order_before(self, slot: int, order: str) -> str:
        return ARRIVAL if self.sets_aside else super().order_before(slot, order)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.aggregate.by_group.workers import GroupwiseEntry

        return GroupwiseEntry(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.aggregate.by_group.workers import GroupwiseOp

        return GroupwiseOp(self, slots, needed)

    def describe(self) -> str:
        calls = ", ".join(f"{name}={text}" for name, text in self.outputs)
        parts = [f"{calls} on {self.on}", f"size {span_text(self.windows.size, self.on_type)}"]
        parts.append(self.windows.describe(self.on_type))
        by = f" by {', '.join(self.by)}" if self.by else ""
        timeout = [] if self.timeout is None else [f"timeout {span_text(self.timeout, pa.timestamp('us'))}"]
        # What a count says of windows that are not full comes last.
        closed = [*timeout, *self.pace.describe()] if self.numbered else [*self.pace.describe(), *timeout]
        return ", ".join([*parts[:-1], parts[-1] + by, *closed])
