"""BufferedAggregate (oop.md 4.1): windows over tuples that are kept as they are, for in-order plans.

Keeps every tuple until its last window has closed, in one slot for each such window. When the low-water mark passes the
end of a window, the aggregates are computed over the tuples in it, anew for each of the windows that a tuple is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import ARRIVED, SEQ, carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, to_ticks
from penstock.boxes.aggregate.buffered.box import BufferedAggregate
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.boxes.aggregate.holder import AggregateOp
from penstock.operators.arrays import Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.chunks import GATHER_CHUNKS, add_chunk

TUPLES = "tuples"


class BufferEntryOp:
    """Sends the tuples themselves: nothing is reduced before the window is complete."""

    def __init__(self, box: BufferedAggregate, needed: Sequence[frozenset[str]]) -> None:
        (required,) = box.required(needed)
        self._ordered = SEQ in required
        self._columns = [name for name in box.inputs[0].schema.names if name in required]
        self._gathered: list[pa.Table] = []

    def process(self, slot: int, tuples: pa.Table) -> None:
        hidden = [name for name in carried(tuples) if name != SEQ or self._ordered]
        self._gathered.append(tuples.select([*self._columns, *hidden]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered, self._gathered = self._gathered, []
        if gathered:
            yield TUPLES, pa.concat_tables(gathered)


class BufferedAggregateOp(Holder):
    """Receives tuples; what it lets go of are results, computed as Aggregate's halves would, but all at once."""

    def __init__(self, box: BufferedAggregate, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._arrived: list[pa.Table] = []
        self._floors: Sequence[Floors] = (NO_FLOORS,)
        self.released = 0
        """Tuples whose last window has closed, since this operator was made."""

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def purge(self, floors: Sequence[Floors]) -> int:
        self._floors = floors
        floor = floors[0].get(self._box.on)
        return 0 if floor is None else self._drop(self._box.window.first_not_before(floor) - 1)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = marks[0].of(self._box.on), self._slots.get_mark()
        self._keep()
        if mark <= before:
            return
        last = self._box.window.last_closed(mark)
        tuples = self._within(last)
        if tuples is not None:
            yield from self._results(tuples, marks, now)
        self._slots.set_mark(mark)
        self.released += self._drop(last)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        still, window = self._open(marks), self._box.window
        return [(0, self._box.on, window.start_of(min(lo for lo, _ in still)) + window.size)] if still else []

    def open_windows(self, marks: Sequence[Marks]) -> int:
        """How many windows may hold tuples and wait for punctuation."""
        return len({w for lo, hi in self._open(marks) for w in range(lo, hi + 1)})

    def _open(self, marks: Sequence[Marks]) -> list[tuple[int, int]]:
        """For each slot, the first and last window that its tuples can be in and that is not closed."""
        window, mark = self._box.window, marks[0].of(self._box.on)
        closed = window.last_closed(mark) if mark != BEGINNING else None
        spans = [((window.start_of(n) - window.size) // window.advance + 1, n) for n in self._slots.numbers()]
        return [
            (lo if closed is None else max(lo, closed + 1), hi) for lo, hi in spans if closed is None or hi > closed
        ]

    def _keep(self) -> None:
        """Add what arrived to the slots of their last windows, in order of arrival where that matters."""
        arrived, self._arrived = [t for t in self._arrived if t.num_rows], []
        if not arrived:
            return
        tuples = in_arrival_order(arrived) if SEQ in arrived[0].column_names else pa.concat_tables(arrived)
        windows: Numbers = np.floor_divide(to_ticks(tuples.column(self._box.on)).to_numpy(), self._box.window.advance)
        for slot, own in parted(tuples, windows):
            add_chunk(self._slots, slot, TUPLES, own, GATHER_CHUNKS)

    def _within(self, last: int) -> pa.Table | None:
        """The tuples of all windows up to the last that closes; those of closed ones are gone already."""
        until = self._box.last_needed(last)
        chunks = [c for n in self._slots.numbers() if n <= until for c in self._slots.chunks(n, TUPLES)]
        return pa.concat_tables(chunks) if chunks else None

    def _results(self, tuples: pa.Table, marks: Sequence[Marks], now: int) -> Departures:
        if SEQ in tuples.column_names:
            # Slots ascend with the window attribute and chunks with arrival: together they are the order of functions.
            places = pa.array(np.arange(tuples.num_rows, dtype=np.int64))
            tuples = tuples.set_column(tuples.column_names.index(SEQ), SEQ, places)
        reduce, close = SubAggregateOp(self._box), AggregateOp(self._box, _Nothing(self._slots.get_mark()))
        close.purge(self._floors)
        reduce.process(0, tuples)
        for part, partials in reduce.flush():
            stamped = ARRIVED in partials.column_names
            arrived = pa.repeat(pa.scalar(now, pa.int64()), partials.num_rows)
            close.receive(part, partials if stamped else partials.append_column(ARRIVED, arrived))
        yield from close.punctuate(marks, now)

    def _drop(self, last: int) -> int:
        """Let go of the tuples whose last window is not after one; how many there are."""
        gone = 0
        for slot in (n for n in self._slots.numbers() if n <= last):
            gone += sum(c.num_rows for c in self._slots.chunks(slot, TUPLES))
            self._slots.drop(slot)
        return gone


class _Nothing:
    """The slots of an operator that is made for one batch: it has the mark, and remembers nothing."""

    def __init__(self, mark: int) -> None:
        self._mark = mark

    def numbers(self) -> Sequence[int]:
        return ()

    def chunks(self, slot: int, part: str) -> Sequence[pa.Table]:
        return ()

    def count(self, slot: int, part: str) -> int:
        return 0

    def append(self, slot: int, part: str, tuples: pa.Table) -> None:
        """Forgotten."""

    def replace(self, slot: int, part: str, tuples: pa.Table) -> None:
        """Forgotten."""

    def drop(self, slot: int) -> None:
        """There is none."""

    def rows(self) -> int:
        return 0

    def get_mark(self) -> int:
        return self._mark

    def set_mark(self, mark: int) -> None:
        self._mark = mark
