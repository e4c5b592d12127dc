"""Direct-addressed groups: counting without a hash table, where the keys allow it.

Gigascope's low level uses a direct-mapped table for speed (oop.md 6). Here every key column is encoded into small
numbers; if the combinations of all columns and panes fit into a table that is not much larger than the train, a tuple's
place in it is plain arithmetic, and one pass counts. Otherwise the caller groups by hashing. On 4 million tuples with
262,144 groups the pass takes a third of the time of hashing; `penstock bench q4` shows the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 65_536
"""Tuples looked at before any column is encoded as a whole: enough to see that combinations cannot fit."""
CELLS_PER_TUPLE = 2
"""A sparser table would cost more to search for its filled cells than hashing costs."""
CHUNK = 262_144
"""Tuples placed at a time: their places stay in the processor's cache until they are complete."""

Integers = npt.NDArray[np.int64]


def dense_counts(keys: pa.Table, ticks: pa.ChunkedArray, pane: int, names: tuple[str, str]) -> pa.Table | None:
    """How many tuples each (pane, group) has, or None when a table of all combinations would be too sparse.

    `names` are the names of the pane column and of the count in the result; the key columns stand between them.
    """
    limit = CELLS_PER_TUPLE * len(ticks)
    if not all(_small_domain(field.type) for field in keys.schema):
        return None
    if _combinations([_encoded(column) for column in keys.slice(0, SAMPLE).columns]) > limit:
        return None
    columns = [_encoded(column) for column in keys.columns]
    bounds = pc.min_max(ticks)
    first, last = bounds["min"].as_py() // pane, bounds["max"].as_py() // pane
    sizes = [last - first + 1, *(_size(c) for c in columns)]
    cells = int(np.prod(sizes, dtype=object))
    if cells > limit:
        return None
    counts = np.bincount(_places(columns, sizes, ticks, pane, first), minlength=cells)
    filled = np.flatnonzero(counts)
    found: list[pa.Array] = [pa.array(counts[filled])]
    rest = filled
    for column, size in zip(reversed(columns), reversed(sizes[1:]), strict=True):
        rest, number = np.divmod(rest, size)
        found.append(column.chunk(0).dictionary.take(pa.array(number)))
    found.append(pa.array(rest + first))
    pane_name, count_name = names
    return pa.table(found[::-1], names=[pane_name, *keys.column_names, count_name])


def _places(
    columns: Sequence[pa.ChunkedArray], sizes: Sequence[int], ticks: pa.ChunkedArray, pane: int, first: int
) -> Integers:
    """The cell of every tuple in the table of all combinations, panes outermost."""
    places = np.empty(len(ticks), np.int64)
    for start, stop in pairwise([*range(0, len(ticks), CHUNK), len(ticks)]):
        place = places[start:stop]
        at = 0
        for piece in _pieces(ticks, start, stop):
            np.floor_divide(piece.to_numpy(), pane, out=place[at : at + len(piece)])
            at += len(piece)
        place -= first
        for column, size in zip(columns, sizes[1:], strict=True):
            place *= size
            at = 0
            for piece in _pieces(column, start, stop):
                place[at : at + len(piece)] += piece.indices.to_numpy()
                at += len(piece)
    return places


def _pieces(column: pa.ChunkedArray, start: int, stop: int) -> Iterator[pa.Array]:
    yield from column.slice(start, stop - start).chunks


def _small_domain(kind: pa.DataType) -> bool:
    # Not floats: two zeros and many NaNs are one group, which an encoding by bits does not know. And only what the
    # kernel hands back in the same type: the next train may be grouped there, and its partials must fit to these.
    plain_time = pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind) or plain_time)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """All chunks with one dictionary; NULL is a group like any other."""
    return column.dictionary_encode(null_encoding="encode")


def _size(column: pa.ChunkedArray) -> int:
    return len(column.chunk(0).dictionary)


def _combinations(columns: Sequence[pa.ChunkedArray]) -> int:
    return int(np.prod([_size(c) for c in columns], dtype=object))
