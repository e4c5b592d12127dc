"""Filter (aurora.md 5.2.1.1): routes each tuple to the first predicate it satisfies. No state."""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions.whole_numbers import ports, truths
from penstock.algebra.hidden import carried
from penstock.boxes.filter.box import Filter
from penstock.boxes.filter.combined import CombinedFilter
from penstock.operators.protocol import Departures, PartWork


class FilterOp:
    """One kernel call finds the output of every tuple; one gather per output that has any."""

    def __init__(self, box: Filter, needed: Collection[str]) -> None:
        self._box, self._needed = box, needed
        self._ports = len(box.ports)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        masks = ports(self._box.predicates, tuples, self._ports)
        tuples = _projected(tuples, self._needed)
        for port, chosen in enumerate(masks):
            if chosen.all():
                yield port, tuples
            elif chosen.any():
                yield port, tuples.filter(pa.array(chosen))


class CombinedFilterOp:
    """Looks at fewer and fewer tuples, and at no column that no predicate needs; then one gather."""

    def __init__(self, box: CombinedFilter, needed: Collection[str]) -> None:
        self._parts, self._needed = box.parts, needed
        self._work: list[PartWork] = []

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        alive = np.ones(tuples.num_rows, np.bool_)
        left, began = tuples.num_rows, time.thread_time()
        for name, predicate in self._parts:
            if not left:
                break
            before, seen = left, tuples.select(list(predicate.columns)) if predicate.columns else tuples
            alive[alive] = truths(predicate, seen if before == len(alive) else seen.filter(pa.array(alive)))
            left, now = int(np.count_nonzero(alive)), time.thread_time()
            self._work.append(PartWork(name, before, left, now - began))
            began = now
        if left:
            kept = _projected(tuples, self._needed)
            yield 0, kept if left == len(alive) else kept.filter(pa.array(alive))
        if self._work:
            # Who is last pays for the gather.
            last = self._work.pop()
            self._work.append(PartWork(last.name, last.taken, last.left, last.seconds + time.thread_time() - began))

    def parts_done(self) -> list[PartWork]:
        """What its parts have done since this was asked last."""
        done, self._work = self._work, []
        return done


def _projected(tuples: pa.Table, needed: Collection[str]) -> pa.Table:
    """The columns that somebody behind needs; one at least, as a table without columns has no rows."""
    if not needed:
        return tuples
    hidden = carried(tuples)
    columns = [name for name in tuples.column_names if name in needed or name in hidden]
    return tuples if len(columns) == tuples.num_columns or not columns else tuples.select(columns)
