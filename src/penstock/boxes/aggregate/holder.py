"""The high-level half of Aggregate: order-agnostic windows closed by punctuation (oop.md 5.2, A.2.2).

Keeps the partial aggregates of every pane that an open window still needs, one slot per pane. When the low-water mark
passes the end of a window, its panes are merged, its results leave once, and panes that no window needs are let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Held
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import from_ticks
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.closing import PARTIAL, TUPLES, WHOLE, WINDOW, all_rows, close_query, table_name
from penstock.boxes.aggregate.entry import PANE, merged, reduced, set_kinds
from penstock.boxes.aggregate.group_windows import Windows
from penstock.boxes.aggregate.kept_sets import KeptSets
from penstock.boxes.aggregate.python_calls import Calls
from penstock.boxes.aggregate.value_sets import sets_part
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import number, parted, repeats
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.sketches.rows import estimated, merging
from penstock.operators.state.chunks import GATHER_CHUNKS, MERGE_CHUNKS, add_chunk

MERGE_ROWS = 1024
"""Rows that are not worth merging before there are that many chunks."""


class AggregateOp(Holder):
    """Receives partial aggregates, not tuples: `receive` is its `process`."""

    def __init__(self, box: Aggregate, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._arrived: dict[str, list[pa.Table]] = {}
        whole = (WHOLE,) if box.aggregation.called else ()
        self._parts = (PARTIAL, *(held.name for held in box.aggregation.held), *whole)
        self._sets = {
            sets_part(held.name): KeptSets(held, kind, box.by, box.window, slots) for held, kind in set_kinds(box)
        }
        self._first_useful: int | None = None
        """The first window whose results are of use to anybody, if not all are."""
        self.released = 0
        """Tuples whose last window has closed, since this operator was made."""

    def receive(self, part: str, partials: pa.Table) -> None:
        if part in self._sets:
            self._sets[part].receive(partials)
            return
        if part not in (PARTIAL, TUPLES) and ARRIVED in partials.column_names:
            # It would make equal held values differ.
            partials = partials.drop_columns([ARRIVED])
        self._arrived.setdefault(part, []).append(partials)

    def purge(self, floors: Sequence[Floors]) -> int:
        if (floor := floors[0].get(self._box.on)) is None:
            return 0
        # A floor is where a window starts, and so a pane.
        self._first_useful = self._box.window.first_not_before(floor)
        return self._drop(pane for pane in self._panes() if pane * self._box.window.pane < floor)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        window = self._box.window
        mark, before = marks[0].of(self._box.on), self._slots.get_mark()
        arrived = self._take()
        if mark > before:
            # Python integers do not overflow, so the infinities need no special case here.
            first, last = window.last_closed(before) + 1, window.last_closed(mark)
            results = self._close(arrived, first, last)
            self._slots.set_mark(mark)
            arrived = {part: self._still_needed(part, tuples, last) for part, tuples in arrived.items()}
            for sets in self._sets.values():
                sets.forget(self._box.window.first_pane_after(last))
            self._purge(last)
            if results is not None:
                yield 0, results
        self._keep(arrived)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        window, still = self._box.window, self._open(marks)
        return [(0, self._box.on, window.start_of(min(first for first, _ in still)) + window.size)] if still else []

    def open_windows(self, marks: Sequence[Marks]) -> int:
        """How many windows hold tuples and wait for punctuation."""
        return len({window for first, last in self._open(marks) for window in range(first, last + 1)})

    def _open(self, marks: Sequence[Marks]) -> list[tuple[int, int]]:
        """For each pane that an open window needs, the first and the last of these that are of use."""
        still = self._box.window.still_open(self._panes(), marks[0].of(self._box.on))
        useful = self._first_useful
        return still if useful is None else [(max(first, useful), last) for first, last in still]

    def _close(self, arrived: dict[str, pa.Table], first: int, last: int) -> pa.Table | None:
        """The results of the windows first..last that hold any tuple."""
        closing = [p for p in self._slots.numbers() if self._box.window.first_of_pane(p) <= last]
        return self._closed(self._gathered(closing, arrived), first, last, closing)

    def _gathered(self, closing: Sequence[int], arrived: dict[str, pa.Table]) -> dict[str, pa.Table]:
        """What some panes hold, and what arrived, by part."""
        tables: dict[str, pa.Table] = {}
        for part in self._parts:
            chunks = [c for p in closing for c in self._slots.chunks(p, part)]
            chunks += [arrived[part]] if part in arrived else []
            if chunks:
                tables[part] = pa.concat_tables(chunks)
        return tables

    def _closed(
        self, tables: dict[str, pa.Table], first: int, last: int, closing: Sequence[int] = ()
    ) -> pa.Table | None:
        """The results of the windows first..last of rows, and of sets in some panes."""
        window = self._box.window
        first = first if self._first_useful is None else max(first, self._first_useful)
        if PARTIAL not in tables or not tables[PARTIAL].num_rows:
            return None
        # Clamp the infinities to what the data can reach, so that window numbers fit into 64 bits.
        panes = pc.min_max(tables[PARTIAL].column(PANE))
        first = max(first, window.first_of_pane(panes["min"].as_py()))
        last = min(last, window.last_of_pane(panes["max"].as_py()))
        if last < first:
            return None
        for held in self._box.aggregation.held:
            keys = [tables[PARTIAL].schema.field(k) for k in (PANE, *self._box.by)]
            tables.setdefault(held.name, pa.schema([*keys, *held.schema]).empty_table())
        kept = tables.pop(WHOLE, None)
        sketches = {held.name: held for held in self._box.aggregation.sketched}
        for name, held in sketches.items():
            tables[name] = self._estimated(held, tables, first, last)
        counted = self._counted(tables, first, last, closing)
        query = close_query(
            replace(self._box.aggregation, held=tuple(counted.get(h.name, h) for h in self._box.aggregation.held)),
            (WINDOW, *self._box.by),
            lambda part: all_rows(part) if part in {*sketches, *counted} else self._in_windows(part, first, last),
            _together(tables[PARTIAL].column(ARRIVED)),
            last if self._in_one_window(panes["min"].as_py(), first, last) else None,
        )
        closed = kernel.run(query, **{table_name(part): table for part, table in tables.items()})
        return self._results(closed, kept) if closed.num_rows else None

    def _estimated(self, held: Held, tables: dict[str, pa.Table], first: int, last: int) -> pa.Table:
        """What the sketches of the windows first..last say, in one row for each window and group."""
        (name,) = held.schema.names
        rows = tables[held.name]
        at = rows.column_names.index(name)
        # The kernel only sees the places of sketches.
        shown = {**tables, held.name: rows.set_column(at, name, pa.array(np.arange(rows.num_rows)))}
        query = self._in_windows(held.name, first, last)
        spread = kernel.run(query, **{table_name(part): table for part, table in shown.items()})
        at = spread.column_names.index(name)
        spread = spread.set_column(at, name, rows.column(name).take(spread.column(name)))
        return estimated(spread, (WINDOW, *self._box.by), held)

    def _counted(self, tables: dict[str, pa.Table], first: int, last: int, closing: Sequence[int]) -> dict[str, Held]:
        """The held values that are counted already, as their sets say; other sets become values again."""
        counted = {}
        for sets in self._sets.values():
            found = sets.counted(closing, tables[sets.held.name], first, last)
            if found is not None:
                tables[sets.held.name] = found.rows
                if found.final:
                    counted[sets.held.name] = sets.counted_held
        return counted

    def _results(self, closed: pa.Table, kept: pa.Table | None) -> pa.Table:
        """Closed windows as tuples; functions are called with the tuples that were kept for them."""
        box, schema = self._box, self._box.results
        names = (WINDOW, *box.by, *(name for name, _ in box.aggregation.finals), ARRIVED)
        columns = dict(zip(names, closed.columns, strict=True))
        starts, kind = pc.multiply(columns[WINDOW], box.window.advance), schema.field(box.on).type
        columns[box.on] = from_ticks(starts, kind)
        if kept is not None:
            # The kernel has types of its own for some keys.
            keys = pa.table([columns[k] for k in box.by], schema=pa.schema([schema.field(k) for k in box.by]))
            _, (theirs, own) = number([keys if box.by else closed, kept], box.by)
            named = list(zip(box.by, keys.columns, strict=True))
            calls = Calls(Windows(theirs, starts.to_numpy()), named, box.on, kind, box.on_type)
            columns |= calls.results(box.aggregation, kept, own, box.window.size)
        return pa.table(
            [columns[name] for name in (*schema.names, ARRIVED)], schema=schema.append(pa.field(ARRIVED, pa.int64()))
        )

    def _in_one_window(self, first_pane: int, first: int, last: int) -> bool:
        """Whether `_in_windows` gives rows of one window alone, the last."""
        return first_pane == last if self._box.window.size == self._box.window.advance else first == last

    def _in_windows(self, part: str, first: int, last: int) -> str:
        """Rows of a part, once for every closing window that contains their pane."""
        window, table = self._box.window, table_name(part)
        pane = quote(PANE)
        if window.size == window.advance:
            return f"SELECT {pane} AS {quote(WINDOW)}, * EXCLUDE ({pane}) FROM {table} WHERE {pane} <= {last}"
        # In units of panes everything is an exact integer, whatever the unit of the attribute.
        size, advance = window.size // window.pane, window.advance // window.pane
        lo = f"-({_floor_division(f'({size} - ({pane} + 1))', advance)})"
        hi = _floor_division(pane, advance)
        spread = f"unnest(range(greatest({lo}, {first}), least({hi}, {last}) + 1))"
        return f"SELECT {spread} AS {quote(WINDOW)}, * EXCLUDE ({pane}) FROM {table}"

    def _take(self) -> dict[str, pa.Table]:
        """What has arrived, by part."""
        arrived, self._arrived = self._arrived, {}
        if (tuples := arrived.pop(TUPLES, None)) is not None:
            arrived.setdefault(PARTIAL, []).append(_reduced(self._box, pa.concat_tables(tuples)))
        return {part: _in_one(part, tables) for part, tables in arrived.items()}

    def _still_needed(self, part: str, tuples: pa.Table, last: int) -> pa.Table:
        """Without the panes whose last window has closed; their tuples are released."""
        window, panes = self._box.window, tuples.column(PANE)
        first = window.first_pane_after(last)
        # Most often all or none, and a look at the bounds shows it.
        lowest, highest = (bound.as_py() for bound in pc.min_max(panes).values())
        if lowest is None or lowest >= first:
            return tuples
        needed = pc.greater_equal(panes, first) if highest >= first else None
        if part == PARTIAL:
            counts = tuples.column(self._box.tuple_count)
            gone = counts if needed is None else counts.filter(pc.invert(needed))
            self.released += int(pc.sum(gone).as_py() or 0)
        return tuples.slice(0, 0) if needed is None else tuples.filter(needed)

    def _purge(self, last: int) -> None:
        self.released += self._drop(p for p in self._slots.numbers() if self._box.window.last_of_pane(p) <= last)

    def _drop(self, panes: Iterable[int]) -> int:
        """Let go of panes; how many tuples they were made of."""
        gone = 0
        for pane in list(panes):
            counts = [c.column(self._box.tuple_count) for c in self._slots.chunks(pane, PARTIAL)]
            gone += sum(pc.sum(c).as_py() or 0 for c in counts)
            self._slots.drop(pane)
        return gone

    def _panes(self) -> Sequence[int]:
        """The panes that hold anything."""
        return self._slots.numbers()

    def _keep(self, arrived: dict[str, pa.Table]) -> None:
        """Add what arrived to the slots of its panes."""
        for sets in self._sets.values():
            sets.keep()
        distinct = {held.name for held in self._box.aggregation.held if held.distinct}
        merges: dict[str, Callable[[pa.Table], pa.Table]] = dict.fromkeys(distinct, _distinct)
        merges |= {held.name: merging(held, (PANE, *self._box.by)) for held in self._box.aggregation.sketched}
        for part, tuples in arrived.items():
            merge = self._merged if part == PARTIAL else merges.get(part)
            for pane, chunk in parted(tuples, tuples.column(PANE).to_numpy()):
                outgrown = merge is not None and self._outgrown(pane, part, chunk.num_rows)
                most = GATHER_CHUNKS if merge is None else MERGE_CHUNKS
                add_chunk(self._slots, pane, part, chunk, most, merge=merge, at_once=outgrown)

    def _merged(self, partials: pa.Table) -> pa.Table:
        return merged(self._box, partials)

    def _outgrown(self, pane: int, part: str, fresh: int) -> bool:
        """Whether as much has come since the last merge as was merged: the state is a small multiple of the least."""
        held = [chunk.num_rows for chunk in self._slots.chunks(pane, part)]
        return bool(held) and sum(held[1:], fresh) >= max(held[0], MERGE_ROWS)


def _floor_division(dividend: str, divisor: int) -> str:
    """SQL's integer division truncates; windows before the epoch need the floor."""
    return f"(({dividend} - ((({dividend}) % {divisor} + {divisor}) % {divisor})) // {divisor})"


def _in_one(part: str, tables: list[pa.Table]) -> pa.Table:
    """What arrived of a part; whole tuples in order of arrival, which the order of chunks keeps from then on."""
    return in_arrival_order(tables).drop_columns([SEQ]) if part == WHOLE else pa.concat_tables(tables)


def _reduced(box: Aggregate, tuples: pa.Table) -> pa.Table:
    """The partial aggregates of tuples, in the columns that an entry would have sent."""
    arrived = _together(tuples.column(ARRIVED))
    if arrived is None:
        return reduced(box, tuples)
    partials = reduced(box, tuples.drop_columns([ARRIVED]))
    return partials.append_column(ARRIVED, pa.repeat(pa.scalar(arrived, pa.int64()), partials.num_rows))


def _together(arrived: pa.ChunkedArray) -> int | None:
    """When all rows arrived, if they arrived together."""
    bounds = pc.min_max(arrived)
    return bounds["min"].as_py() if bounds["min"] == bounds["max"] else None


def _distinct(values: pa.Table) -> pa.Table:
    """Every value once; unless hardly any repeats."""
    if not repeats(values, values.column_names):
        return values
    return kernel.run("SELECT DISTINCT * FROM tuples", tuples=values)
