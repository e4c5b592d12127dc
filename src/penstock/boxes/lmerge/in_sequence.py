"""LMerge of inserts in order: cases R0, R1 and R2 (lmerge.md IV-A to C).

All three remember the largest Vs that has left. What is below it has left already, or is missing; what is above it
leaves. They differ in what they do at that Vs itself: R0 drops, R1 counts, R2 compares payloads. So what leaves of a
train is its end, which is cut off without copying it.

The state is a note: the largest Vs, the last Vs of every input, and for R1 how many elements of the largest Vs each
input has brought. R2 keeps the payloads of the largest Vs, and who has brought each; it lets go of them when Vs rises.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING
from penstock.boxes.lmerge.arrivals import Arrivals, Refusals, read
from penstock.boxes.lmerge.box import LMerge
from penstock.operators.arrays import Mask, ticks_of
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import group_numbers, number
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.ledger import Ledger

PAYLOADS: Final = "payloads"
SLOT: Final = 0
WAITING: Final = 1
"""The slot of what inputs have brought that are joining."""


class InSequenceOp(Holder):
    """Follows whichever input is furthest."""

    strict: ClassVar[bool] = False
    """Whether Vs must rise with every element of an input."""

    def __init__(self, box: LMerge, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._arrived: dict[int, list[pa.Table]] = {}
        self._refusals = Refusals(box)
        note = Ledger(slots).read() or {}
        self._largest: int = note.get("largest", BEGINNING)
        self._last: list[int] = [note.get("last", {}).get(name, BEGINNING) for name in box.input_names]
        self._counts: list[int] = [note.get("counts", {}).get(name, 0) for name in box.input_names]
        self._left: int = note.get("left", 0)
        """How many elements of the largest Vs have left."""
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.setdefault(int(part), []).append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        before = self._slots.get_mark()
        brought = self._brought(before)
        for at, tables in brought.items():
            arrivals = self._legal(read(self._box, at, pa.concat_tables(tables), self._refusals))
            # Buckets differ in the largest Vs, but not in the stable point: nothing below it leaves any of them.
            arrivals = arrivals.slice(int(np.searchsorted(arrivals.vs, before)))
            leaving = self._passing(arrivals) if arrivals.count else arrivals
            if leaving.count:
                yield 0, leaving.tuples
        if brought:
            self._note()
            yield from self._refusals.take()
        stable = self._box.stable_point(marks, before)
        if stable > self._largest and self._slots.count(SLOT, PAYLOADS):
            # Nobody can bring the payloads of the largest Vs again.
            self.released += self._payloads()
            self._slots.drop(SLOT)
        self._slots.set_mark(stable)

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        return self._box.output_marks(self._slots.get_mark())

    def _brought(self, before: int) -> dict[int, list[pa.Table]]:
        """What has come of every input, in order. What an input brings that is joining waits until it has joined: it
        may be ahead of those who bring what it lacks."""
        arrived, self._arrived = self._arrived, {}
        joined, since = {*self._box.joined(before)}, dict(self._box.joining)
        found: dict[int, list[pa.Table]] = {}
        for at, name in enumerate(self._box.input_names):
            tables = [in_arrival_order(arrived[at])] if at in arrived else []
            waiting = [chunk for chunk in self._slots.chunks(WAITING, name) if chunk.num_rows]
            if at in joined:
                if waiting:
                    self._slots.replace(WAITING, name, waiting[0].slice(0, 0))
                if waiting or tables:
                    found[at] = [*waiting, *tables]
            elif tables:
                behind = ticks_of(tables[0], self._box.begin) >= since[name]
                self._slots.append(WAITING, name, tables[0].filter(pa.array(behind)))
        if len(joined) == len(self._box.inputs) and WAITING in self._slots.numbers():
            self._slots.drop(WAITING)  # with what inputs have left that never joined
        return found

    def _payloads(self) -> int:
        return sum(chunk.num_rows for chunk in self._slots.chunks(SLOT, PAYLOADS))

    def _note(self) -> None:
        names = self._box.input_names
        last, counts = (dict(zip(names, own, strict=True)) for own in (self._last, self._counts))
        Ledger(self._slots).write({"largest": self._largest, "last": last, "counts": counts, "left": self._left})

    @abstractmethod
    def _passing(self, arrivals: Arrivals) -> Arrivals:
        """What has not left yet, of elements in order."""

    def _legal(self, arrivals: Arrivals) -> Arrivals:
        """Without those that break what the case stands on."""
        case, begin = self._box.case, self._box.begin
        arrivals = self._refusals.sift(arrivals, ~arrivals.inserts, f"it is an adjust, and {case} takes none")
        if not arrivals.count:
            return arrivals
        vs, before = arrivals.vs, self._last[arrivals.input]
        rises = vs[1:] > vs[:-1] if self.strict else vs[1:] >= vs[:-1]
        if not bool(rises.all()) or vs[0] < before or (self.strict and vs[0] == before):
            # An element that falls back changes nothing for those behind it: they are measured against the largest.
            reached = np.maximum.accumulate(np.concatenate([[before], vs[:-1]]))
            falls = vs <= reached if self.strict else vs < reached
            what = "does not rise" if self.strict else "falls"
            arrivals = self._refusals.sift(arrivals, falls, f"its {begin} {what}, and {case} asks for order")
        if arrivals.count:
            self._last[arrivals.input] = int(arrivals.vs[-1])
        return arrivals


class RisingOp(InSequenceOp):
    """R0: Vs rises with every element, so what is not above the largest has left."""

    strict: ClassVar[bool] = True

    def _passing(self, arrivals: Arrivals) -> Arrivals:
        start = int(np.searchsorted(arrivals.vs, self._largest, "right"))
        self._largest = max(self._largest, int(arrivals.vs[-1]))
        return arrivals.slice(start)


class CountingOp(InSequenceOp):
    """R1: elements of one Vs come in the same order from every input, so it is enough to count them."""

    def _passing(self, arrivals: Arrivals) -> Arrivals:
        vs, own, last = arrivals.vs, arrivals.input, int(arrivals.vs[-1])
        first, behind = (int(np.searchsorted(vs, self._largest, side)) for side in ("left", "right"))
        start = min(behind, first + max(0, self._left - self._counts[own]))
        self._counts[own] += behind - first
        self._left = max(self._left, self._counts[own])
        if last > self._largest:
            self._largest = last
            self._counts = [0] * len(self._counts)
            self._counts[own] = self._left = len(vs) - int(np.searchsorted(vs, last, "left"))
        return arrivals.slice(start)


class ComparingOp(InSequenceOp):
    """R2: elements of one Vs come in any order, each payload once from every input."""

    def _passing(self, arrivals: Arrivals) -> Arrivals:
        arrivals = arrivals.slice(int(np.searchsorted(arrivals.vs, self._largest, "left")))
        if not arrivals.count:
            return arrivals
        arrivals = self._refusals.sift(arrivals, self._repeated(arrivals), "its event is there already")
        ties = int(np.searchsorted(arrivals.vs, self._largest, "right"))
        known = np.zeros(arrivals.count, bool)
        if ties:
            known[:ties], again = self._compared(arrivals.tuples.slice(0, ties), arrivals.input)
            repeated = np.zeros(arrivals.count, bool)
            repeated[:ties] = again
            arrivals = self._refusals.sift(arrivals, repeated, "its event is there already")
            known = known[~repeated]
        if arrivals.count and (last := int(arrivals.vs[-1])) > self._largest:
            self._largest = last
            self.released += self._payloads()
            self._keep(arrivals.tuples.slice(int(np.searchsorted(arrivals.vs, last, "left"))), arrivals.input)
        return arrivals.only(~known) if known.any() else arrivals

    def _repeated(self, arrivals: Arrivals) -> Mask:
        """Which elements have the Vs and the payload of one before them."""
        equal = arrivals.vs[1:] == arrivals.vs[:-1]
        repeated = np.zeros(arrivals.count, bool)
        if not equal.any():
            return repeated
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        groups = group_numbers(arrivals.tuples.take(pa.array(tied)), [self._box.begin, *self._box.payload])
        _, first = np.unique(groups, return_index=True)
        repeated[tied] = True
        repeated[tied[first]] = False
        return repeated

    def _compared(self, tuples: pa.Table, own: int) -> tuple[Mask, Mask]:
        """Of elements at the largest Vs: which have left before, and which their own input had brought already."""
        chunks = self._slots.chunks(SLOT, PAYLOADS)
        if not chunks:
            self._keep(tuples, own)
            return np.zeros(tuples.num_rows, bool), np.zeros(tuples.num_rows, bool)
        held = pa.concat_tables(chunks)
        groups, (ours, theirs) = number([held, tuples], self._box.payload)
        place = np.full(groups.count, -1)
        place[ours] = np.arange(len(ours))
        where = place[theirs]
        held = self._with_flags(held)
        index = held.schema.get_field_index(self._flag(own))
        known, brought = where >= 0, held.column(index).to_numpy().copy()
        again = known & brought[where]
        brought[where[known]] = True
        held = held.set_column(index, self._flag(own), pa.array(brought))
        fresh = self._flagged(tuples.filter(pa.array(~known)), own)
        self._slots.replace(SLOT, PAYLOADS, pa.concat_tables([held, fresh]).combine_chunks())
        return known, again

    def _keep(self, tuples: pa.Table, own: int) -> None:
        self._slots.replace(SLOT, PAYLOADS, self._flagged(tuples, own).combine_chunks())

    def _flagged(self, tuples: pa.Table, own: int) -> pa.Table:
        """Payloads, and for every input whether it has brought them."""
        kept = tuples.select(self._box.payload)
        kept = kept.append_column(self._flag(own), pa.repeat(pa.scalar(True), tuples.num_rows))
        return self._with_flags(kept)

    def _with_flags(self, kept: pa.Table) -> pa.Table:
        """With a flag for each of the inputs that there are now."""
        flags = [self._flag(at) for at in range(len(self._box.inputs))]
        nobody = pa.repeat(pa.scalar(False), kept.num_rows)
        columns = [kept.column(flag) if flag in kept.column_names else nobody for flag in flags]
        payload = kept.select(self._box.payload)
        return pa.table([*payload.columns, *columns], [*payload.column_names, *flags])

    def _flag(self, own: int) -> str:
        return f"#{self._box.input_names[own]}"
