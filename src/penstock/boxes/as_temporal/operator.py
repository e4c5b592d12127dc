"""AsTemporal: gives every tuple a lifetime. No state. Tuples whose end is not after their start are refused."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table, why_out_of_range
from penstock.algebra.expressions.expression import Expression, evaluate
from penstock.algebra.hidden import carried
from penstock.algebra.temporal.elements import INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import bounds, from_ticks, out_of_range, to_ticks
from penstock.boxes.as_temporal.box import AsTemporal
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.protocol import Departures


class AsTemporalOp:
    """Computes only the columns that somebody downstream needs."""

    def __init__(self, box: AsTemporal, needed: Collection[str]) -> None:
        self._box = box
        self._columns = [name for name in box.schema(0).names if name in needed] or [SYNC]

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        box, rows = self._box, tuples.num_rows
        ends, wrong = self._ends(tuples)
        made = {
            SYNC: tuples.column(box.start),
            KIND: pa.repeat(pa.scalar(INSERT), rows),
            VS: tuples.column(box.start),
            VE: ends,
            VOLD: pa.nulls(rows, box.time_type),
        }
        columns = [made[name] if name in made else tuples.column(name) for name in self._columns]
        elements = pa.table(columns, names=self._columns)
        for name in carried(tuples):
            elements = elements.append_column(name, tuples.column(name))
        if wrong is None:
            yield 0, elements
            return
        yield 0, elements.filter(pa.array(~wrong))
        yield AsTemporal.ERRORS, self._refused(tuples.filter(pa.array(wrong)), ends.filter(pa.array(wrong)))

    def _ends(self, tuples: pa.Table) -> tuple[pa.ChunkedArray | pa.Array, Mask | None]:
        """When events end, and which of them do not end after their start, or beyond all times; None if none."""
        box, kind = self._box, self._box.time_type
        if box.end is None:
            return pa.nulls(tuples.num_rows, kind), None
        starts: Numbers = to_ticks(tuples.column(box.start)).to_numpy()
        if isinstance(box.end, Expression):
            ends = evaluate((("end", box.end),), tuples).column("end")
            ticks = to_ticks(ends, wrap=True)
            far = pc.fill_null(out_of_range(ticks, kind), False).to_numpy()
            wrong = far | pc.fill_null(pc.less_equal(ticks, pa.array(starts)), False).to_numpy()
        else:
            moved = starts + np.int64(box.end)
            # A narrow type has room for fewer ticks than those that are of use.
            wrong = out_of_range(pa.array(moved), kind).to_numpy(zero_copy_only=False) | (moved > bounds(kind)[1])
            ends = from_ticks(pa.array(np.where(wrong, starts, moved)), kind)
        return ends, wrong if wrong.any() else None

    def _refused(self, tuples: pa.Table, ends: pa.ChunkedArray | pa.Array) -> pa.Table:
        box = self._box
        near = pa.repeat(pa.scalar(f"the end is not after {box.start}"), tuples.num_rows)
        far = pa.scalar(why_out_of_range("the end"))
        beyond = pc.fill_null(out_of_range(to_ticks(ends, wrap=True), box.time_type), False)
        reasons = pc.if_else(beyond, far, near) if isinstance(box.end, Expression) else pa.repeat(far, tuples.num_rows)
        refused = reject_table(tuples.select(list(box.used)), box.name, reasons)
        for name in carried(tuples):
            refused = refused.append_column(name, tuples.column(name))
        return refused
