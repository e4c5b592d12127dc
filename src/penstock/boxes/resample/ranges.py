"""Aggregates over many ranges of one sequence of tuples; ranges may overlap.

A range that equals the one before it is computed once. Short ranges are spelled out, tuple by tuple. Long ones would
touch every tuple over and over, so they are put together from blocks of 1, 2, 4, 8, ... tuples, each aggregated once:
a range needs at most two blocks of each length.

```
 tuples          0   1   2   3   4   5   6   7   8   9
 blocks of 2    [   0   |   1   |   2   |   3   |   4   ]
 blocks of 4    [       0       |       1       |   ...
 range 1..8          *  [   1   ]               *            = tuple 1, block 1 of 2, block 1 of 4, tuple 8
                                [       1       ]
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Aggregation, Held
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED
from penstock.operators.arrays import Numbers
from penstock.operators.sketches.rows import estimated, sketched

RANGE = "#range"

PAIRS = 1 << 18
"""(range, tuple) pairs that are aggregated at once: with more of them the groups no longer fit the cache."""
LONG = 6
"""Blocks are made where spelling ranges out takes this many times as many rows: a block costs more than a tuple."""

Spelling = Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]
"""From ranges (first, last) to pairs: the number of the range, and a row that belongs to it."""


def over_ranges(
    aggregation: Aggregation, tuples: pa.Table, first: Numbers, last: Numbers, own: pa.Table | None = None
) -> pa.Table:
    """The outputs of every range `first[i]..last[i]` of the tuples, ends included, and the least `ARRIVED` in it.

    `own` has a row of columns for each range, that the aggregates use beside those of the tuples.
    """
    if own is not None:
        return _spelled_out(aggregation, tuples, first, last, own)
    fresh = np.ones(len(first), bool)
    fresh[1:] = (first[1:] != first[:-1]) | (last[1:] != last[:-1])
    first, last = first[fresh], last[fresh]
    rows = int((last - first + 1).sum())
    each = _blocks_of(rows / max(1, len(first)))
    long = not aggregation.held and rows > LONG * (2 * tuples.num_rows + each * len(first))
    found = (_in_blocks if long else _spelled_out)(aggregation, tuples, first, last)
    return found if fresh.all() else found.take(pa.array(np.cumsum(fresh) - 1))


def _spelled_out(
    aggregation: Aggregation, tuples: pa.Table, first: Numbers, last: Numbers, own: pa.Table | None = None
) -> pa.Table:
    query = _query(aggregation, aggregation.partials)
    return _run(query, tuples, first, last, np.cumsum(last - first + 1), _every, own, aggregation.held)


def _in_blocks(aggregation: Aggregation, tuples: pa.Table, first: Numbers, last: Numbers) -> pa.Table:
    levels = [_grouped(tuples, np.arange(tuples.num_rows), aggregation.partials)]
    for _ in range(int((last - first + 1).max()).bit_length() - 1):
        whole = levels[-1]
        levels.append(_grouped(whole, np.arange(whole.num_rows) // 2, aggregation.merges))
    offsets = np.cumsum([0, *(level.num_rows for level in levels[:-1])]).tolist()
    blocks = pa.concat_tables(levels).combine_chunks()
    sizes = np.full(len(first), int(_blocks_of(float((last - first + 1).mean()))))
    query = _query(aggregation, aggregation.merges)
    return _run(query, blocks, first, last, np.cumsum(sizes), lambda a, b: _blocks(a, b, offsets))


def _grouped(rows: pa.Table, groups: Numbers, aggregates: Sequence[tuple[str, str]]) -> pa.Table:
    """One block for each number of a group; groups are numbered 0, 1, 2, ..."""
    select = "".join(f", {sql} AS {quote(name)}" for name, sql in (*aggregates, _arrived()))
    query = f"SELECT {quote(RANGE)}{select} FROM rows GROUP BY {quote(RANGE)} ORDER BY {quote(RANGE)}"
    return kernel.run(query, rows=rows.append_column(RANGE, pa.array(groups))).drop_columns([RANGE])


def _run(
    query: str,
    rows: pa.Table,
    first: Numbers,
    last: Numbers,
    pairs: Numbers,
    spell: Spelling,
    own: pa.Table | None = None,
    held: Sequence[Held] = (),
) -> pa.Table:
    """The query over all ranges, piece by piece; `pairs` is the running total of the pairs expected."""
    rows = rows.combine_chunks()
    found = []
    for a, b in _pieces(pairs):
        ranges, members = spell(first[a:b], last[a:b])
        pieces = rows.take(pa.array(members)).append_column(RANGE, pa.array(ranges))
        for name, values in _columns(own):
            pieces = pieces.append_column(name, values.slice(a, b - a).take(pa.array(ranges)))
        estimates = {each.name: _estimated(each, pieces) for each in held if each.sketch is not None}
        found.append(kernel.run(query, pairs=pieces, **estimates))
    return pa.concat_tables(found).combine_chunks()


def _columns(own: pa.Table | None) -> list[tuple[str, pa.Array]]:
    return [] if own is None else [(name, own.column(name).combine_chunks()) for name in own.column_names]


def _pieces(pairs: Numbers) -> Iterator[tuple[int, int]]:
    total = int(pairs[-1])
    cuts = np.searchsorted(pairs, np.arange(PAIRS, total, PAIRS), side="left") + 1
    return pairwise(sorted({0, *cuts.tolist(), len(pairs)}))


def _query(aggregation: Aggregation, aggregates: Sequence[tuple[str, str]]) -> str:
    """Over `pairs`: one row of outputs for each range, in their order."""
    key = quote(RANGE)
    select = "".join(f", {sql} AS {quote(name)}" for name, sql in (*aggregates, _arrived()))
    parts, joins = [f"merged AS (SELECT {key}{select} FROM pairs GROUP BY {key})"], ""
    for held in aggregation.held:
        results = "".join(f", {sql} AS {quote(name)}" for name, sql in held.results)
        source = held.name if held.sketch is not None else f"({_values(held)})"
        parts.append(f"{_closed(held)} AS (SELECT {key}{results} FROM {source} GROUP BY {key})")
        joins += f" LEFT JOIN {_closed(held)} ON merged.{key} = {_closed(held)}.{key}"
    finals = ", ".join(f"{sql} AS {quote(name)}" for name, sql in (*aggregation.finals, (ARRIVED, quote(ARRIVED))))
    return f"WITH {', '.join(parts)} SELECT {finals} FROM merged{joins} ORDER BY merged.{key}"


def _closed(held: Held) -> str:
    """The results of held values, as a table."""
    return f"closed_{held.name}"


def _values(held: Held) -> str:
    """SQL of held values, with their range."""
    values = "".join(f", {sql} AS {quote(name)}" for name, sql in held.values)
    where = f" WHERE {held.where}" if held.where else ""
    return f"SELECT {quote(RANGE)}{values} FROM pairs{where}"


def _estimated(held: Held, pairs: pa.Table) -> pa.Table:
    """What the sketch of each range says."""
    return estimated(sketched(kernel.run(_values(held), pairs=pairs), (RANGE,), held), (RANGE,), held)


def _arrived() -> tuple[str, str]:
    return ARRIVED, f"min({quote(ARRIVED)})"


def _every(first: Numbers, last: Numbers) -> tuple[Numbers, Numbers]:
    """Every row of every range.

    >>> [found.tolist() for found in _every(np.array([0, 5]), np.array([1, 7]))]
    [[0, 0, 1, 1, 1], [0, 1, 5, 6, 7]]
    """
    lengths = last - first + 1
    ranges = np.repeat(np.arange(len(first)), lengths)
    begins = np.cumsum(lengths) - lengths
    return ranges, np.arange(len(ranges)) + np.repeat(first - begins, lengths)


def _blocks(first: Numbers, last: Numbers, offsets: Sequence[int]) -> tuple[Numbers, Numbers]:
    """The fewest blocks that make up each range; blocks of 2^n tuples are the rows from `offsets[n]` on.

    >>> [found.tolist() for found in _blocks(np.array([1]), np.array([8]), [0, 10, 15, 18])]
    [[0, 0, 0, 0], [1, 8, 11, 16]]
    """
    low, high = first.copy(), last + 1
    found: list[tuple[Numbers, Numbers]] = []
    for offset in offsets:
        for edge, step in ((low, 0), (high, -1)):
            # An odd edge has no larger block to be in.
            odd = np.flatnonzero((edge & 1 == 1) & (low < high))
            found.append((odd, edge[odd] + step + offset))
            edge[odd] += 1 + 2 * step
        low, high = low >> 1, high >> 1
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


def _blocks_of(length: float) -> float:
    """How many blocks a range of this length takes, about."""
    return max(1.0, float(np.log2(length)))
