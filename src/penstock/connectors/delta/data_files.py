"""The data files of a Delta table, and what its log says about them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.parquet_encodings import encodings
from penstock.storage.folder import Folder

_INDEXED: Final = 32
"""Columns with statistics, as Delta's own default."""
_LONGEST_BOUND: Final = 64
"""Longer strings are no bounds worth a place in the log."""


def write_data_file(
    folder: Folder, begin: str, rows: pa.Table, told: Sequence[str] = (), group_rows: int | None = None
) -> tuple[str, int, str]:
    """Put a data file into a table's folder: its name, its size, and what the log says about it.

    The log tells the bounds of the first columns, and of those in `told`. The name ends with a digest of the content.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **encodings(rows)) as file:
        file.write_table(rows, group_rows)
    return put_data_file(folder, begin, sink.getvalue(), rows.schema, told)


def put_data_file(
    folder: Folder, begin: str, content: pa.Buffer, schema: pa.Schema, told: Sequence[str] = ()
) -> tuple[str, int, str]:
    """The same of a file that is encoded already."""
    stats = _stats(content, schema, told)
    name = f"{begin}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.zstd.parquet"
    # Also if it is there: who wrote it may have been ended before it was safe, and old files that no version lists go.
    folder.write(name, content)
    return name, content.size, stats


def _stats(content: pa.Buffer, schema: pa.Schema, told: Sequence[str]) -> str:
    """What the log says about a Parquet file."""
    metadata = pq.read_metadata(pa.BufferReader(content))
    stats: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    # A dot in a name could be taken for the path into a struct.
    flat = [field.name for field in schema if not pa.types.is_nested(field.type) and "." not in field.name]
    position = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    row_groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    for name in [name for at, name in enumerate(flat) if at < _INDEXED or name in told]:
        columns = [group.column(position[name]) for group in row_groups]
        found = [column.statistics for column in columns]
        if all(one is not None and one.has_null_count for one in found):
            stats["nullCount"][name] = sum(one.null_count for one in found)
        if all(one is not None and (one.has_min_max or one.num_values == 0) for one in found):
            bounds = [bound for one in found if one.has_min_max for bound in (one.min, one.max)]
            least, most = (_bound(min(bounds)), _bound(max(bounds))) if bounds else (None, None)
            if least is not None and most is not None:
                stats["minValues"][name], stats["maxValues"][name] = least, most
    return json.dumps(stats, ensure_ascii=False)


def _bound(value: Any) -> int | str | None:
    """A bound as the log writes it; None for types whose bounds readers could take amiss (floats: NaN has no place)."""
    if isinstance(value, bool | float | bytes):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_BOUND else None
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo else text
    return value.isoformat() if isinstance(value, dt.date) else None
