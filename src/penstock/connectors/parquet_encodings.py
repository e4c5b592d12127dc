"""How the columns of a Parquet file are encoded.

- Times, and numbers that count up, hardly repeat, so a dictionary of them is large and useless; but each is close to
  the one before. Such columns are written as differences (DELTA_BINARY_PACKED): smaller, and written and read three
  times as fast. Differences that do not repeat either are not compressed: nothing would be won.
- Texts of which there are so many that the writer would give up their dictionary are written without one at once.

What a sample of the rows shows decides, so the same rows always give the same bytes. Who reads Parquet reads these,
too: Spark, DuckDB, Polars, Arrow.
"""

from __future__ import annotations

from math import exp
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE: Final = 4096
"""Rows that are looked at."""
_DIFFERING: Final = 0.5
"""More of the sample than this must be different values."""
_BITS: Final = 40
"""Differences must fit into so many bits: else little is won."""
_DICTIONARY_BYTES: Final = 1 << 20
"""A larger dictionary is given up by the writer."""
_LENGTH_BYTES: Final = 4
"""Before every text in a dictionary."""
_GOLDEN: Final = 0.6180339887498949
"""Multiples of it, less their whole parts, lie evenly, and in step with nothing that comes round in a table."""


def encodings(table: pa.Table, compression: str | None = "zstd") -> dict[str, Any]:
    """What `pyarrow.parquet` is told about the columns of a table.

    >>> encodings(pa.table({"number": pa.array(range(100)), "kind": pa.array([1, 2] * 50)}))
    {'compression': 'zstd', 'use_dictionary': ['kind'], 'column_encoding': {'number': 'DELTA_BINARY_PACKED'}}
    """
    told: dict[str, Any] = {"compression": compression or "none"}
    if any(pa.types.is_nested(field.type) or "." in field.name for field in table.schema):
        return told  # what is told goes by the paths of leaves
    middle = table.slice(max(0, (table.num_rows - _SAMPLE) // 2), _SAMPLE)
    steps = {field.name: _steps(middle.column(field.name)) for field in table.schema if _is_whole(field.type)}
    close = [name for name, found in steps.items() if found is not None]
    many = [field.name for field in table.schema if _is_text(field.type) and _are_many(table.column(field.name))]
    if close or many:
        told["use_dictionary"] = [name for name in table.column_names if name not in {*close, *many}] or False
    if close:
        told["column_encoding"] = dict.fromkeys(close, "DELTA_BINARY_PACKED")
    if random := {name for name in close if _repeat_little(steps[name])}:
        told["compression"] = {name: "none" if name in random else compression or "none" for name in table.column_names}
    return told


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int32(kind) or pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _steps(sample: pa.ChunkedArray) -> np.ndarray | None:
    """The differences of neighbours, if they are what is to be written."""
    values = sample.drop_null()
    if len(values) < 2 or pc.count_distinct(values).as_py() <= _DIFFERING * len(values):
        return None
    numbers = values.cast(pa.int64()).to_numpy()
    steps = np.diff(numbers.astype(np.float64))
    return np.diff(numbers) if steps.max() - steps.min() < 2.0**_BITS else None


def _repeat_little(steps: np.ndarray | None) -> bool:
    return steps is not None and len(np.unique(steps)) > _DIFFERING * len(steps)


def _are_many(texts: pa.ChunkedArray) -> bool:
    """Whether a dictionary of these texts would be given up: a sample has more different ones than it would have of
    the most that a dictionary has room for, if each of those were as frequent as any other."""
    if len(texts) < _SAMPLE:
        return False  # the dictionary is small, whatever they are
    found = _spread(texts).drop_null()
    if not len(found):
        return False
    room = _DICTIONARY_BYTES / (pc.sum(pc.binary_length(found)).as_py() / len(found) + _LENGTH_BYTES)
    return bool(pc.count_distinct(found).as_py() >= room * (1 - exp(-len(found) / room)))


def _spread(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values from all over a column: neighbours may have few values in common with others, or come round in turn."""
    places = np.unique((np.arange(1, _SAMPLE + 1) * _GOLDEN % 1.0 * len(column)).astype(np.int64))
    chunks, first = [], 0
    for chunk in column.chunks:
        low, high = np.searchsorted(places, (first, first + len(chunk)))
        chunks.append(chunk.take(pa.array(places[low:high] - first)))
        first += len(chunk)
    return pa.chunked_array(chunks, column.type)
