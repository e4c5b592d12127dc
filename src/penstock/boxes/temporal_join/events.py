"""Events as a join counts them: rows of payload, Vs and Ve in ticks, and how many more or fewer of them there are.

An end at infinity is `END`. A row of a payload that is there twice may say 2, or two rows may say 1; an event that was
taken away has rows that add up to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.ticks import END, from_ticks
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_numbers

START: Final = "#vs"
STOP: Final = "#ve"
COUNT: Final = "#count"


def event_schema(payload: pa.Schema) -> pa.Schema:
    return pa.schema([*payload, *(pa.field(name, pa.int64()) for name in (START, STOP, COUNT, ARRIVED))])


def numbers_of(events: pa.Table, name: str) -> Numbers:
    """A column of an event's own, such as its start."""
    found: Numbers = events.column(name).to_numpy()
    return found


def added_up(events: pa.Table, payload: Sequence[str]) -> pa.Table:
    """One row for every event, in order of appearance, without those of which nothing is left."""
    if not events.num_rows:
        return events
    ids = group_numbers(events, [*payload, START, STOP])
    _, first = np.unique(ids, return_index=True)
    counts = np.zeros(len(first), np.int64)
    np.add.at(counts, ids, numbers_of(events, COUNT))
    arrived = np.full(len(first), END)
    np.minimum.at(arrived, ids, numbers_of(events, ARRIVED))
    left = np.flatnonzero(counts)
    left = left[np.argsort(first[left], kind="stable")]
    rows = events.take(pa.array(first[left]))
    for name, values in ((COUNT, counts[left]), (ARRIVED, arrived[left])):
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array(values))
    return rows


def times(ticks: Numbers, kind: pa.DataType) -> pa.Array:
    """Ticks as values; infinity is NULL."""
    return from_ticks(pc.if_else(pa.array(ticks == END), pa.scalar(None, pa.int64()), pa.array(ticks)), kind)
