"""Filter (aurora.md 5.2.1.1): routes each tuple to the first predicate it satisfies. No state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions.expression import mask
from penstock.boxes.filter.box import Filter
from penstock.operators.protocol import Departures


class FilterOp:
    """One kernel call finds the output of every tuple; one gather per output that has any."""

    def __init__(self, box: Filter) -> None:
        self._box = box
        self._ports = len(box.ports)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        ports = np.asarray(mask(self._box.predicates, tuples))
        for port in range(self._ports):
            chosen = ports == port
            if chosen.all():
                yield port, tuples
            elif chosen.any():
                yield port, tuples.filter(pa.array(chosen))
