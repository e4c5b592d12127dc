"""Arrow IPC files, cut by record batches; and Arrow streams, which can only be read whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.connectors.base import Chunk
from penstock.connectors.columnar import chunk_of, grouped
from penstock.connectors.fitting import lossless, missing_or_uncastable, to_read
from penstock.connectors.formats import BrokenFileError, Cut, Part, Tuning, first_line, opened
from penstock.connectors.rejects import rejected_whole

_MAGIC: Final = b"ARROW1"
_SLICE_ROWS: Final = 1 << 19


@dataclass(frozen=True)
class ArrowIpc:
    """The Arrow IPC format, file and stream."""

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        with opened(part) as file:
            streamed = _is_stream(file)
            found = _reader(file, None).schema
            rows = None if streamed else _row_counts(file)
            reason = missing_or_uncastable(found, schema)
            if reason is not None and (rows is None or any(rows)):
                raise BrokenFileError(reason, sum(rows) if rows is not None else None)
        if rows is None:
            width = max(1, sum(_width(field.type) for field in found))
            return [Cut(0, 1, part.size // width, part.size)]
        return grouped(rows, part.size, tuning)

    def discover(self, part: Part) -> pa.Schema:
        with opened(part) as file:
            return _reader(file, None).schema

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        with opened(part) as file:
            found = _reader(file, None).schema
            reason = missing_or_uncastable(found, schema)
            if reason is not None:
                raise BrokenFileError(reason, None)
            needed = to_read(found, schema, columns) or [schema.names[0]]
            included = sorted(found.get_field_index(name) for name in needed)
            file.seek(0)
            reader = _reader(file, included)
            streamed = not hasattr(reader, "num_record_batches")
            batches = iter(reader) if streamed else map(reader.get_batch, range(part.at, part.end))
            exact = all(lossless(found.field(name).type, schema.field(name).type) for name in needed)
            # Only rejects tell row numbers, so nobody counts what lies before this part if there can be none.
            first = 0 if streamed or exact else sum(_row_counts(file, part.at))
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        raise
                    # What follows in a stream cannot be found without this batch; in a file the part ends here.
                    yield rejected_whole(part.path, f"cannot be decoded: {first_line(error)}", None, schema, columns)
                    return
                if batch is None:
                    return
                for at in range(0, batch.num_rows, _SLICE_ROWS):
                    yield chunk_of(batch.slice(at, _SLICE_ROWS), part.path, first + at, schema, columns)
                first += batch.num_rows


def _is_stream(file: Any) -> bool:
    head = file.read(len(_MAGIC))
    file.seek(0)
    return bool(head != _MAGIC)


def _reader(file: Any, included: list[int] | None) -> Any:
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=included)
    try:
        streamed = _is_stream(file)
        return pa.ipc.open_stream(file, options=options) if streamed else pa.ipc.open_file(file, options=options)
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFileError(f"is no Arrow file: {first_line(error)}") from error


def _row_counts(file: Any, stop: int | None = None) -> list[int]:
    """Rows of each batch: pyarrow tells them only with a batch, so the first column alone is read."""
    file.seek(0)
    reader = _reader(file, [0])
    return [int(reader.get_batch(at).num_rows) for at in range(reader.num_record_batches if stop is None else stop)]


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 16
