"""Direct-addressed groups: counting without a hash table, where the keys allow it.

Gigascope's low level uses a direct-mapped table for speed (oop.md 6). Here every key column is encoded into small
numbers; if the combinations of all columns and panes fit into a table that is not much larger than the train, a tuple's
place in it is plain arithmetic, and one pass counts. Otherwise the caller groups by hashing. On 4 million tuples with
262,144 groups the pass takes a third of the time of hashing; `penstock bench q4` shows the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

SAMPLE = 65_536
"""Tuples looked at before any column is encoded as a whole: enough to see that combinations cannot fit."""
CELLS_PER_TUPLE = 2
"""A sparser table would cost more to search for its filled cells than hashing costs."""


def dense_counts(keys: pa.Table, panes: pa.Array, names: tuple[str, str]) -> pa.Table | None:
    """How many tuples each (pane, group) has, or None when a table of all combinations would be too sparse.

    `names` are the names of the pane column and of the count in the result; the key columns stand between them.
    """
    limit = CELLS_PER_TUPLE * keys.num_rows
    if not all(_small_domain(field.type) for field in keys.schema):
        return None
    if _combinations([_encoded(keys.slice(0, SAMPLE).column(i)) for i in range(keys.num_columns)]) > limit:
        return None
    columns = [_encoded(keys.column(i)) for i in range(keys.num_columns)]
    pane = panes.to_numpy(zero_copy_only=False)
    first, last = int(pane.min()), int(pane.max())
    sizes = [last - first + 1, *(len(c.dictionary) for c in columns)]
    cells = int(np.prod(sizes, dtype=object))
    if cells > limit:
        return None
    place = (pane - first).astype(np.int32 if cells < 2**31 else np.int64)
    for column, size in zip(columns, sizes[1:], strict=True):
        place *= size
        place += column.indices.to_numpy()
    counts = np.bincount(place, minlength=cells)
    filled = np.flatnonzero(counts)
    found: list[pa.Array] = [pa.array(counts[filled])]
    rest = filled
    for column, size in zip(reversed(columns), reversed(sizes[1:]), strict=True):
        rest, number = np.divmod(rest, size)
        found.append(column.dictionary.take(pa.array(number)))
    found.append(pa.array(rest + first))
    pane_name, count_name = names
    return pa.table(found[::-1], names=[pane_name, *keys.column_names, count_name])


def _small_domain(kind: pa.DataType) -> bool:
    # Not floats: two zeros and many NaNs are one group, which an encoding by bits does not know. And only what the
    # kernel hands back in the same type: the next train may be grouped there, and its partials must fit to these.
    plain_time = pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind) or plain_time)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # NULL is a group like any other.
    return column.combine_chunks().dictionary_encode(null_encoding="encode")


def _combinations(columns: Sequence[pa.DictionaryArray]) -> int:
    return int(np.prod([len(c.dictionary) for c in columns], dtype=object))
