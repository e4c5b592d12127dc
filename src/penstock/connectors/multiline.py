"""CSV whose quoted fields may hold line breaks: read as one stream of records, for no line end can be trusted."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from penstock.connectors.base import Chunk
from penstock.connectors.fitting import Misfit, fit_table, one_batch
from penstock.connectors.formats import BrokenFileError, Part, first_line
from penstock.connectors.rejects import rejected_whole, rejects
from penstock.connectors.text import full_text

if TYPE_CHECKING:
    from penstock.connectors.delimited import CsvOptions

_BLOCK_BYTES: Final = 8 << 20


def read_records(
    part: Part,
    schema: pa.Schema,
    columns: Sequence[str],
    names: Sequence[str],
    layout: arrow_csv.ParseOptions,
    options: CsvOptions,
    begin: int,
) -> Iterator[Chunk]:
    """All records of a file; positions in rejects are record numbers, from 1 after the header."""
    odd: dict[int, tuple[str, str]] = {}

    def collect(row: Any) -> str:
        odd[row.number] = (row.text, f"has {row.actual_columns} fields, expected {row.expected_columns}")
        return "skip"

    layout.invalid_row_handler = collect
    stream = _Text(full_text(part), begin)
    number = 0
    try:
        reader = arrow_csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=arrow_csv.ReadOptions(use_threads=False, column_names=list(names), block_size=_BLOCK_BYTES),
            parse_options=layout,
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=schema.names,
                null_values=list(options.null_values),
                strings_can_be_null=True,
            ),
        )
        for batch in reader:
            numbers = _numbers(number, batch.num_rows, odd)
            number = int(numbers[-1]) if len(numbers) else number
            yield _chunk(part, pa.Table.from_batches([batch]), numbers, schema, columns, options)
    except (pa.ArrowInvalid, BrokenFileError) as error:
        # "Empty CSV file" is what Arrow says of a header without records.
        if stream.seen:
            yield rejected_whole(part.path, f"the rest cannot be read: {first_line(error)}", None, schema, columns)
    if odd:
        told = sorted(odd.items())
        refused = rejects(
            part.path, [at for at, _ in told], [text for _, (text, _) in told], [why for _, (_, why) in told]
        )
        yield Chunk(pa.RecordBatch.from_pylist([], schema=pa.schema([schema.field(name) for name in columns])), refused)


def _numbers(last: int, rows: int, odd: dict[int, tuple[str, str]]) -> np.ndarray[Any, np.dtype[np.int64]]:
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
    fitted, bad = fit_table(texts, schema, options.timestamp_formats)
    records = [_record(table, misfit) for misfit in bad]
    refused = rejects(part.path, [int(numbers[misfit.row]) for misfit in bad], records, [one.reason for one in bad])
    return Chunk(one_batch(fitted).select(list(columns)), refused)


def _record(table: pa.Table, misfit: Misfit) -> str:
    row = table.slice(misfit.row, 1).to_pylist()[0]
    return ",".join("" if value is None else value for value in row.values())


class _Text(io.RawIOBase):
    """A text that comes in pieces, as a file that Arrow can read."""

    def __init__(self, pieces: Iterator[bytes], begin: int) -> None:
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
