"""BSort (aurora.md 5.2.2.1): sorts as far as a buffer of `slack` + 1 tuples for each group can.

Keeps at most `slack` tuples of a group. Each arrival that fills the buffer lets a tuple with the smallest value go, the
earliest of them; NULL is smaller than any value. What is left in the buffers leaves, sorted, at the end of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.boxes.bsort.box import BSort
from penstock.operators.arrays import Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.bounded_sort import bounded_sort, places
from penstock.operators.groups import group_numbers, group_slots, parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.lowest_ticks import LowestTicks

TUPLES: Final = "tuples"
AT_THE_END: Final = 2**62
"""Arrival numbers from here on belong to what the end of the input makes leave: after all of its batch."""


class BSortOp(Holder):
    """Groups share out a fixed number of slots, and a batch reads and rewrites those of the groups it meets."""

    def __init__(self, box: BSort, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._order = box.order
        self._by = list(box.order.by)
        self._slots = slots
        self._attributes = box.inputs[0].progressing
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._arrived: list[pa.Table] = []
        self._ledger = LowestTicks.load(slots)
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        ended = marks[0].ended
        arrived = in_arrival_order(self._arrived) if self._arrived else None
        self._arrived = []
        if arrived is not None:
            yield 0, self._push(arrived)
        if ended:
            yield from ((0, tuples) for tuples in self._drain(arrived))
        if arrived is not None or ended:
            self._ledger.save(self._slots)

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        stated = marks[0]
        return Marks({a: min(stated.of(a), self._ledger.least(a)) for a in self._attributes}, ended=stated.ended)

    def _push(self, arrived: pa.Table) -> pa.Table:
        """Push tuples through the buffers of their groups; what leaves, each with the number of what made it leave."""
        seq, fresh = arrived.column(SEQ).to_numpy(), arrived.drop_columns([SEQ])
        touched = np.unique(group_slots(fresh, self._by)).tolist()
        held = [chunk for slot in touched for chunk in self._slots.chunks(slot, TUPLES)]
        before = sum(chunk.num_rows for chunk in held)
        # Buffers that are not full let nothing go, so what they hold may arrive once more, in its order.
        everything = pa.concat_tables([*held, fresh])
        found = bounded_sort(group_numbers(everything, self._by), self._values(everything), self._order.slack)
        kept = everything.take(pa.array(found.rows[~found.leaves]))
        for slot in touched:
            self._slots.drop(slot)
            self._ledger.lowest.pop(slot, None)
        for slot, own in parted(kept, group_slots(kept, self._by)):
            self._slots.replace(slot, TUPLES, own)
            self._ledger.note(slot, own, self._attributes)
        order = np.argsort(found.triggers)
        leaving = everything.take(pa.array(found.rows[found.leaves][order]))
        return self._leaving(leaving, seq[found.triggers[order] - before])

    def _drain(self, arrived: pa.Table | None) -> list[pa.Table]:
        """All that the buffers hold, sorted in each group, after everything else."""
        held = [chunk for slot in sorted(self._ledger.lowest) for chunk in self._slots.chunks(slot, TUPLES)]
        for slot in list(self._ledger.lowest):
            self._slots.drop(slot)
        self._ledger.lowest.clear()
        if not held:
            return []
        tuples = pa.concat_tables(held)
        groups = group_numbers(tuples, self._by)
        together = np.argsort(groups, kind="stable")
        last = -1 if arrived is None else int(pc.max(arrived.column(SEQ)).as_py())
        first = min(max(AT_THE_END, last + 1), END - self._order.slack)
        seq = first + places(groups[together])[0]
        leaving = tuples.take(pa.array(together)).append_column(SEQ, pa.array(seq))
        sortable = [k for k in self._by if not pa.types.is_nested(tuples.schema.field(k).type)]
        leaving = leaving.sort_by([(name, "ascending") for name in (SEQ, *sortable)])
        return [self._leaving(leaving, leaving.column(SEQ).to_numpy())]

    def _leaving(self, tuples: pa.Table, seq: Numbers) -> pa.Table:
        self.released += tuples.num_rows
        return tuples.select([*self._columns, ARRIVED]).append_column(SEQ, pa.array(seq))

    def _values(self, tuples: pa.Table) -> Numbers:
        ticks: Numbers = pc.fill_null(to_ticks(tuples.column(self._order.on)), BEGINNING).to_numpy()
        return ticks
