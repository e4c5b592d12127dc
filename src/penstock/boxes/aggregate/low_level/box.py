"""The low level of a two-level aggregate as a box of its own: a fixed-size direct-mapped table, and when it is flushed.

    tuples ──> LowLevel: at most `table` partial aggregates ──> partials ──> Aggregate: merges them, closes windows

Both are in the same stage and bucket, since they have the same keys. What the table holds of a pane that is complete is
*old*. A flush policy says when old entries leave besides those that a collision ejects, and so how far punctuation may
stay behind: no pane below `first_kept` is ever left in the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.ticks import BEGINNING, END, span_text
from penstock.algebra.window import Window, start_field

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Flush(ABC):
    """When old entries leave the table."""

    name: ClassVar[str]

    @abstractmethod
    def first_kept(self, window: Window, mark: int) -> int:
        """The first pane that may still be in the table at a low-water mark: all before it have left."""

    @abstractmethod
    def deadline(self, window: Window, pane: int) -> int:
        """The low-water mark at which a pane has left, whatever arrives."""

    @abstractmethod
    def describe(self) -> str:
        """In a few words, for explain."""


@dataclass(frozen=True)
class AtOnce(Flush):
    """All old entries leave in the batch that makes them old."""

    name: ClassVar[str] = "at-once"

    def first_kept(self, window: Window, mark: int) -> int:
        return mark if mark in (BEGINNING, END) else mark // window.pane

    def deadline(self, window: Window, pane: int) -> int:
        return (pane + 1) * window.pane

    def describe(self) -> str:
        return "all old entries leave at once"


@dataclass(frozen=True)
class Delayed(Flush):
    """Old entries may stay until `delay` more windows are complete."""

    delay: int = 2

    def first_kept(self, window: Window, mark: int) -> int:
        """The first pane that no window needs which is complete for `delay` windows.

        >>> minute = Window(60, 60)
        >>> [Lazy(2).first_kept(minute, mark) for mark in (0, 120, 180, 239, 240)]
        [-2, 0, 1, 1, 2]
        >>> [Lazy(1).first_kept(Window(4, 2), mark) for mark in (4, 6, 8)]
        [1, 2, 3]
        """
        if mark in (BEGINNING, END):
            return mark
        overdue = window.start_of(window.last_closed(mark) - self.delay) + window.size
        return max(BEGINNING, min(mark, overdue) // window.pane)

    def deadline(self, window: Window, pane: int) -> int:
        return window.start_of(window.first_of_pane(pane) + self.delay) + window.size

    def describe(self) -> str:
        return f"all after {_windows(self.delay)}"


@dataclass(frozen=True)
class Lazy(Delayed):
    """Only collisions eject entries, until the delay is over."""

    name: ClassVar[str] = "lazy"

    def describe(self) -> str:
        return f"old entries leave on collision, {super().describe()}"


@dataclass(frozen=True)
class Slow(Delayed):
    """One old entry leaves for every `every` tuples that arrive, in table order."""

    every: int = 160

    name: ClassVar[str] = "slow"

    def describe(self) -> str:
        return f"an old entry leaves for every {_tuples(self.every)}, {super().describe()}"


@dataclass(frozen=True)
class InOrder(Slow):
    """Slow, and in order: before an entry leaves, all entries of earlier panes do (oop.md, Fig. 7).

    A new window makes the last one old, and what was old already leaves: so the delay is one window.
    """

    delay: int = 1
    every: int = 1

    name: ClassVar[str] = "in-order"

    def describe(self) -> str:
        return f"{super().describe()}, and all old ones before one that is not"


@dataclass(frozen=True)
class LowLevel(Stateful):
    """Partial aggregates in a direct-mapped table that lives across batches (oop.md 6, heartbeat.md 4.4)."""

    aggregation: Aggregation
    on: str
    window: Window
    by: tuple[str, ...]
    table: int
    """Entries of the table, in every bucket."""
    flush: Flush

    kind: ClassVar[str] = "low-level"
    page: ClassVar[str] = "smoothing.md"

    @property
    def tuple_count(self) -> str:
        """The partial that counts tuples."""
        return self.aggregation.tuple_count

    @property
    def coded(self) -> frozenset[str]:
        return frozenset(self.by) - {self.on, *self.aggregation.columns} if self.reduces else frozenset()

    @property
    def reduces(self) -> bool:
        return True

    def schema(self, port: int) -> pa.Schema:
        source = self.inputs[0].schema
        return pa.schema(
            [start_field(source, self.on), *(source.field(name) for name in self.by), *self.aggregation.partial_schema]
        )

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.by

    @property
    def partition(self) -> tuple[str, ...]:
        return self.by

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # What is certain, whatever the table holds: so nobody asks for a timestamp that would release nothing.
        kept = self.start_of(self.flush.first_kept(self.window, inputs[0].of(self.on)))
        return Marks({self.on: kept}, ended=all_ended(inputs))

    def start_of(self, pane: int) -> int:
        """Where a pane starts, in ticks."""
        return pane if pane in (BEGINNING, END) else max(BEGINNING, pane * self.window.pane)

    def in_order(self) -> LowLevel:
        """The same as a system that keeps its streams in order flushes it: what leaves a bucket is in order."""
        every = self.flush.every if isinstance(self.flush, Slow) else InOrder.every
        return replace(self, flush=InOrder(every=every))

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((self.on, *self.by, *self.aggregation.columns)),)

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def step(self) -> int:
        return self.window.pane

    def leaves_in_order(self, on: str) -> bool:
        # The high level behind it is in the same buckets, and each of these is in order.
        return self.on == on

    def details(self, needed: Collection[str]) -> Sequence[str]:
        return (
            f"table: {self.table:,} entries in every bucket, a place for each group by its hash",
            f"flush {self.flush.name}: {self.flush.describe()}",
        )

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.aggregate.entry import SubAggregateOp

        return SubAggregateOp(self)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.aggregate.low_level.holder import LowLevelOp

        return LowLevelOp(self, slots)

    def describe(self) -> str:
        pane = span_text(self.window.pane, self.inputs[0].schema.field(self.on).type)
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"partial aggregates per pane of {pane}{by}"


def rolled_up(aggregation: Aggregation) -> Aggregation:
    """The same aggregates over partial rows in the place of tuples: what the high level computes."""
    names = tuple(aggregation.partial_schema.names)
    return replace(aggregation, partials=aggregation.merges, columns=names)


def _windows(number: int) -> str:
    return "1 more window" if number == 1 else f"{number} more windows"


def _tuples(number: int) -> str:
    return "tuple" if number == 1 else f"{number} tuples"
