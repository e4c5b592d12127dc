"""Union (aurora.md 5.2.1.3, oop.md A.2.1): passes tuples through as they come. No state.

Its progress, the minimum over its inputs, is the rule of the logical box.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.algebra.hidden import SEQ, carried
from penstock.boxes.union.box import Union
from penstock.operators.protocol import Departures


class UnionOp:
    """Inputs may name their attributes in another order than the first."""

    def __init__(self, box: Union, needed: Collection[str]) -> None:
        self._columns = [name for name in box.schema(0).names if name in needed]
        # An input may carry arrival numbers for somebody else; the tuples of a union are all of one kind.
        self._dropped = () if SEQ in needed else (SEQ,)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        columns = [*self._columns, *(name for name in carried(tuples) if name not in self._dropped)]
        yield 0, tuples if tuples.column_names == columns else tuples.select(columns)
