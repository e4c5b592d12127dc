"""Arrow IPC files, cut by record batches; and Arrow streams, which can only be read whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.connectors.connector import Chunk, fixed_width
from penstock.connectors.files.cursors import BatchCursor, keep, part_key, resume
from penstock.connectors.files.formats.columnar import chunk_of, counted_reach, grouped
from penstock.connectors.files.formats.format import (
    BrokenFileError,
    Cut,
    Format,
    Part,
    Reach,
    Tuning,
    first_line,
    open_part,
    opened,
)
from penstock.connectors.files.recent import Recent
from penstock.connectors.fitting import lossless, missing_or_uncastable, to_read
from penstock.connectors.rejects import rejected_whole

_MAGIC: Final = b"ARROW1"
_SLICE_ROWS: Final = 1 << 19
_TEXT_BYTES: Final = 16  # what a text takes up, to guess how many rows a stream has
_KEPT_TOTALS: Final = 64
_totals: Recent[int] = Recent(_KEPT_TOTALS)


@dataclass(frozen=True)
class ArrowIpc(Format):
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
            width = max(1, sum(fixed_width(field.type) or _TEXT_BYTES for field in found))
            return [Cut(0, 1, part.size // width, part.size)]
        return grouped(rows, part.size, tuning)

    def reach(self, part: Part, rows: int, schema: pa.Schema) -> Reach:
        return counted_reach(part, rows, _total(part))

    def texts(self, part: Part, schema: pa.Schema, asked: Collection[str] | None = None) -> Mapping[str, float]:
        with opened(part) as file:
            reader = _reader(file, None)
            streamed = not hasattr(reader, "num_record_batches")
            try:
                batch = next(reader, None) if streamed else reader.get_batch(0) if reader.num_record_batches else None
            except (pa.ArrowException, OSError, StopIteration):
                return {}
        names = [one.name for one in schema if fixed_width(one.type) is None]
        if batch is None or not batch.num_rows:
            return {}
        return {name: batch.column(name).nbytes / batch.num_rows for name in names if name in batch.schema.names}

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
            exact = all(lossless(found.field(name).type, schema.field(name).type) for name in needed)
            # Only rejects tell row numbers, so nobody counts what lies before this part if there can be none.
            before = 0 if _is_stream(file) or exact else sum(_row_counts(file, part.at))
        key = part_key(part, tuple(included))

        def begin() -> BatchCursor:
            own = open_part(part)
            reader = _reader(own, included)
            streamed = not hasattr(reader, "num_record_batches")
            return BatchCursor(iter(reader) if streamed else map(reader.get_batch, range(part.at, part.end))).holding(
                own
            )

        cursor = resume(key, part.first, begin) if part.sliced else begin()
        for low, batch in cursor.take(part.first, part.last):
            for at in range(0, batch.num_rows, _SLICE_ROWS):
                yield chunk_of(batch.slice(at, _SLICE_ROWS), part.path, before + low + at, schema, columns)
        if cursor.failed is not None:
            # What follows in a stream cannot be found without this batch; in a file the part ends here.
            reason = f"cannot be decoded: {first_line(cursor.failed)}"
            yield rejected_whole(part.path, reason, None, schema, columns)
        if part.sliced:
            keep(key, cursor)
        else:
            cursor.close()


def _is_stream(file: Any) -> bool:
    file.seek(0)
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


def _total(part: Part) -> int:
    """The rows of a part that can be decoded: of a stream they are counted, once."""
    key = part_key(part)
    total = _totals.get(key)
    if total is None:
        with opened(part) as file:
            total = _count(file) if _is_stream(file) else sum(_row_counts(file)[part.at : part.end])
        _totals.put(key, total)
    return total


def _count(file: Any) -> int:
    rows = 0
    try:
        for batch in _reader(file, [0]):
            rows += int(batch.num_rows)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
    return rows
