"""Rows of a table that speak of what other rows speak of: so that a few changes look at little of what is held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_numbers

_ROW = quote("#row")


def rows_among(tuples: pa.Table, wanted: pa.Table, by: Sequence[str]) -> Numbers:
    """The rows whose values of `by` are among those of `wanted`, ascending; NULLs are equal, as in GROUP BY.

    >>> rows_among(pa.table({"k": ["x", None, "y", "x"]}), pa.table({"k": ["x", None, "x"]}), ["k"]).tolist()
    [0, 1, 3]
    """
    if not by or not tuples.num_rows:
        return np.arange(tuples.num_rows)
    names = ", ".join(quote(name) for name in by)
    match = " AND ".join(f"tuples.{quote(name)} IS NOT DISTINCT FROM few.{quote(name)}" for name in by)
    sql = f"SELECT {_ROW} FROM tuples JOIN (SELECT DISTINCT {names} FROM wanted) few ON {match}"
    numbered = tuples.select(list(by)).append_column("#row", pa.array(np.arange(tuples.num_rows)))
    return np.sort(kernel.run(sql, tuples=numbered, wanted=wanted.select(list(by))).column("#row").to_numpy())


def taken(tuples: pa.Table, rows: Numbers) -> pa.Table:
    """Some rows of a table, each taken out of its chunk: chunks are not put together for a few rows.

    >>> held = pa.concat_tables([pa.table({"v": [10, 11]}), pa.table({"v": [12, 13]})])
    >>> taken(held, np.array([3, 0, 3]))["v"].to_pylist()
    [13, 10, 13]
    """
    batches = tuples.to_batches()
    if len(batches) <= 1:
        return tuples.take(pa.array(rows))
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    order = np.argsort(rows, kind="stable")
    cuts = np.searchsorted(rows[order], starts).tolist()
    pieces = [
        batch.take(pa.array(rows[order[cut:until]] - start))
        for batch, start, cut, until in zip(batches, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        if cut < until
    ]
    whole = pa.Table.from_batches(pieces, tuples.schema).combine_chunks()
    return whole.take(pa.array(np.argsort(order)))


def last_of_each(tuples: pa.Table, by: Sequence[str]) -> pa.Table:
    """The last row of every group, in their order.

    >>> last_of_each(pa.table({"k": ["x", "y", "x"], "v": [1, 2, 3]}), ["k"]).to_pylist()
    [{'k': 'y', 'v': 2}, {'k': 'x', 'v': 3}]
    """
    numbers = group_numbers(tuples, by)
    last = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    # Where several rows are written to one place, the last one stays.
    last[numbers] = np.arange(len(numbers))
    rows = np.sort(last)
    return tuples if len(rows) == tuples.num_rows else taken(tuples, rows)
