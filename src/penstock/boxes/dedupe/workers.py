"""Dedupe (oop.md 5.4, Dupelim): the first of all tuples that agree in `on` and `by` passes, as soon as it arrives.

Keeps the attributes in which duplicates agree, and nothing else, of the tuples that have passed, in slots by time
segment. They are let go when the low-water mark passes them: no duplicate of theirs can follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.floors import Floors
from penstock.algebra.hidden import carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.boxes.dedupe.box import Dedupe
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.gathering import Gathering
from penstock.operators.groups import parted, repeats
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.slots_by_time import LEVELS, SlotsByTime

KEYS: Final = "keys"
ROW: Final = "#row"


class DedupeEntryOp:
    """Sends the first of the duplicates among its own tuples only; unless there are few: the holder finds them, too."""

    def __init__(self, box: Dedupe, needed: Sequence[frozenset[str]]) -> None:
        (required,) = box.required(needed)
        self._columns = [name for name in box.schema(0).names if name in required]
        self._gathering = Gathering(
            lambda tuples: first_of_each(tuples, box.identity) if repeats(tuples, box.identity) else tuples
        )

    def process(self, slot: int, tuples: pa.Table) -> None:
        self._gathering.add(tuples.select([*self._columns, *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        if (tuples := self._gathering.take()) is not None:
            yield "0", tuples


class DedupeOp(Holder):
    """Only the segments in which something arrives are read."""

    def __init__(self, box: Dedupe, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._segments = SlotsByTime(box.on_type)
        self._arrived: list[pa.Table] = []
        self.released = 0
        """Tuples that have passed and are no longer remembered, since this operator was made."""

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def purge(self, floors: Sequence[Floors]) -> int:
        floor = floors[0].get(self._box.on)
        return 0 if floor is None else self._forget(floor)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        mark, before = marks[0].of(self._box.on), self._slots.get_mark()
        if self._arrived:
            arrived = in_arrival_order(self._arrived)
            self._arrived = []
            passing = first_of_each(arrived, self._box.identity, self._held_near(arrived))
            self._keep(passing.select(self._box.identity), mark)
            yield 0, passing
        if mark > before:
            self.released += self._forget(mark)
            self._slots.set_mark(mark)

    def _held_near(self, arrived: pa.Table) -> list[pa.Table]:
        """What is held in segments in which something has arrived."""
        ticks, held = self._ticks(arrived), self._slots.numbers()
        levels = sorted({slot % LEVELS for slot in held})
        met = {s for level in levels for s in np.unique(self._segments.at_level(ticks, level)).tolist()}
        return [chunk for slot in held if slot in met for chunk in self._slots.chunks(slot, KEYS)]

    def _keep(self, keys: pa.Table, mark: int) -> None:
        passed = self._passed(keys, mark)
        self.released += int(passed.sum())
        waiting = keys if not passed.any() else keys.filter(pa.array(~passed))
        for slot, own in parted(waiting, self._segments.slots_of(self._ticks(waiting))):
            add_chunk(self._slots, slot, KEYS, own)

    def _forget(self, tick: int) -> int:
        """Remember nothing of what is before a tick; how many tuples that were."""
        gone = 0
        for slot in self._slots.numbers():
            start, stop = self._segments.span(slot)
            if start >= tick:
                continue
            keys = pa.concat_tables(self._slots.chunks(slot, KEYS))
            passed = np.ones(keys.num_rows, bool) if stop <= tick else self._passed(keys, tick)
            gone += int(passed.sum())
            if passed.all():
                self._slots.drop(slot)
            elif passed.any():
                self._slots.replace(slot, KEYS, keys.filter(pa.array(~passed)).combine_chunks())
        return gone

    def _passed(self, tuples: pa.Table, mark: int) -> Mask:
        return np.ones(tuples.num_rows, bool) if mark == END else self._ticks(tuples) < mark

    def _ticks(self, tuples: pa.Table) -> Numbers:
        ticks: Numbers = pc.fill_null(to_ticks(tuples.column(self._box.on)), BEGINNING).to_numpy()
        return ticks


def first_of_each(tuples: pa.Table, identity: Sequence[str], before: Sequence[pa.Table] = ()) -> pa.Table:
    """Of tuples in order of arrival, the first of those that agree, if none of those that came before does."""
    keys = ", ".join(quote(name) for name in identity)
    rows = tuples.select(identity).append_column(ROW, pa.array(np.arange(tuples.num_rows)))
    tables = {"tuples": rows}
    source = "tuples"
    if before:
        tables["earlier"] = pa.concat_tables(before)
        source = f"(SELECT {keys}, -1 AS {quote(ROW)} FROM earlier UNION ALL SELECT {keys}, {quote(ROW)} FROM tuples)"
    first = f"min({quote(ROW)})"
    sql = f"SELECT {first} AS first FROM {source} GROUP BY {keys} HAVING {first} >= 0"
    found = np.sort(kernel.run(sql, **tables).column("first").to_numpy())
    return tuples if len(found) == tuples.num_rows else tuples.take(pa.array(found))
