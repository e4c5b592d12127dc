"""Error streams: what an input could not take as a tuple, or a box not give as one, and why."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.ticks import END, LONGEST

REJECT_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.string()),  # where it came from: a file's path, the name of a generator
        pa.field("position", pa.int64()),  # line or row number in the origin, from 1; NULL for a whole file
        pa.field("record", pa.string()),  # the text as it stood, NULL where there is none
        pa.field("reason", pa.string()),
        pa.field("rows", pa.int64()),  # how many records this stands for: 1, or those of a whole file; NULL if unknown
    ]
)


def why_out_of_range(attribute: str) -> str:
    """Why a tuple is refused of which an attribute is too near to the ends of all ticks."""
    return f"{attribute} is out of range: it must be within {END - LONGEST:,} ticks of zero"


def reject_table(tuples: pa.Table, origin: str, reasons: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Tuples that are refused, as records of an error stream."""
    records = kernel.run("SELECT to_json(tuples) AS record FROM tuples", tuples=tuples).column("record")
    rows = tuples.num_rows
    columns = [
        pa.repeat(pa.scalar(origin), rows),
        pa.nulls(rows, pa.int64()),
        records.cast(pa.string()),
        reasons,
        pa.repeat(pa.scalar(1, pa.int64()), rows),
    ]
    return pa.table(columns, schema=REJECT_SCHEMA)
