"""Parquet files: cut by row groups, only the needed columns decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.base import Chunk
from penstock.connectors.columnar import chunk_of, grouped
from penstock.connectors.fitting import missing_or_uncastable, to_read
from penstock.connectors.formats import BrokenFileError, Cut, Part, Tuning, first_line, opened
from penstock.connectors.rejects import rejected_whole

_BATCH_ROWS: Final = 1 << 19
"""Rows decoded at a time: with whole row groups of this size decoding is fastest, and memory stays bounded."""


@dataclass(frozen=True)
class Parquet:
    """The Parquet format."""

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        with opened(part) as file:
            parquet = _footer(file)
            footer = parquet.metadata
            rows = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
            reason = missing_or_uncastable(parquet.schema_arrow, schema)
            if reason is not None and sum(rows):
                raise BrokenFileError(reason, sum(rows))
        return grouped(rows, part.size, tuning)

    def discover(self, part: Part) -> pa.Schema:
        with opened(part) as file:
            return _footer(file).schema_arrow

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        with opened(part) as file:
            parquet = _footer(file)
            groups = range(part.at, min(part.end, parquet.num_row_groups))
            sizes = [parquet.metadata.row_group(at).num_rows for at in groups]
            reason = missing_or_uncastable(parquet.schema_arrow, schema)
            if reason is not None:
                raise BrokenFileError(reason, sum(sizes))
            first = sum(parquet.metadata.row_group(at).num_rows for at in range(part.at))
            needed = to_read(parquet.schema_arrow, schema, columns) or [schema.names[0]]
            for group, size in zip(groups, sizes, strict=True):
                # One group at a time, so that a damaged one takes no other with it.
                done = 0
                try:
                    for batch in parquet.iter_batches(_BATCH_ROWS, [group], columns=needed, use_threads=False):
                        yield chunk_of(batch, part.path, first + done, schema, columns)
                        done += batch.num_rows
                except (pa.ArrowException, OSError) as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        raise
                    reason = f"row group {group} cannot be decoded: {first_line(error)}"
                    yield rejected_whole(part.path, reason, size - done, schema, columns)
                first += size


def _footer(file: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, pre_buffer=True)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFileError(f"is no Parquet file: {first_line(error)}") from error
