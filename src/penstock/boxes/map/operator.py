"""Map (aurora.md 5.2.1.2): computes new attributes from each tuple. No state.

Tuples whose new time is out of range are refused; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table, why_out_of_range
from penstock.algebra.expressions.whole_numbers import values
from penstock.algebra.hidden import carried
from penstock.algebra.ticks import unfit
from penstock.boxes.map.box import Map
from penstock.boxes.map.combined import CombinedMap
from penstock.operators.protocol import Departures, PartWork


class MapOp:
    """Computes only the attributes that somebody downstream needs."""

    def __init__(self, box: Map, needed: Collection[str]) -> None:
        self._name, self._times = box.name, box.times
        self._outputs = box.computed(needed)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        mapped = values(self._outputs, tuples)
        for name in carried(tuples):
            mapped = mapped.append_column(name, tuples.column(name))
        masks = {name: found for name in self._times if (found := unfit(mapped.column(name))) is not None}
        if not masks:
            yield 0, mapped
            return
        aside = reduce(pc.or_, masks.values())
        yield 0, mapped.filter(pc.invert(aside))
        yield Map.ERRORS, self._refused(tuples.filter(aside), {n: found.filter(aside) for n, found in masks.items()})

    def _refused(self, tuples: pa.Table, masks: Mapping[str, pa.ChunkedArray]) -> pa.Table:
        """What each tuple was computed from, and which of its times is out of range: the first, of several."""
        used = list(dict.fromkeys(column for _, e in self._outputs for column in e.columns))
        nothing = pa.scalar(None, pa.string())
        reasons = [pc.if_else(found, pa.scalar(why_out_of_range(n)), nothing) for n, found in masks.items()]
        refused = reject_table(tuples.select(used), self._name, pc.coalesce(*reasons))
        for name in carried(tuples):
            refused = refused.append_column(name, tuples.column(name))
        return refused


class CombinedMapOp:
    """Computes in one call of the kernel what several maps compute."""

    def __init__(self, box: CombinedMap, needed: Collection[str]) -> None:
        self._parts, self._map = box.parts, MapOp(box, needed)
        self._work: list[PartWork] = []

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        began, number = time.thread_time(), tuples.num_rows
        yield from self._map.process(slot, tuples)
        # Nobody can tell what each of them costs now: each is told the same share.
        share = (time.thread_time() - began) / len(self._parts)
        self._work += [PartWork(name, number, number, share) for name in self._parts]

    def parts_done(self) -> list[PartWork]:
        """What its parts have done since this was asked last."""
        done, self._work = self._work, []
        return done
