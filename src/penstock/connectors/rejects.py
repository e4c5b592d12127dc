"""Records that could not become tuples: the rows of an input's error stream."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.connector import REJECT_SCHEMA, Chunk


def rejects(
    origin: str, positions: Sequence[int | None], records: Sequence[str | None], reasons: Sequence[str]
) -> pa.RecordBatch | None:
    """One reject per record; None if there is none."""
    if not reasons:
        return None
    count = len(reasons)
    columns = [[origin] * count, positions, records, reasons, [1] * count]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, REJECT_SCHEMA, strict=True)],
        schema=REJECT_SCHEMA,
    )


def rejected_whole(origin: str, reason: str, rows: int | None, schema: pa.Schema, columns: Sequence[str]) -> Chunk:
    """No tuples, and one reject that stands for a whole file or a whole part of it."""
    batch = pa.RecordBatch.from_pylist(
        [{"origin": origin, "position": None, "record": None, "reason": reason, "rows": rows}], schema=REJECT_SCHEMA
    )
    return Chunk(empty(schema, columns), batch)


def empty(schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """No tuples of these columns."""
    return pa.RecordBatch.from_pylist([], schema=pa.schema([schema.field(name) for name in columns]))
