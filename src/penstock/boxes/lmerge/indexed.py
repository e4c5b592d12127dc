"""What R3 and R4 have in common: elements find the event that they are of, among those that are held.

```
 elements of all inputs ──> those of events that were let go of are dropped
                        ──> which event each is of: one that is held, or a new one
                        ──> merged: what each input says now, what the output says, what is let go of
```
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.algebra.marks import Marks
from penstock.boxes.lmerge.arrivals import Arrivals, Refusals, read
from penstock.boxes.lmerge.box import LMerge
from penstock.boxes.lmerge.decisions import Step
from penstock.boxes.lmerge.same_events import event_numbers
from penstock.boxes.lmerge.stored_events import Piece, StoredEvents
from penstock.operators.arrays import Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.protocol import Departures, Holder, Slots


class IndexedOp(Holder):
    """Only slots are read in which something arrives or is frozen."""

    stored: ClassVar[type[StoredEvents]]

    def __init__(self, box: LMerge, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._store = self.stored(box, slots)
        self._arrived: dict[int, list[pa.Table]] = {}
        self._refusals = Refusals(box)
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.setdefault(int(part), []).append(tuples)

    def held(self) -> int:
        return self._store.count()

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        before = self._slots.get_mark()
        step = Step(before, self._box.stable_point(marks, before), self._box.furthest_first(marks, before))
        arrivals = [a for at, tables in sorted(self._arrived.items()) if (a := self._read(at, tables, before)).count]
        self._arrived = {}
        if arrivals or step.after > before:
            yield from self._merged(arrivals, step)
        yield from self._refusals.take()
        self._slots.set_mark(step.after)

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        return self._box.output_marks(self._slots.get_mark())

    @abstractmethod
    def _merged(self, arrivals: list[Arrivals], step: Step) -> Departures:
        """Take what the inputs say, let the output follow, and let go of what is frozen."""

    def _read(self, at: int, tables: list[pa.Table], before: int) -> Arrivals:
        """The elements of an input, but for those of events that were let go of."""
        arrivals = read(self._box, at, in_arrival_order(tables), self._refusals)
        late = arrivals.vs < before
        if not late.any():
            return arrivals
        late[late] = ~self._store.near(arrivals.vs[late])
        return arrivals.only(~late) if late.any() else arrivals

    def _matched(self, pieces: list[Piece], table: list[pa.Table], vs: Numbers, before: int) -> tuple[Numbers, Numbers]:
        """The event that each element is of, or -1; and the elements that are the first of new events."""
        if not len(vs):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        met = [piece.events for piece in pieces if piece.met]
        count, numbers = event_numbers([*met, *table], [self._box.begin, *self._box.payload])
        place = np.full(count, -1)
        start = 0
        owned = iter(numbers)
        for piece in pieces:
            if piece.met:
                held = np.flatnonzero(piece.held)
                place[next(owned)[held]] = start + held
            start += piece.events.num_rows
        own = np.concatenate(list(owned))
        # Events that begin before the stable point and are not held any more were let go of.
        unknown = np.flatnonzero((place[own] < 0) & (vs >= before))
        _, first = np.unique(own[unknown], return_index=True)
        fresh = np.sort(unknown[first])
        place[own[fresh]] = start + np.arange(len(fresh))
        return place[own], fresh

    def _refuse(self, arrivals: list[Arrivals], rows: Numbers) -> None:
        start = 0
        for each in arrivals:
            illegal = np.zeros(each.count, bool)
            illegal[rows[(rows >= start) & (rows < start + each.count)] - start] = True
            start += each.count
            self._refusals.sift(each, illegal & each.inserts, "its event is there already")
            self._refusals.sift(each, illegal & ~each.inserts, "it adjusts an event that is not there with this end")
