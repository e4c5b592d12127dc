"""Legal (lmerge.md III-C): passes the elements that fit the events there are, and refuses the others.

Keeps payload, start and end of every event that is not fully frozen, in slots by the time of its start. They are let go
of when the stable point has passed their end: no adjust can speak of them any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import SYNC, VE, VS
from penstock.boxes.legal.box import Legal
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.temporal.refused_rows import legal_rows, refused_records
from penstock.operators.temporal.unfrozen_events import UnfrozenEvents


class LegalOp(Holder):
    """Elements that are legal pass in the batch in which they come."""

    def __init__(self, box: Legal, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        stored = pa.schema([box.schema(0).field(name) for name in (*box.payload, VS, VE)])
        self._events = UnfrozenEvents(slots, box.payload, stored, unique=box.unique)
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._arrived: list[pa.Table] = []

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = marks[0].of(SYNC), self._slots.get_mark()
        arrived, self._arrived = self._arrived, []
        if arrived:
            elements = in_arrival_order(arrived)
            yield from self._leaving(elements, self._events.take(elements))
        if arrived or mark > before:
            self.released += sum(events.num_rows for events in self._events.freeze(mark))
            self._slots.set_mark(max(mark, before))
            self._events.save()

    def _leaving(self, elements: pa.Table, refused: Mapping[int, str]) -> Departures:
        # Their order of arrival goes with them: an adjust must never overtake its insert.
        passing = elements.select([*self._columns, SEQ, ARRIVED])
        if not refused:
            yield 0, passing
            return
        yield 0, passing.filter(pa.array(legal_rows(elements.num_rows, refused)))
        yield Legal.ERRORS, refused_records(elements, refused, self._box.source)
