"""Early results (lmerge.md II): in every batch, those of the windows and groups whose tuples have become more.

```
 batch   tuples of window [0, 10)     elements that leave
 1       2 of x, 1 of y               insert x=2    insert y=1
 2       1 of x                       adjust x=2, so that it ends where it begins    insert x=3
 3       none, the mark reaches 10    none: the last that was said is final
```

Keeps the partial aggregates of panes as Aggregate does, and beside them what was last said of every window and group
that is open: of a window in the slot of its first pane, which is let go of when just this window closes. A batch
reads the panes of the windows that it touches, and in these computes the groups that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import bounds, from_ticks
from penstock.boxes.aggregate.closing import PARTIAL, WINDOW, table_name
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.holder import AggregateOp
from penstock.boxes.aggregate.speculative.box import SpeculativeAggregate
from penstock.operators.arrays import Numbers, ticks_of
from penstock.operators.groups import parted
from penstock.operators.matching_rows import last_of_each, rows_among, taken
from penstock.operators.protocol import Departures, Slots
from penstock.operators.state.chunks import add_chunk

SAID: Final = "said"
"""The part of the state that holds what was last said of a window."""
TOUCHED: Final = "touched"
"""The windows and groups that have new tuples, as a table beside the parts of what arrived."""


class SpeculativeAggregateOp(AggregateOp):
    """Says what has changed in every batch, and lets go of a window's state when the low-water mark closes it."""

    def __init__(self, box: SpeculativeAggregate, slots: Slots) -> None:
        super().__init__(box, slots)
        self._schema = box.schema(0)
        self._event = (box.on, *box.by)
        outputs = [quote(name) for name in box.results.names if name not in self._event]
        same = " AND ".join(f"fresh.{k} IS NOT DISTINCT FROM known.{k}" for k in map(quote, self._event))
        differs = " OR ".join(f"fresh.{o} IS DISTINCT FROM known.{o}" for o in outputs)
        self._changes = (
            f'SELECT fresh."#row" AS fresh, known."#row" AS known FROM fresh LEFT JOIN known ON {same} '
            f'WHERE known."#row" IS NULL OR {differs} ORDER BY 1'
        )

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        window, arrived = self._box.window, self._take()
        mark, before = marks[0].of(self._box.on), self._slots.get_mark()
        results = self._results_touched(arrived, window.last_closed(before) + 1)
        elements = None if results is None else self._said_anew(results, window.last_closed(max(mark, before)))
        if mark > before:
            last = window.last_closed(mark)
            self._slots.set_mark(mark)
            arrived = {part: self._still_needed(part, tuples, last) for part, tuples in arrived.items()}
            self._purge(last)
        self._keep(arrived)
        if elements is not None:
            yield 0, elements

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        # Nothing leaves when a window closes.
        return ()

    def open_windows(self, marks: Sequence[Marks]) -> int:
        return sum(self._slots.count(slot, SAID) > 0 for slot in self._slots.numbers())

    def _results_touched(self, arrived: dict[str, pa.Table], first_open: int) -> pa.Table | None:
        """What the windows and groups hold now that have new tuples."""
        touched = self._touched(arrived[PARTIAL], first_open) if PARTIAL in arrived else None
        if touched is None or not touched.num_rows:
            return None
        windows = np.unique(touched.column(WINDOW).to_numpy())
        tables = self._gathered([p for p in self._slots.numbers() if self._in_any(p, windows)], {})
        for part, held in tables.items():
            tables[part] = taken(held, rows_among(held, touched, self._box.by)) if self._box.by else held
        for part, fresh in arrived.items():
            tables[part] = pa.concat_tables([tables[part], fresh]) if part in tables else fresh
        return self._closed({**tables, TOUCHED: touched}, int(windows[0]), int(windows[-1]))

    def _touched(self, partials: pa.Table, first_open: int) -> pa.Table | None:
        """The open windows and groups that tuples are in, each once."""
        window, panes = self._box.window, pc.min_max(partials.column(PANE))
        first = max(first_open, window.first_of_pane(panes["min"].as_py()))
        last = window.last_of_pane(panes["max"].as_py())
        if last < first:
            return None
        keys = ", ".join(quote(k) for k in (WINDOW, *self._box.by))
        sql = f"SELECT DISTINCT {keys} FROM ({super()._in_windows(PARTIAL, first, last)})"
        return kernel.run(sql, **{table_name(PARTIAL): partials.select([PANE, *self._box.by])})

    def _in_any(self, pane: int, windows: Numbers) -> bool:
        """Whether one of some windows contains a pane."""
        at = int(np.searchsorted(windows, self._box.window.first_of_pane(pane)))
        return at < len(windows) and int(windows[at]) <= self._box.window.last_of_pane(pane)

    def _in_windows(self, part: str, first: int, last: int) -> str:
        """Rows of a part, once for every window that contains their pane, where their group has new tuples."""
        rows, touched = super()._in_windows(part, first, last), table_name(TOUCHED)
        keys = [quote(k) for k in (WINDOW, *self._box.by)]
        match = " AND ".join(f"spread.{k} IS NOT DISTINCT FROM {touched}.{k}" for k in keys)
        return f"SELECT spread.* FROM ({rows}) spread JOIN {touched} ON {match}"

    def _said_anew(self, results: pa.Table, last_closed: int) -> pa.Table | None:
        """The elements of results that are not what was last said; what is said now is remembered of open windows."""
        known = self._said_of(results)
        pairs = kernel.run(self._changes, fresh=_numbered(results.drop_columns([ARRIVED])), known=_numbered(known))
        fresh, old = pairs.column("fresh"), pairs.column("known")
        if not len(fresh):
            return None
        said, revised = results.take(fresh), pc.is_valid(old)
        withdrawn = known.take(old.filter(revised)).append_column(ARRIVED, said.filter(revised).column(ARRIVED))
        self._remember(said.drop_columns([ARRIVED]), last_closed)
        # What is withdrawn goes directly before what takes its place.
        places = np.arange(len(fresh))
        order = np.argsort(np.append(places[revised.to_numpy()], places), kind="stable")
        elements = pa.concat_tables([self._elements(withdrawn, ADJUST), self._elements(said, INSERT)])
        return elements.take(pa.array(order))

    def _said_of(self, results: pa.Table) -> pa.Table:
        """What was last said of windows and groups."""
        windows = np.unique(self._windows(results)).tolist()
        chunks = [chunk for window in windows for chunk in self._slots.chunks(self._slot(window), SAID)]
        said = pa.concat_tables([self._box.results.empty_table(), *chunks])
        return self._latest(taken(said, rows_among(said, results, self._event)))

    def _remember(self, said: pa.Table, last_closed: int) -> None:
        for window, chunk in parted(said, self._windows(said)):
            if window > last_closed:
                add_chunk(self._slots, self._slot(window), SAID, chunk, merge=self._latest)

    def _latest(self, said: pa.Table) -> pa.Table:
        return last_of_each(said, self._event)

    def _windows(self, results: pa.Table) -> Numbers:
        """The number of the window of each result."""
        return ticks_of(results, self._box.on) // self._box.window.advance

    def _slot(self, window: int) -> int:
        """The first pane of a window: no later window contains it."""
        return window * (self._box.window.advance // self._box.window.pane)

    def _elements(self, results: pa.Table, kind: str) -> pa.Table:
        """Events that are inserted; or adjusted, so that they end where they begin."""
        start, rows = results.column(self._box.on), results.num_rows
        ends, largest = pa.array(ticks_of(results, self._box.on) + self._box.window.size), bounds(start.type)[1]
        # An end that the type has no value for is as good as none.
        end = from_ticks(pc.if_else(pc.greater(ends, largest), pa.scalar(None, pa.int64()), ends), start.type)
        columns = {SYNC: start, KIND: pa.repeat(pa.scalar(kind), rows), VS: start}
        columns |= {VE: end, VOLD: pa.nulls(rows, start.type)} if kind == INSERT else {VE: start, VOLD: end}
        payload = {name: results.column(name) for name in self._schema.names if name not in columns}
        schema = self._schema.append(pa.field(ARRIVED, pa.int64()))
        return pa.table({**columns, **payload, ARRIVED: results.column(ARRIVED)}).select(schema.names).cast(schema)


def _numbered(tuples: pa.Table) -> pa.Table:
    return tuples.append_column("#row", pa.array(np.arange(tuples.num_rows)))
