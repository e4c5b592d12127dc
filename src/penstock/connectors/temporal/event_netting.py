"""What the elements of a batch do to a set of events: those that come, and those that go.

Only what the elements come to counts, and not their order: an event that one batch inserts and removes was never there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.temporal.elements import ADJUST, KIND, VE, VOLD, VS, payload_names

_ROW = "#row"
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EventChange:
    """Events that come and events that go, each as often as it does."""

    added: pa.Table
    gone: pa.Table


def event_schema(elements: pa.Schema) -> pa.Schema:
    """The columns of events: start, end and payload.

    >>> event_schema(pa.schema({n: pa.int64() for n in ("sync", "kind", "vs", "ve", "vold", "p")})).names
    ['vs', 've', 'p']
    """
    return pa.schema([elements.field(name) for name in (VS, VE, *payload_names(elements.names))])


def change_of(elements: pa.Table) -> EventChange:
    """What elements come to."""
    columns = event_schema(elements.schema).names
    adjusts = pc.equal(elements.column(KIND), ADJUST)
    removes = pc.and_(adjusts, pc.fill_null(pc.equal(elements.column(VE), elements.column(VS)), False))
    come = elements.filter(pc.invert(removes)).select(columns)
    went = elements.filter(adjusts)
    gone = went.set_column(went.column_names.index(VE), VE, went.column(VOLD)).select(columns)
    of_come, of_gone = _codes((come, gone))
    more = _counts(of_come, of_gone) - _counts(of_gone, of_come)
    return EventChange(come.filter(_first(of_come, more)), gone.filter(_first(of_gone, -more)))


def taken_away(events: pa.Table, gone: pa.Table) -> tuple[pa.Array, pa.Table]:
    """Which events stay when others go, and what of those that go is not among them."""
    of_events, of_gone = _codes((events, gone.select(events.column_names)))
    wanted = _counts(of_gone, of_events)
    return pc.invert(_first(of_events, wanted)), gone.filter(_first(of_gone, wanted - _counts(of_events, of_gone)))


def _counts(codes: Numbers, others: Numbers) -> Numbers:
    """How often each code is there, of all codes that there are."""
    return np.bincount(codes, minlength=1 + int(max(codes.max(initial=-1), others.max(initial=-1))))


def _first(codes: Numbers, most: Numbers) -> pa.Array:
    """A mask of the first rows of every code, as many as are said of it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    place = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.append(begins, len(ordered))))
    found = np.zeros(len(codes), np.bool_)
    found[order] = place < most[ordered]
    return pa.array(found)


def _codes(tables: Sequence[pa.Table]) -> list[Numbers]:
    """A number for every row of several tables, the same for rows that agree in all columns; NULLs agree."""
    whole = pa.concat_tables(tables)
    if not whole.num_rows:
        return [np.zeros(0, np.int64) for _ in tables]
    names = ", ".join(quote(name) for name in whole.column_names)
    rows = whole.append_column(_ROW, pa.array(np.arange(whole.num_rows)))
    sql = f"SELECT dense_rank() OVER (ORDER BY {names}) - 1 AS code FROM events ORDER BY {quote(_ROW)}"
    codes = kernel.run(sql, events=rows).column("code").to_numpy()
    return list(np.split(codes, np.cumsum([table.num_rows for table in tables])[:-1]))
