"""The low level of a two-level aggregate, with a table that lives across batches (oop.md 6, heartbeat.md 4.4).

Keeps at most `table` partial aggregates, each in the place of its group. Those that a collision ejects, and old ones
whose turn it is, leave for the high level. Punctuation follows what has really left: it stays at the oldest pane that
the table holds, as Gigascope's heartbeats stay at the last tuple flushed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, from_ticks
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.aggregate.low_level.direct_table import DirectTable
from penstock.boxes.aggregate.low_level.entries import TURN_SLOT
from penstock.boxes.aggregate.low_level.flushing import Moment, Turn, flushing
from penstock.operators.protocol import Departures, Holder, Slots

TURN = "turn"


class LowLevelOp(Holder):
    """Receives what its entry has reduced each train to: one row for every pane and group."""

    def __init__(self, box: LowLevel, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._flushing = flushing(box.flush, box.window)
        self._arrived: list[pa.Table] = []
        self._oldest: int | None = None
        self._held = 0
        self.released = 0

    def receive(self, part: str, partials: pa.Table) -> None:
        self._arrived.append(partials)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        table = DirectTable(self._box, self._slots)
        arrived, self._arrived = self._arrived, []
        tuples = sum(self._tuples(partials) for partials in arrived)
        ejected = [table.place(self._flushing.arranged(pa.concat_tables(arrived)))] if tuples else []
        moment = Moment(marks[0].of(self._box.on), tuples, latest_pane(ejected))
        flushed, turn = self._flushing.flush(table.entries, moment, before := self._turn())
        table.entries.save()
        self._oldest = min(table.entries.panes, default=None)
        self._held = table.entries.number
        self._keep(turn if self._oldest is not None else Turn(), before)
        # What is flushed is mostly older: in this order a system that keeps its streams in order has little to sort.
        departing = pa.concat_tables([*flushed, *map(self._flushing.arranged, ejected)]) if flushed or ejected else None
        if departing is not None and departing.num_rows:
            self.released += self._tuples(departing)
            yield 0, self._partials(departing)

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        box, mark = self._box, marks[0].of(self._box.on)
        reached = mark if mark in (BEGINNING, END) else mark // box.window.pane
        return Marks({box.on: box.start_of(reached if self._oldest is None else min(reached, self._oldest))})

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        if self._oldest is None:
            return ()
        return [(0, self._box.on, self._box.flush.deadline(self._box.window, self._oldest))]

    def held(self) -> int:
        return self._held

    def _tuples(self, rows: pa.Table) -> int:
        return int(pc.sum(rows.column(self._box.tuple_count)).as_py() or 0)

    def _partials(self, rows: pa.Table) -> pa.Table:
        """Entries as tuples for the high level: the start of the pane stands for it."""
        box, schema = self._box, self._box.schema(0)
        rows = self._flushing.arranged(rows)
        starts = from_ticks(pc.multiply(rows.column(PANE), box.window.pane), schema.field(box.on).type)
        columns = [starts, *(rows.column(name) for name in (*schema.names[1:], ARRIVED))]
        return pa.table(columns, schema=schema.append(pa.field(ARRIVED, pa.int64())))

    def _turn(self) -> Turn:
        for kept in self._slots.chunks(TURN_SLOT, TURN):
            return Turn(**kept.to_pylist()[0])
        return Turn()

    def _keep(self, turn: Turn, before: Turn) -> None:
        if turn == before:
            return
        if turn == Turn():
            self._slots.drop(TURN_SLOT)
        else:
            self._slots.replace(TURN_SLOT, TURN, pa.table({"position": [turn.position], "spare": [turn.spare]}))


def latest_pane(rows: Sequence[pa.Table]) -> int | None:
    """The latest pane among rows, if there are any."""
    found = [pc.max(table.column(PANE)).as_py() for table in rows if table.num_rows]
    return max(found, default=None)
