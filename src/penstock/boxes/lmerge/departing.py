"""What leaves an LMerge that revises: changes of its output, as elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import END, from_ticks
from penstock.boxes.lmerge.arrivals import ABSENT
from penstock.boxes.lmerge.box import LMerge
from penstock.operators.arrays import Numbers


def departing(box: LMerge, events: pa.Table, vs: Numbers, was: Numbers, becomes: Numbers) -> pa.Table:
    """Elements that bring the output from one end of each event to another; `ABSENT` is none."""
    columns = [*box.schema(0).names, ARRIVED]
    if not box.revises:
        return events.select(columns)
    insert = was == ABSENT
    ve = np.where(becomes == ABSENT, vs, becomes)
    vold = np.where(insert, END, was)
    sync = np.where(insert, vs, np.minimum(vold, ve))
    kind = box.time_type
    made = {
        SYNC: _times(sync, kind),
        KIND: pc.if_else(pa.array(insert), pa.scalar(INSERT), pa.scalar(ADJUST)),
        VS: _times(vs, kind),
        VE: _times(ve, kind),
        VOLD: _times(vold, kind),
    }
    return pa.table([made[name] if name in made else events.column(name) for name in columns], columns)


def gathered(tables: Sequence[pa.Table], rows: Numbers) -> pa.Table:
    """Rows of several tables as of one, in ascending order, without touching the others."""
    found, start = [tables[0].slice(0, 0)], 0
    for table in tables:
        a, b = np.searchsorted(rows, [start, start + table.num_rows])
        if b - a == table.num_rows:
            found.append(table)
        elif b > a:
            found.append(table.take(pa.array(rows[a:b] - start)))
        start += table.num_rows
    return pa.concat_tables(found)


def _times(ticks: Numbers, kind: pa.DataType) -> pa.Array:
    """Ticks as values; those at the end are infinite, which is NULL."""
    infinite = ticks == END
    finite = pa.array(np.where(infinite, 0, ticks), mask=infinite)
    return from_ticks(finite, kind)
