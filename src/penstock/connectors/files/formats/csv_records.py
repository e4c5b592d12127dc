"""CSV whose quoted fields may hold line breaks: read as one stream of records, for no line end can be trusted."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from penstock.connectors.connector import Chunk
from penstock.connectors.files.cursors import keep, part_key, resume
from penstock.connectors.files.formats.format import BrokenFileError, Part, first_line
from penstock.connectors.files.formats.text_blocks import full_text
from penstock.connectors.files.recent import Recent
from penstock.connectors.fitting import Misfit, fit_table, one_batch
from penstock.connectors.rejects import rejected_whole, rejects

if TYPE_CHECKING:
    from penstock.connectors.files.formats.csv import CsvOptions

_BLOCK_BYTES: Final = 8 << 20
_KEPT_COUNTS: Final = 64
_counts: Recent[int] = Recent(_KEPT_COUNTS)
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def read_records(
    part: Part,
    schema: pa.Schema,
    columns: Sequence[str],
    names: Sequence[str],
    layout: arrow_csv.ParseOptions,
    options: CsvOptions,
    begin: int,
) -> Iterator[Chunk]:
    """The records of a part; positions in rejects are record numbers, from 1 after the header.

    A train that begins inside the file goes on with the reader that stands there, if this process has it.
    """

    def start() -> RecordCursor:
        return RecordCursor(part, names, schema.names, layout, list(options.null_values), begin)

    key = part_key(part, "records")
    cursor = resume(key, part.first, start)
    for numbers, texts in cursor.take(part.first, part.last):
        yield _chunk(part, texts, numbers, schema, columns, options)
    refused = cursor.refused(part)
    if refused is not None:
        yield Chunk(pa.RecordBatch.from_pylist([], schema=pa.schema([schema.field(name) for name in columns])), refused)
    if cursor.failed is not None and part.last is None:
        reason = f"the rest cannot be read: {first_line(cursor.failed)}"
        yield rejected_whole(part.path, reason, None, schema, columns)
    if part.sliced:
        keep(key, cursor)
    else:
        cursor.close()


def record_count(part: Part, names: Sequence[str], layout: arrow_csv.ParseOptions, begin: int) -> int:
    """How many records a file has: it is parsed for that, once."""
    key = part_key(part, "records")
    count = _counts.get(key)
    if count is None:
        cursor = RecordCursor(part, names, names[:1], layout, [], begin)
        for _ in cursor.take(0, None):
            pass
        cursor.close()
        count = cursor.place
        _counts.put(key, count)
    return count


class RecordCursor:
    """The records of a file, which can only be read on; its place is the number of records before it."""

    def __init__(
        self,
        part: Part,
        names: Sequence[str],
        wanted: Sequence[str],
        layout: arrow_csv.ParseOptions,
        null_values: list[str],
        begin: int,
    ) -> None:
        self.place = 0
        self.failed: BaseException | None = None
        self._odd: dict[int, tuple[str, str]] = {}
        self._text = _Text(full_text(part), begin)
        self._rows: Numbers = np.array([], np.int64)
        self._held: pa.Table | None = None
        self._number = 0
        self._ended = False
        layout.invalid_row_handler = self._collect
        try:
            self._reader = arrow_csv.open_csv(
                pa.PythonFile(self._text, mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, column_names=list(names), block_size=_BLOCK_BYTES
                ),
                parse_options=layout,
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    include_columns=list(wanted),
                    null_values=null_values,
                    strings_can_be_null=True,
                ),
            )
        except (pa.ArrowInvalid, BrokenFileError) as error:
            self._end(error)

    def take(self, first: int, last: int | None) -> Iterator[tuple[Numbers, pa.Table]]:
        """Well-formed records after `first`, up to number `last`."""
        while last is None or self.place < last:
            if self._held is None and not self._fill():
                self.place = max([self.place, *self._odd])
                return
            assert self._held is not None
            stop = len(self._rows) if last is None else int(np.searchsorted(self._rows, last, "right"))
            low = int(np.searchsorted(self._rows, first, "right"))
            if low < stop:
                yield self._rows[low:stop], self._held.slice(low, stop - low)
            if stop < len(self._rows):
                self.place = last if last is not None else self.place
                self._rows, self._held = self._rows[stop:], self._held.slice(stop)
            else:
                self.place = int(self._rows[-1]) if len(self._rows) else self.place
                self._held = None

    def refused(self, part: Part) -> pa.RecordBatch | None:
        """The records of a train that have another number of fields."""
        told = [(at, *why) for at, why in sorted(self._odd.items()) if part.first < at <= (part.last or at)]
        return rejects(part.path, [at for at, _, _ in told], [text for _, text, _ in told], [why for _, _, why in told])

    def close(self) -> None:
        self._text.pieces.close()

    def _fill(self) -> bool:
        """Hold the next records; whether there are any."""
        while not self._ended:
            try:
                batch = next(self._reader, None)
            except StopIteration:
                batch = None
            except (pa.ArrowInvalid, BrokenFileError) as error:
                self._end(error)
                return False
            if batch is None:
                self._ended = True
            elif batch.num_rows:
                self._rows = _numbers(self._number, batch.num_rows, self._odd)
                self._number = int(self._rows[-1])
                self._held = pa.Table.from_batches([batch])
                return True
        return False

    def _end(self, error: BaseException) -> None:
        self._ended = True
        # "Empty CSV file" is what Arrow says of a header without records.
        self.failed = error if self._text.seen else None

    def _collect(self, row: Any) -> str:
        self._odd[row.number] = (row.text, f"has {row.actual_columns} fields, expected {row.expected_columns}")
        return "skip"


def _numbers(last: int, rows: int, odd: dict[int, tuple[str, str]]) -> Numbers:
    """Record numbers of the next `rows` good records after record `last`."""
    upto = np.arange(last + 1, last + 1 + rows + len(odd))
    return np.setdiff1d(upto, np.fromiter(odd, np.int64, len(odd)))[:rows]


def _chunk(
    part: Part,
    table: pa.Table,
    numbers: np.ndarray[Any, Any],
    schema: pa.Schema,
    columns: Sequence[str],
    options: CsvOptions,
) -> Chunk:
    texts = table
    for at, one in enumerate(schema):
        if not pa.types.is_string(one.type) and not pa.types.is_binary(one.type):
            texts = texts.set_column(at, one.name, pc.utf8_trim_whitespace(table.column(one.name)))
    fitted, bad = fit_table(texts, schema, options.spelling)
    records = [_record(table, misfit) for misfit in bad]
    refused = rejects(part.path, [int(numbers[misfit.row]) for misfit in bad], records, [one.reason for one in bad])
    return Chunk(one_batch(fitted).select(list(columns)), refused)


def _record(table: pa.Table, misfit: Misfit) -> str:
    row = table.slice(misfit.row, 1).to_pylist()[0]
    return ",".join("" if value is None else value for value in row.values())


class _Text(io.RawIOBase):
    """A text that comes in pieces, as a file that Arrow can read."""

    def __init__(self, pieces: Generator[bytes], begin: int) -> None:
        self.pieces, self.skip, self.held, self.seen = pieces, begin, b"", 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        while size is None or size < 0 or len(self.held) < size:
            piece = next(self.pieces, None)
            if piece is None:
                break
            dropped = min(self.skip, len(piece))
            self.skip -= dropped
            self.held += piece[dropped:]
        stop = len(self.held) if size is None or size < 0 else size
        data, self.held = self.held[:stop], self.held[stop:]
        self.seen += len(data)
        return data
