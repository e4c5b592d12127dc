"""Groups of tuples: numbered alike in several tables, and spread over the slots of a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.operators.arrays import Numbers

_ROOM = 2**62
SAMPLE = 16
"""One group of so many is looked at, to see whether merging is worth it."""
SAMPLED_ROWS = 8192
"""Fewer rows are merged without looking."""
GROUP_SLOTS = 64
"""Slots that the groups of a box share out among them: a batch that meets few groups rewrites the state of few."""


@dataclass(frozen=True)
class Groups:
    """The groups that several tables speak of, numbered 0, 1, 2, ... ."""

    keys: pa.Table
    """The columns of a group, one row each; without columns there is one group."""
    count: int

    def columns(self, groups: Numbers) -> list[tuple[str, pa.ChunkedArray]]:
        """The columns of the groups with these numbers, by name."""
        if not self.keys.num_columns:
            return []
        taken = self.keys.take(pa.array(groups))
        return list(zip(taken.column_names, taken.columns, strict=True))

    def numbers(self, table: pa.Table) -> Numbers:
        """The groups of rows, which must all be known."""
        _, (own, found) = number([self.keys, table], self.keys.column_names)
        place = np.zeros(len(own), np.int64)
        place[own] = np.arange(len(own))
        return place[found] if len(own) else found


def number(tables: Sequence[pa.Table], by: Sequence[str]) -> tuple[Groups, list[Numbers]]:
    """Number the groups of several tables alike; for each table the group of every row.

    >>> found, (left, right) = number([pa.table({"k": ["x", "y"]}), pa.table({"k": ["y", "y"]})], ["k"])
    >>> found.count, left.tolist(), right.tolist(), found.keys["k"].to_pylist()
    (2, [0, 1], [1, 1], ['x', 'y'])
    """
    sizes = [table.num_rows for table in tables]
    cuts = np.cumsum(sizes)[:-1].tolist()
    if not by:
        return Groups(pa.table({}), 1), np.split(np.zeros(sum(sizes), np.int64), cuts)
    everything = pa.concat_tables([table.select(list(by)) for table in tables])
    numbers = group_numbers(everything, by)
    numbers = _codes(numbers) if _bits_differ(everything) else numbers
    # They are given in order of appearance.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))
    return Groups(everything.take(pa.array(first)), len(first)), np.split(numbers, cuts)


def _bits_differ(keys: pa.Table) -> bool:
    """Whether equal values can have several bit patterns, or no codes."""
    return any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in keys.schema.types)


def _combined(keys: pa.Table) -> Numbers:
    numbers = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        codes = _codes(column)
        span = int(codes.max()) + 1 if len(codes) else 1
        if int(numbers.max(initial=0)) >= _ROOM // span:
            numbers = _codes(numbers)
        numbers = numbers * span + codes
    return numbers


def _codes(values: pa.ChunkedArray | Numbers) -> Numbers:
    """A number from 0 on for every value, NULL among them, in order of appearance."""
    whole = pa.array(values) if isinstance(values, np.ndarray) else values.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    whole = whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole
    codes: Numbers = (
        whole.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return codes


def group_numbers(tuples: pa.Table, by: Sequence[str]) -> Numbers:
    """A number for every group of `by`, the same for all its rows; NULLs are equal, as in GROUP BY.

    >>> group_numbers(pa.table({"k": ["x", None, "x", None]}), ["k"]).tolist()
    [0, 1, 0, 1]
    """
    if not by or not tuples.num_rows:
        return np.zeros(tuples.num_rows, np.int64)
    keys = tuples.select(list(by))
    if _bits_differ(keys):
        return _ranks(keys)
    numbers = _combined(keys)
    # Products of group numbers and ranks must stay within 64 bits.
    return numbers if keys.num_columns == 1 else _codes(numbers)


def _ranks(keys: pa.Table) -> Numbers:
    numbered = keys.append_column("#row", pa.array(np.arange(keys.num_rows)))
    names = ", ".join(quote(name) for name in keys.column_names)
    ranks = f"SELECT dense_rank() OVER (ORDER BY {names}) - 1 AS number FROM tuples ORDER BY {quote('#row')}"
    ranked: Numbers = kernel.run(ranks, tuples=numbered).column("number").to_numpy()
    return ranked


def repeats(rows: pa.Table, keys: Sequence[str]) -> bool:
    """Whether a row for each value of the keys would be at most three quarters, judged by a sample of the values."""
    if rows.num_rows < SAMPLED_ROWS:
        return True
    names = ", ".join(map(quote, keys))
    sample = f"SELECT count(*) AS n FROM tuples WHERE hash({names}) % {SAMPLE} = 0 GROUP BY {names}"
    found = kernel.run(f"SELECT count(*) AS groups, sum(n) AS rows FROM ({sample})", tuples=rows.select(list(keys)))
    groups, taken = found["groups"][0].as_py(), int(found["rows"][0].as_py() or 0)
    return bool(4 * groups <= 3 * taken)


def group_slots(tuples: pa.Table, by: Sequence[str]) -> Numbers:
    """The slot in which a box keeps the group of each row."""
    if not by:
        return np.zeros(tuples.num_rows, np.int64)
    # Buckets take the low bits of the same hash.
    sql = f"SELECT CAST((hash({', '.join(quote(k) for k in by)}) >> 32) % {GROUP_SLOTS} AS BIGINT) AS slot FROM tuples"
    found: Numbers = kernel.run(sql, tuples=tuples.select(by)).column("slot").to_numpy()
    return found


def parted(tuples: pa.Table, slots: Numbers) -> list[tuple[int, pa.Table]]:
    """The rows of each slot, slots ascending, rows in their order."""
    if not len(slots):
        return []
    if bool(np.all(slots == slots[0])):
        return [(int(slots[0]), tuples.combine_chunks())]
    order = np.argsort(slots, kind="stable")
    tuples, slots = tuples.take(pa.array(order)).combine_chunks(), slots[order]
    cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    return [(int(slots[a]), tuples.slice(a, b - a)) for a, b in pairwise(cuts)]
