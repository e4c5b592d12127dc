"""The schema of an input's error stream: what could not be taken as a tuple, and why."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

REJECT_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.string()),  # where it came from: a file's path, the name of a generator
        pa.field("position", pa.int64()),  # line or row number in the origin, from 1; NULL for a whole file
        pa.field("record", pa.string()),  # the text as it stood, NULL where there is none
        pa.field("reason", pa.string()),
        pa.field("rows", pa.int64()),  # how many records this stands for: 1, or those of a whole file; NULL if unknown
    ]
)
