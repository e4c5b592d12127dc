"""Which rows of several tables are of the same event: those that agree in begin and payload.

Long texts make payloads long, and most rows that agree in all else agree in them, too. So rows are numbered by the
other columns first, and then every row is compared with the first of its number. Only where some differ are texts
hashed. Values decide, never a hash alone; NULLs are equal to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import group_numbers

BLOCK: Final = 1024
"""Rows that are compared at a time: with texts of 1000 bytes, what a core keeps near to it."""


def event_numbers(tables: Sequence[pa.Table], columns: Sequence[str]) -> tuple[int, list[Numbers]]:
    """How many events there are at most, and for each table the event of every row.

    >>> event_numbers([pa.table({"t": [1, 1], "s": ["x", None]}), pa.table({"t": [1], "s": ["x"]})], ["t", "s"])
    (3, [array([1, 2]), array([1])])
    """
    whole = pa.concat_tables([table.select(list(columns)) for table in tables])
    cuts = np.cumsum([table.num_rows for table in tables])[:-1].tolist()
    long = [field.name for field in whole.schema if _is_long(field.type)]
    numbers = group_numbers(whole, [name for name in columns if name not in long])
    count = int(numbers.max(initial=-1)) + 1
    unlike = [_unlike(tables, np.split(numbers, cuts), name, count) for name in long]
    differs = np.isin(numbers, np.concatenate([numbers[each] for each in unlike])) if unlike else np.zeros(0, bool)
    if differs.any():
        rows = np.flatnonzero(differs)
        numbers = numbers.copy()
        numbers[rows] = count + group_numbers(whole.take(pa.array(rows)), list(columns))
        count = int(numbers.max()) + 1
    return count, np.split(numbers, cuts)


def _is_long(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(each(kind) for each in kinds)


def _unlike(tables: Sequence[pa.Table], numbers: Sequence[Numbers], name: str, count: int) -> Mask:
    """Which rows have another text than the first of their number."""
    place = np.full(count, -1)
    models: list[pa.ChunkedArray] = []
    found = []
    for table, own in zip(tables, numbers, strict=True):
        texts = table.column(name)
        fresh = np.zeros(len(own), bool)
        _, first = np.unique(own, return_index=True)
        fresh[first] = place[own[first]] < 0
        rows = np.flatnonzero(fresh)
        place[own[rows]] = sum(map(len, models)) + np.arange(len(rows))
        models.append(texts if len(rows) == len(texts) else texts.take(pa.array(rows)))
        found.append((texts, own, fresh))
    model = pa.chunked_array([chunk for each in models for chunk in each.chunks], tables[0].column(name).type)
    model = model.combine_chunks()
    return np.concatenate([_compared(texts, place[own], fresh, model) for texts, own, fresh in found])


def _compared(texts: pa.ChunkedArray, place: Numbers, fresh: Mask, model: pa.Array) -> Mask:
    unlike = np.zeros(len(texts), bool)
    for start in range(0, len(texts), BLOCK) if not fresh.all() else ():
        stop = start + BLOCK
        one, other = texts.slice(start, BLOCK), model.take(pa.array(place[start:stop]))
        same = pc.fill_null(pc.equal(one, other), False).to_numpy()
        if one.null_count:
            same = same | pc.and_(one.is_null(), other.is_null()).to_numpy()
        unlike[start:stop] = ~same
    return unlike
