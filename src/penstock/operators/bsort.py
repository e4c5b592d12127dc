"""BSort (aurora.md 5.2.2.1): sorts as far as a buffer of `slack` + 1 tuples for each group can.

Keeps at most `slack` tuples of a group. Each arrival that fills the buffer lets a tuple with the smallest value go, the
earliest of them; NULL is smaller than any value. What is left in the buffers leaves, sorted, at the end of the input.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Marks
from penstock.algebra.bsort import BSort
from penstock.algebra.hidden import ARRIVED, SEQ, end_of, has_ended
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.operators.base import Departures, Holder, Slots
from penstock.operators.bubble import (
    Numbers,
    bubble,
    group_numbers,
    group_slots,
    in_arrival_order,
    parted,
    places,
)

TUPLES: Final = "tuples"
AT_THE_END: Final = 2**62
"""Arrival numbers from here on belong to what the end of the input makes leave: after all of its batch."""
_LEDGER: Final = BEGINNING
"""The slot of the ledger: the number of no other."""


@dataclass
class Ledger:
    """What a box knows of its slots without reading them. Kept as the metadata of an empty chunk, so it is no row."""

    lowest: dict[int, dict[str, int]] = field(default_factory=dict)
    """The smallest ticks of some attributes in every slot that holds tuples."""
    arrivals: int = 0
    """Tuples that have arrived so far."""

    @staticmethod
    def load(slots: Slots) -> Ledger:
        for chunk in slots.chunks(_LEDGER, "ledger"):
            known = json.loads(chunk.schema.metadata[b"ledger"])
            return Ledger({int(slot): low for slot, low in known["lowest"].items()}, known["arrivals"])
        return Ledger()

    def save(self, slots: Slots) -> None:
        text = json.dumps({"lowest": self.lowest, "arrivals": self.arrivals})
        slots.replace(_LEDGER, "ledger", pa.schema([], metadata={"ledger": text}).empty_table())

    def note(self, slot: int, tuples: pa.Table, attributes: Sequence[str], *, added: bool = False) -> None:
        """A slot holds these tuples now, or these too."""
        known = self.lowest.get(slot, {}) if added else {}
        lows = {a: pc.min(to_ticks(tuples.column(a))).as_py() for a in attributes}
        self.lowest[slot] = {a: min(known.get(a, END), END if low is None else low) for a, low in lows.items()}

    def least(self, attribute: str) -> int:
        """The smallest ticks of an attribute in all slots; `END` where nothing is held."""
        return min((low[attribute] for low in self.lowest.values()), default=END)


class BSortOp(Holder):
    """Groups share out a fixed number of slots, and a batch reads and rewrites those of the groups it meets."""

    def __init__(self, box: BSort, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._order = box.order
        self._by = list(box.order.by)
        self._slots = slots
        self._attributes = box.inputs[0].progressing
        self._columns = [name for name in box.schema(0).names if name in needed[0]]
        self._arrived: list[pa.Table] = []
        self._ledger = Ledger.load(slots)
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        ended = has_ended(marks[0])
        arrived = in_arrival_order(self._arrived) if self._arrived else None
        self._arrived = []
        if arrived is not None:
            yield 0, self._push(arrived)
        if ended:
            yield from ((0, tuples) for tuples in self._drain(arrived))
        if arrived is not None or ended:
            self._ledger.save(self._slots)

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        return {a: min(marks[0][a], self._ledger.least(a)) for a in self._attributes} | end_of(marks)

    def _push(self, arrived: pa.Table) -> pa.Table:
        """Push tuples through the buffers of their groups; what leaves, each with the number of what made it leave."""
        seq, fresh = arrived.column(SEQ).to_numpy(), arrived.drop_columns([SEQ])
        touched = np.unique(group_slots(fresh, self._by)).tolist()
        held = [chunk for slot in touched for chunk in self._slots.chunks(slot, TUPLES)]
        before = sum(chunk.num_rows for chunk in held)
        # Buffers that are not full let nothing go, so what they hold may arrive once more, in its order.
        everything = pa.concat_tables([*held, fresh])
        found = bubble(group_numbers(everything, self._by), self._values(everything), self._order.slack)
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
