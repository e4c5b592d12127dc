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
FIRST_LOOK = 16_384
"""Rows in which all groups may have appeared; each look after it is at four times as many."""
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
    kinds = [_value_type(tables[0].schema.field(name).type) for name in by]
    if _bits_differ(kinds):
        everything = pa.concat_tables([without_codes(table.select(list(by))) for table in tables])
        numbers = _codes(group_numbers(everything, by))
        return Groups(everything.take(pa.array(_firsts(numbers))), int(numbers.max(initial=-1)) + 1), np.split(
            numbers, cuts
        )
    columns = [encoded([table.column(name) for table in tables]) for name in by]
    schema = pa.schema([tables[0].schema.field(name) for name in by])
    if len(columns) == 1:
        ((values, numbers),) = columns
        return Groups(_table([values], schema), len(values)), np.split(numbers, cuts)
    numbers = _codes(_combined([codes for _, codes in columns]))
    first = _firsts(numbers)
    keys = _table([values.take(pa.array(codes[first])) for values, codes in columns], schema)
    return Groups(keys, len(first)), np.split(numbers, cuts)


def _table(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.Table:
    """Values as a table of a schema, which may have them as codes."""
    typed = [
        values.dictionary_encode().cast(field.type) if pa.types.is_dictionary(field.type) else values
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.table(typed, schema=schema)


def _firsts(numbers: Numbers) -> Numbers:
    """Where numbers that are given in order of appearance appear first."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def without_codes(keys: pa.Table) -> pa.Table:
    """The same, with the values of dictionaries in the place of their codes."""
    return keys.cast(pa.schema([field.with_type(_value_type(field.type)) for field in keys.schema]))


def encoded(columns: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, Numbers]:
    """The different values of several columns, in order of appearance, NULL among them; and the number of each row's.

    Of chunks that come as codes of a dictionary, only the entries are looked up.

    >>> values, numbers = encoded([pa.chunked_array([["x", "y", "x"]])])
    >>> values.to_pylist(), numbers.tolist()
    (['x', 'y'], [0, 1, 0])
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    kind = _value_type(columns[0].type)
    if not any(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        return _encoded(chunks, kind)
    pairs = [_entries(chunk) for chunk in chunks]
    values, places = _encoded([entries for entries, _ in pairs], kind)
    cuts = np.cumsum([len(entries) for entries, _ in pairs])[:-1].tolist()
    found = [place[codes] for place, (_, codes) in zip(np.split(places, cuts), pairs, strict=True)]
    numbers = np.concatenate(found)
    # A dictionary may have entries that no row has, and in any order.
    first = _first_rows(numbers, len(values))
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(numbers))]
    if len(order) == len(values) and np.array_equal(order, np.arange(len(order))):
        return values, numbers
    rank = np.zeros(len(values), np.int64)
    rank[order] = np.arange(len(order))
    return values.take(pa.array(order)), rank[numbers]


def _first_rows(numbers: Numbers, count: int) -> Numbers:
    """Where each of so many numbers appears first; the number of rows for those that do not appear. Where few numbers
    repeat, all have appeared soon."""
    first, at, size = np.full(count, len(numbers)), 0, FIRST_LOOK
    while at < len(numbers) and bool((first == len(numbers)).any()):
        look = numbers[at : at + size]
        found = np.full(count, len(numbers))
        found[look[::-1]] = np.arange(at, at + len(look))[::-1]
        first = np.minimum(first, found)
        at, size = at + size, 4 * size
    return first


def _encoded(chunks: Sequence[pa.Array], kind: pa.DataType) -> tuple[pa.Array, Numbers]:
    if not any(map(len, chunks)):
        return pa.array([], kind), np.zeros(0, np.int64)
    # All chunks get one dictionary, so they need not be made one before.
    coded = pa.chunked_array(chunks, kind).dictionary_encode(null_encoding="encode").chunks
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in coded]
    return coded[-1].dictionary, np.concatenate(codes).astype(np.int64)


def _entries(chunk: pa.Array) -> tuple[pa.Array, Numbers]:
    """Values, and for every row the place of its value among them."""
    if not pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_encode(null_encoding="encode")
        return chunk.dictionary, chunk.indices.to_numpy(zero_copy_only=False)
    entries, codes = chunk.dictionary, chunk.indices
    if codes.null_count:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
        codes = codes.cast(pa.int64()).fill_null(len(entries) - 1)
    return entries, codes.to_numpy(zero_copy_only=False)


def coded_texts(tuples: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Tuples with these columns as codes, if they are texts: whoever numbers them again looks up few values only."""
    for place, field in enumerate(tuples.schema):
        if field.name in columns and pa.types.is_string(field.type):
            tuples = tuples.set_column(place, field.name, tuples.column(place).dictionary_encode())
    return tuples


def coded_alike(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[pa.Table]:
    """Tables that go together, though only some have these columns as codes: then all have."""
    coded = [name for name in columns if any(pa.types.is_dictionary(table.schema.field(name).type) for table in tables)]
    return [coded_texts(table, coded) for table in tables] if coded else list(tables)


def decoded_texts(tuples: pa.Table, schema: pa.Schema) -> pa.Table:
    """Tuples with those columns as texts that a schema has as texts."""
    fields = [
        schema.field(own.name) if pa.types.is_dictionary(own.type) and own.name in schema.names else own
        for own in tuples.schema
    ]
    return tuples.cast(pa.schema(fields)) if fields != list(tuples.schema) else tuples


def _bits_differ(kinds: Sequence[pa.DataType]) -> bool:
    """Whether equal values can have several bit patterns, or no codes."""
    return any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in kinds)


def _combined(columns: Sequence[Numbers]) -> Numbers:
    numbers = np.zeros(len(columns[0]), np.int64)
    for codes in columns:
        span = int(codes.max()) + 1 if len(codes) else 1
        if int(numbers.max(initial=0)) >= _ROOM // span:
            numbers = _codes(numbers)
        numbers = numbers * span + codes
    return numbers


def _codes(numbers: Numbers) -> Numbers:
    """A number from 0 on for every value, in order of appearance."""
    return _encoded([pa.array(numbers)], pa.int64())[1]


def group_numbers(tuples: pa.Table, by: Sequence[str]) -> Numbers:
    """A number for every group of `by`, the same for all its rows; NULLs are equal, as in GROUP BY.

    >>> group_numbers(pa.table({"k": ["x", None, "x", None]}), ["k"]).tolist()
    [0, 1, 0, 1]
    """
    if not by or not tuples.num_rows:
        return np.zeros(tuples.num_rows, np.int64)
    keys = tuples.select(list(by))
    if _bits_differ([_value_type(kind) for kind in keys.schema.types]):
        return _ranks(without_codes(keys))
    columns = [encoded([column])[1] for column in keys.columns]
    # Products of group numbers and ranks must stay within 64 bits.
    return columns[0] if len(columns) == 1 else _codes(_combined(columns))


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
