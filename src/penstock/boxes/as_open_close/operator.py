"""AsOpenClose (lmerge.md III-A): one row for every adjust, and one or two for every insert. No state."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import carried
from penstock.algebra.temporal.elements import INSERT, KIND, SYNC, VE, VS
from penstock.algebra.temporal.open_close import AT, CLOSE, OPEN
from penstock.boxes.as_open_close.box import AsOpenClose
from penstock.operators.protocol import Departures


class AsOpenCloseOp:
    """Rows leave in the order of their elements, an open before its close."""

    def __init__(self, box: AsOpenClose, needed: Collection[str]) -> None:
        self._columns = [name for name in box.schema(0).names if name in needed] or [SYNC]

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        inserts = pc.equal(tuples.column(KIND), INSERT).to_numpy()
        opens = np.flatnonzero(inserts)
        closes = np.flatnonzero(~inserts | pc.is_valid(tuples.column(VE)).to_numpy())
        order = np.argsort(np.concatenate([2 * opens, 2 * closes + 1]), kind="stable")
        taken = pa.array(np.concatenate([opens, closes])[order])
        starts, ends = tuples.column(VS).combine_chunks(), tuples.column(VE).combine_chunks()
        closing = pa.array(order >= len(opens))
        rows = tuples.take(taken)
        made = {
            KIND: pc.if_else(closing, pa.scalar(CLOSE), pa.scalar(OPEN)),
            AT: pc.if_else(closing, ends.take(taken), starts.take(taken)),
        }
        names = [*self._columns, *carried(tuples)]
        yield 0, pa.table([made[name] if name in made else rows.column(name) for name in names], names)
