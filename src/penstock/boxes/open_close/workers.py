"""OpenClose (lmerge.md III-A, example 3): makes every open an insert, and every close an adjust of its event.

Keeps payload, start and end of every event that is not fully frozen, in slots by payload. They are let go of when the
stable point has passed their end: no close can speak of them any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.temporal.open_close import AT, OPEN
from penstock.algebra.ticks import END, from_ticks, to_ticks
from penstock.boxes.open_close.box import OpenClose
from penstock.boxes.open_close.matching import Lives, Matched, match
from penstock.operators.arrays import Numbers, ticks_of
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import Groups, group_slots, number, parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.lowest_ticks import LowestTicks
from penstock.operators.temporal.reckoning import ends_of
from penstock.operators.temporal.refused_rows import legal_rows, refused_records

EVENTS: Final = "events"


class OpenCloseOp(Holder):
    """Elements leave in the batch in which their rows come."""

    def __init__(self, box: OpenClose, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._ledger = LowestTicks.load(slots)
        self._stored = pa.schema([box.schema(0).field(name) for name in (*box.payload, VS, VE)])
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._arrived: list[pa.Table] = []

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = marks[0].of(SYNC), self._slots.get_mark()
        arrived, self._arrived = self._arrived, []
        if arrived:
            yield from self._take(in_arrival_order(arrived))
        if arrived or mark > before:
            self._freeze(mark)
            self._slots.set_mark(max(mark, before))
            self._ledger.save(self._slots)

    def _take(self, rows: pa.Table) -> Departures:
        near = sorted({*np.unique(group_slots(rows, self._box.payload)).tolist()} & {*self._ledger.lowest})
        chunks = [chunk for slot in near for chunk in self._slots.chunks(slot, EVENTS)]
        events = pa.concat_tables([self._stored.empty_table(), *chunks])
        groups, (of_held, of_rows) = number([events, rows], self._box.payload)
        opens = pc.equal(rows.column(KIND), OPEN).to_numpy()
        at = np.asarray(pc.fill_null(to_ticks(rows.column(AT)), END).to_numpy(), np.int64)
        held = Lives(of_held, ticks_of(events, VS), ends_of(events, VE))
        found = match(of_rows, opens, at, held)
        spoken = np.isin(of_held, of_rows)
        rest = events.filter(pa.array(~spoken))
        self._store(near, pa.concat_tables([rest, self._events(groups, found.events)]))
        yield from self._leaving(rows, opens, at, found)

    def _leaving(self, rows: pa.Table, opens: Numbers, at: Numbers, found: Matched) -> Departures:
        legal = legal_rows(rows.num_rows, found.refused)
        sync = np.where(opens, at, np.minimum(found.old, at))
        made = {
            SYNC: self._times(sync),
            KIND: pc.if_else(pa.array(opens), pa.scalar(INSERT), pa.scalar(ADJUST)),
            VS: self._times(found.starts),
            VE: self._times(np.where(opens, END, at)),
            VOLD: self._times(np.where(opens, END, found.old)),
        }
        names = [*self._columns, SEQ, ARRIVED]
        elements = pa.table([made[name] if name in made else rows.column(name) for name in names], names)
        yield 0, elements if legal.all() else elements.filter(pa.array(legal))
        if found.refused:
            yield OpenClose.ERRORS, refused_records(rows, found.refused, self._box.source)

    def _events(self, groups: Groups, lives: Lives) -> pa.Table:
        order = np.lexsort((lives.starts, lives.groups))
        numbers = lives.groups[order]
        times = [(VS, self._times(lives.starts[order])), (VE, self._times(lives.ends[order]))]
        columns = [*groups.columns(numbers), *times]
        return pa.table([column for _, column in columns], [name for name, _ in columns]).cast(self._stored)

    def _store(self, near: Sequence[int], events: pa.Table) -> None:
        """Put events into the slots of their payloads, in the place of what these held."""
        fresh = dict(parted(events, group_slots(events, self._box.payload)))
        for slot in {*near} - {*fresh}:
            self._drop(slot)
        for slot, own in fresh.items():
            self._slots.replace(slot, EVENTS, own.combine_chunks())
            self._ledger.note(slot, own, (VE,))

    def _freeze(self, mark: int) -> None:
        for slot in sorted(slot for slot, low in self._ledger.lowest.items() if low[VE] < mark or mark == END):
            events = pa.concat_tables(self._slots.chunks(slot, EVENTS))
            alive = np.zeros(events.num_rows, bool) if mark == END else ends_of(events, VE) >= mark
            self.released += int(len(alive) - alive.sum())
            if not alive.any():
                self._drop(slot)
                continue
            rest = events.filter(pa.array(alive)).combine_chunks()
            self._slots.replace(slot, EVENTS, rest)
            self._ledger.note(slot, rest, (VE,))

    def _drop(self, slot: int) -> None:
        self._slots.drop(slot)
        del self._ledger.lowest[slot]

    def _times(self, ticks: Numbers) -> pa.Array:
        """Ticks as times; what never ends is NULL."""
        never = ticks == END
        return from_ticks(pa.array(np.where(never, 0, ticks), mask=never), self._box.time_type)
