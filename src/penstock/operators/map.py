"""Map (aurora.md 5.2.1.2): computes new attributes from each tuple. No state."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.algebra.box import Map
from penstock.algebra.expression import evaluate
from penstock.algebra.hidden import carried
from penstock.operators.base import Departures


class MapOp:
    """Computes only the attributes that somebody downstream needs."""

    def __init__(self, box: Map, needed: Collection[str]) -> None:
        self._outputs = box.computed(needed)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        mapped = evaluate(self._outputs, tuples)
        for name in carried(tuples):
            mapped = mapped.append_column(name, tuples.column(name))
        yield 0, mapped
