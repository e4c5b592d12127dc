"""What Parquet and Arrow files have in common: units of known row counts, and columns that may need a cast."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.connector import Chunk
from penstock.connectors.files.formats.format import Cut, Part, Reach, Tuning
from penstock.connectors.fitting import fit_table, one_batch
from penstock.connectors.rejects import rejects


def grouped(rows: Sequence[int], size: int, tuning: Tuning) -> list[Cut]:
    """Neighbouring units in parts of at most `tuning.rows` rows, if a unit is not larger by itself."""
    total, cuts, at = sum(rows), list[Cut](), 0
    while total and at < len(rows):
        end, taken = at + 1, rows[at]
        while end < len(rows) and taken + rows[end] <= tuning.rows:
            taken += rows[end]
            end += 1
        cuts.append(Cut(at, end, taken, size * taken // total, counted=True))
        at = end
    return cuts


def counted_reach(part: Part, rows: int, total: int) -> Reach:
    """How far a train reaches into a part of known length."""
    left = total - part.first
    return Reach(None, max(0, left)) if left <= rows else Reach(part.first + rows, rows)


def _is(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values are of a type, or codes of such values."""
    return bool(kind.equals(wanted) or (pa.types.is_dictionary(kind) and kind.value_type.equals(wanted)))


def chunk_of(batch: pa.RecordBatch, origin: str, first: int, schema: pa.Schema, columns: Sequence[str]) -> Chunk:
    """Decoded columns as a chunk; `first` is the number of rows of the file before this batch."""
    if all(_is(one.type, schema.field(one.name).type) for one in batch.schema):
        arrays = [batch.column(name) for name in columns]
        wanted = [schema.field(name).with_type(array.type) for name, array in zip(columns, arrays, strict=True)]
        # Without columns there are still rows; and the file's own metadata stays behind.
        return Chunk(pa.record_batch(arrays, schema=pa.schema(wanted)) if arrays else batch.select([]))
    fitted, misfits = fit_table(pa.Table.from_batches([batch]), schema)
    refused = rejects(
        origin, [first + bad.row + 1 for bad in misfits], [None] * len(misfits), [bad.reason for bad in misfits]
    )
    return Chunk(one_batch(fitted).select(list(columns)), refused)
