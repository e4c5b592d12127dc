"""Top at work: the best tuples of panes where the tuples are, those of windows when punctuation closes them.

Keeps the n best tuples of every group in each pane that an open window still needs, one slot per pane, in order of
arrival. When the low-water mark passes the end of a window, its panes give it their best, and panes that no window
needs are let go. No more than n tuples of a pane and group are sent by a task or kept for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.expression import evaluate
from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED, SEQ, carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, from_ticks
from penstock.boxes.top.box import RANK, WINDOW, Top
from penstock.operators.arrays import Numbers, ranged, ticks_of
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.gathering import Gathering
from penstock.operators.groups import number, parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.chunks import add_chunk

TUPLES: Final = "tuples"
VALUE: Final = "#value"
"""The value that tuples are compared by."""


class TopEntryOp:
    """Sends the best of its own tuples, for each pane and group."""

    def __init__(self, box: Top, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        (required,) = box.required(needed)
        self._columns = [name for name in box.inputs[0].schema.names if name in required]
        self._gathering = Gathering(lambda tuples: best_of_panes(box, tuples))

    def process(self, slot: int, tuples: pa.Table) -> None:
        window = self._box.window
        if window.advance > window.size:
            inside = np.mod(ticks_of(tuples, self._box.on), window.advance) < window.size
            tuples = tuples if inside.all() else tuples.filter(pa.array(inside))
        (value,) = evaluate((("value of by=", self._box.by),), tuples).columns
        value = value.cast(value.type.value_type) if pa.types.is_dictionary(value.type) else value
        self._gathering.add(tuples.select([*self._columns, *carried(tuples)]).append_column(VALUE, value))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        if (tuples := self._gathering.take()) is not None:
            yield TUPLES, tuples


class TopOp(Holder):
    """Receives the best of panes; what it lets go of are the best of windows, with their ranks."""

    def __init__(self, box: Top, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._columns = [name for name in box.inputs[0].schema.names if name in needed[0]]
        self._arrived: list[pa.Table] = []
        self._first_useful: int | None = None
        """The first window whose best are of use to anybody, if not all are."""
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def purge(self, floors: Sequence[Floors]) -> int:
        if (floor := floors[0].get(self._box.on)) is None:
            return 0
        # A floor is where a window starts, and so a pane.
        self._first_useful = self._box.window.first_not_before(floor)
        return self._drop(pane for pane in self._slots.numbers() if pane * self._box.window.pane < floor)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        window = self._box.window
        mark, before = marks[0].of(self._box.on), self._slots.get_mark()
        arrived = in_arrival_order(self._arrived).drop_columns([SEQ]) if self._arrived else None
        self._arrived = []
        if mark > before:
            first, last = window.last_closed(before) + 1, window.last_closed(mark)
            first = first if self._first_useful is None else max(first, self._first_useful)
            results = self._close(arrived, first, last)
            self._slots.set_mark(mark)
            arrived = None if arrived is None else self._still_needed(arrived, last)
            self.released += self._drop(p for p in self._slots.numbers() if window.last_of_pane(p) <= last)
            if results is not None:
                yield 0, results
        if arrived is not None:
            self._keep(arrived)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        window, still = self._box.window, self._open(marks)
        return [(0, self._box.on, window.start_of(min(first for first, _ in still)) + window.size)] if still else []

    def open_windows(self, marks: Sequence[Marks]) -> int:
        return len({window for first, last in self._open(marks) for window in range(first, last + 1)})

    def _open(self, marks: Sequence[Marks]) -> list[tuple[int, int]]:
        """For each pane that an open window needs, the first and the last of these that are of use."""
        still = self._box.window.still_open(self._slots.numbers(), marks[0].of(self._box.on))
        useful = self._first_useful
        return still if useful is None else [(max(first, useful), last) for first, last in still]

    def _close(self, arrived: pa.Table | None, first: int, last: int) -> pa.Table | None:
        """The best of the windows first..last that hold any tuple; windows ascending, and ranks in a window."""
        closing = [pane for pane in self._slots.numbers() if self._box.window.first_of_pane(pane) <= last]
        # Tuples of one pane are in order of arrival: those that are held came before.
        tables = [chunk for pane in closing for chunk in self._slots.chunks(pane, TUPLES)]
        tables += [] if arrived is None else [arrived.select(tables[0].column_names) if tables else arrived]
        if not any(table.num_rows for table in tables):
            return None
        tuples, window = pa.concat_tables(tables), self._box.window
        ticks = ticks_of(tuples, self._box.on)
        # Clamp the infinities to what the data can reach, so that window numbers fit into 64 bits.
        first = max(first, (int(ticks.min()) - window.size) // window.advance + 1)
        last = min(last, int(ticks.max()) // window.advance)
        if last < first:
            return None
        lowest = np.maximum((ticks - window.size) // window.advance + 1, first)
        rows, windows = ranged(lowest, np.minimum(ticks // window.advance, last) + 1)
        chosen, ranks = _best(self._box, tuples, rows, windows)
        return self._results(tuples.take(pa.array(rows[chosen])), windows[chosen], ranks) if len(chosen) else None

    def _results(self, tuples: pa.Table, windows: Numbers, ranks: Numbers) -> pa.Table:
        starts = from_ticks(pa.array(windows * self._box.window.advance), self._box.start_type)
        results = tuples.select([*self._columns, ARRIVED])
        results = results.add_column(0, RANK, pa.array(ranks)).add_column(0, WINDOW, starts)
        return results.take(pa.array(np.lexsort((ranks, windows))))

    def _still_needed(self, tuples: pa.Table, last: int) -> pa.Table:
        """Without the tuples whose last window has closed."""
        kept = ticks_of(tuples, self._box.on) // self._box.window.advance > np.int64(min(max(last, BEGINNING), END))
        self.released += int(len(kept) - kept.sum())
        return tuples if kept.all() else tuples.filter(pa.array(kept))

    def _drop(self, panes: Iterable[int]) -> int:
        """Let go of panes; how many tuples they hold."""
        gone = 0
        for pane in list(panes):
            gone += sum(chunk.num_rows for chunk in self._slots.chunks(pane, TUPLES))
            self._slots.drop(pane)
        return gone

    def _keep(self, arrived: pa.Table) -> None:
        """Add what arrived to the slots of its panes."""
        for pane, own in parted(arrived, _panes(self._box, arrived)):
            add_chunk(self._slots, pane, TUPLES, own, merge=self._reduced)

    def _reduced(self, tuples: pa.Table) -> pa.Table:
        best = best_of_panes(self._box, tuples)
        self.released += tuples.num_rows - best.num_rows
        return best


def best_of_panes(box: Top, tuples: pa.Table) -> pa.Table:
    """Of tuples in order of arrival, the best of each pane and group, in their order."""
    chosen, _ = _best(box, tuples, np.arange(tuples.num_rows, dtype=np.int64), _panes(box, tuples))
    return tuples if len(chosen) == tuples.num_rows else tuples.take(pa.array(chosen))


def _panes(box: Top, tuples: pa.Table) -> Numbers:
    return ticks_of(tuples, box.on) // box.window.pane


def _best(box: Top, tuples: pa.Table, rows: Numbers, places: Numbers) -> tuple[Numbers, Numbers]:
    """Of tuples in order of arrival, of which some rows are in a place each: the best of each place and group.

    Given are the places of these in `rows`, ascending, and their ranks.
    """
    _, (groups,) = number([tuples], box.groups)
    candidates = pa.table(
        {
            "place": places,
            "part": groups[rows],
            "value": tuples.column(VALUE).take(pa.array(rows)),
            "tick": ticks_of(tuples, box.on)[rows],
            "row": rows,
            "number": np.arange(len(rows), dtype=np.int64),
        }
    )
    order = f"value {'ASC' if box.ascending else 'DESC'} NULLS LAST, tick, row"
    rank = f"row_number() OVER (PARTITION BY place, part ORDER BY {order})"
    query = f"SELECT number, {rank} AS rank FROM candidates QUALIFY rank <= {box.n} ORDER BY number"
    found = kernel.run(query, candidates=candidates)
    return found.column("number").to_numpy(), found.column("rank").to_numpy()
