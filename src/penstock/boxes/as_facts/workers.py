"""AsFacts (lmerge.md III-C): holds events until the stable point has passed their end, and lets them go as tuples.

Keeps payload, start and end of every event that is not fully frozen. When the stream ends, those leave that have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import SYNC, VE, VS
from penstock.algebra.ticks import END
from penstock.boxes.as_facts.box import AsFacts
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.temporal.unfrozen_events import UnfrozenEvents


class AsFactsOp(Holder):
    """Events leave in the batch that freezes them."""

    def __init__(self, box: AsFacts, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._slots = slots
        fields = [box.inputs[0].schema.field(name) for name in (*box.payload, VS, VE)]
        stored = pa.schema([*fields, pa.field(ARRIVED, pa.int64())])
        self._events = UnfrozenEvents(slots, box.payload, stored, trusted=True)
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._arrived: list[pa.Table] = []

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = marks[0].of(SYNC), self._slots.get_mark()
        arrived, self._arrived = self._arrived, []
        if not arrived and mark <= before:
            return
        if arrived:
            self._events.take(pa.concat_tables(arrived))
        frozen = [events for events in self._events.freeze(mark) if events.num_rows]
        self._slots.set_mark(max(mark, before))
        self._events.save()
        if frozen:
            facts = pa.concat_tables(frozen)
            self.released += facts.num_rows
            yield 0, facts.select([*self._columns, ARRIVED])

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        return Marks({VS: min(marks[0].of(SYNC), self._events.earliest(VS))}, ended=marks[0].ended)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        first = self._events.earliest(VE)
        return [(0, SYNC, first + 1)] if first != END else []
