"""Assume (aurora.md 5.2.2): passes tuples that arrive as an order specification says, and sets the others aside.

For each group it keeps the `slack` + 1 largest values of the order attribute, which is all that decides whether a later
tuple is out of order: tuples below the smallest of them are. A larger value takes the place of the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END, to_ticks, unfit
from penstock.boxes.assume.box import Assume
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.bounded_sort import largest, late
from penstock.operators.groups import GROUP_SLOTS, group_numbers, group_slots, parted
from penstock.operators.protocol import Departures, Holder, Slots

VALUE = "#value"
LARGEST = "largest"


class AssumeOp(Holder):
    """A tuple without a value of the order attribute, or with one that is out of range, is never in order."""

    def __init__(self, box: Assume, slots: Slots) -> None:
        self._box = box
        self._order = box.order
        self._slots = slots
        self._arrived: list[pa.Table] = []
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived.append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        if not self._arrived:
            return
        tuples = in_arrival_order(self._arrived)
        self._arrived = []
        aside = self._judge(tuples)
        self.released += tuples.num_rows
        if not aside.any():
            yield 0, tuples
            return
        yield 0, tuples.filter(pa.array(~aside))
        yield Assume.LATE, tuples.filter(pa.array(aside))

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        stated = self._box.progress(0, marks)
        on, slack = self._order.on, self._order.slack
        if stated.has(on) and stated.of(on) != END and not self._order.by:
            values = [c.column(VALUE) for c in self._slots.chunks(0, LARGEST)]
            if values and len(values[0]) > slack:
                return stated.with_rising({on: max(stated.of(on), values[0][0].as_py())})
        return stated

    def _judge(self, tuples: pa.Table) -> np.ndarray:
        """Which tuples, in order of arrival, are out of order; what they change is kept."""
        by, slack = list(self._order.by), self._order.slack
        column = tuples.column(self._order.on)
        useless = unfit(column)
        aside = np.zeros(len(column), bool) if useless is None else useless.to_numpy().copy()
        known = tuples if not aside.any() else tuples.filter(pa.array(~aside))
        ticks = to_ticks(known.column(self._order.on)).to_numpy()
        places = group_slots(known, by)
        touched = np.flatnonzero(np.bincount(places, minlength=GROUP_SLOTS)).tolist()
        keys = known.select(by).append_column(VALUE, pa.array(ticks))
        # What was kept comes first and ascending, so none of it is out of order.
        held = [chunk for slot in touched for chunk in self._slots.chunks(slot, LARGEST)]
        before = sum(chunk.num_rows for chunk in held)
        everything = pa.concat_tables([*held, keys])
        groups, values = group_numbers(everything, by), everything.column(VALUE).to_numpy()
        aside[~aside] = late(groups, values, slack)[before:]
        kept = everything.take(pa.array(largest(groups, values, slack + 1)))
        for slot, own in parted(kept, group_slots(kept, by)):
            self._slots.replace(slot, LARGEST, own)
        return aside
