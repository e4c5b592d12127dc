"""Cleanse and Merge: a sort that punctuation releases (oop.md 5.5), of one stream or of several.

Keeps the tuples that no low-water mark has reached yet, in slots by time segment. When the marks of all inputs have
reached a tuple, it leaves: in order of `on`, ties of a batch in order of (input, arrival). A tuple at the mark itself
does not wait for the ties that may follow it: they keep the order as well (ets.md 4.1, the relaxed `more`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks, least
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.boxes.cleanse.box import Cleanse
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.lowest_ticks import LowestTicks
from penstock.operators.state.slots_by_time import SlotsByTime

TUPLES: Final = "tuples"
ARRIVAL: Final = "#arrival"
"""The order of tuples that tie: their input, and their number in the box's bucket."""
INPUT_BITS: Final = 48
"""A bucket takes fewer tuples than this many bits can number."""


class CleanseOp(Holder):
    """Waiting tuples are added to their segments and touched no more until the mark reaches them."""

    def __init__(self, box: Cleanse, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._segments = SlotsByTime(box.on_type)
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._others = box.shared[1:]
        self._arrived: dict[int, list[pa.Table]] = {}
        self._ledger = LowestTicks.load(slots)
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.setdefault(int(part), []).append(tuples)

    def purge(self, floors: Sequence[Floors]) -> int:
        # All inputs have the floor of what leaves.
        if (floor := floors[0].get(self._box.on)) is None:
            return 0
        gone = 0
        for slot in [slot for slot in self._ledger.lowest if self._segments.span(slot)[0] < floor]:
            tuples = pa.concat_tables(self._slots.chunks(slot, TUPLES))
            useful = self._ticks(tuples) >= floor
            gone += self._leave(slot, tuples, useful)
        if gone:
            self._ledger.save(self._slots)
        return gone

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = min(m.of(self._box.on) for m in marks), self._slots.get_mark()
        arrived = self._number()
        due = self._release(mark) if mark > before else []
        if arrived is not None:
            reached = self._reached(arrived, mark)
            due.append(arrived if reached.all() else arrived.filter(pa.array(reached)))
            if not reached.all():
                self._keep(arrived if not reached.any() else arrived.filter(pa.array(~reached)))
        self._slots.set_mark(max(mark, before))
        if arrived is not None or due:
            self._ledger.save(self._slots)
        leaving = self._sorted(due)
        if leaving is not None:
            yield 0, leaving

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        stated = least(marks)
        held = {a: min(stated.of(a), self._ledger.least(a)) for a in self._others}
        return Marks({self._box.on: stated.of(self._box.on), **held}, ended=stated.ended)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        least = self._ledger.least(self._box.on)
        return [(slot, self._box.on, least) for slot in range(len(marks))] if least != END else []

    def _number(self) -> pa.Table | None:
        """What has arrived, input by input, with its place in the order of ties in the place of `SEQ`."""
        tables = []
        for number, parts in sorted(self._arrived.items()):
            tuples = in_arrival_order(parts).drop_columns([SEQ])
            first = (number << INPUT_BITS) + self._ledger.arrivals
            places = np.arange(first, first + tuples.num_rows, dtype=np.int64)
            self._ledger.arrivals += tuples.num_rows
            tables.append(tuples.append_column(ARRIVAL, pa.array(places)))
        self._arrived = {}
        return pa.concat_tables(tables) if tables else None

    def _release(self, mark: int) -> list[pa.Table]:
        """What waits up to the mark; of the segment in which the mark lies, the rest waits on."""
        due = []
        for slot in sorted(self._ledger.lowest):
            start, stop = self._segments.span(slot)
            if start > mark:
                continue
            tuples = pa.concat_tables(self._slots.chunks(slot, TUPLES))
            reached = np.ones(tuples.num_rows, bool) if stop <= mark else self._reached(tuples, mark)
            if not reached.any():
                continue
            due.append(tuples if reached.all() else tuples.filter(pa.array(reached)))
            self._leave(slot, tuples, ~reached)
        return due

    def _leave(self, slot: int, tuples: pa.Table, kept: Mask) -> int:
        """Leave in a slot what is kept of its tuples; how many are gone."""
        if not kept.any():
            self._slots.drop(slot)
            del self._ledger.lowest[slot]
        elif not kept.all():
            rest = tuples.filter(pa.array(kept)).combine_chunks()
            self._slots.replace(slot, TUPLES, rest)
            self._ledger.note(slot, rest, self._box.shared)
        return len(kept) - int(kept.sum())

    def _keep(self, tuples: pa.Table) -> None:
        for slot, own in parted(tuples, self._segments.slots_of(self._ticks(tuples))):
            add_chunk(self._slots, slot, TUPLES, own)
            self._ledger.note(slot, own, self._box.shared, added=True)

    def _sorted(self, due: list[pa.Table]) -> pa.Table | None:
        """What leaves, in order of `on` and ties as they came, with its order of departure."""
        tuples = pa.concat_tables(due) if due else None
        if tuples is None or not tuples.num_rows:
            return None
        self.released += tuples.num_rows
        ticks = self._ticks(tuples)
        order = np.lexsort((tuples.column(ARRIVAL).to_numpy(), ticks))
        # Groups of different buckets must fall into one order whatever the number of buckets: that of their ticks.
        seq = ticks[order] if self._box.by else np.arange(len(order), dtype=np.int64)
        leaving = tuples.select([*self._columns, ARRIVED]).take(pa.array(order))
        return leaving.append_column(SEQ, pa.array(seq))

    def _reached(self, tuples: pa.Table, mark: int) -> Mask:
        # The smallest tick there is stands for "nothing is known yet": it reaches nothing.
        return np.zeros(tuples.num_rows, bool) if mark == BEGINNING else self._ticks(tuples) <= mark

    def _ticks(self, tuples: pa.Table) -> Numbers:
        ticks: Numbers = pc.fill_null(to_ticks(tuples.column(self._box.on)), BEGINNING).to_numpy()
        return ticks
