"""CSV files: exact types from the schema, columns mapped by the header, broken lines refused one by one."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from penstock.connectors.connector import Chunk
from penstock.connectors.files.formats.columnar import counted_reach
from penstock.connectors.files.formats.csv_records import read_records, record_count
from penstock.connectors.files.formats.format import BrokenFileError, Cut, Format, Part, Reach, Tuning, first_line
from penstock.connectors.files.formats.line_reader import cast_table, read_lines, text_bytes
from penstock.connectors.files.formats.text_blocks import (
    head,
    joined,
    last_line,
    line_reach,
    mark_length,
    sample,
    text_cuts,
)
from penstock.connectors.fitting import Spelling, cast_rows, shown
from penstock.errors import QueryError

_WHOLE: Final = 1 << 30  # a block size that no block reaches: a block is parsed as one

_UNCLOSED: Final = "a quoted field does not end on its line (multiline=True allows line breaks)"


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written; a delimiter of None is a tab in .tsv files and a comma elsewhere."""

    delimiter: str | None = None
    header: bool = True
    null_values: tuple[str, ...] = ("",)
    timestamp_formats: tuple[str, ...] = ()
    multiline: bool = False

    @property
    def spelling(self) -> Spelling:
        return Spelling(self.timestamp_formats, self.null_values)

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or not self.delimiter.isascii()):
            raise QueryError("a delimiter is one character", found=repr(self.delimiter))


@dataclass(frozen=True)
class Delimited(Format):
    """The CSV format."""

    options: CsvOptions

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        for column in schema:
            if pa.types.is_nested(column.type):
                raise QueryError(f"CSV cannot hold column {column.name!r} of type {column.type}", hint="use JSON lines")
        if part.size:
            self._layout(part, schema)
        return text_cuts(part, tuning, whole=self.options.multiline)

    def reach(self, part: Part, rows: int, schema: pa.Schema) -> Reach:
        names, begin, _ = self._layout(part, schema)
        if self.options.multiline:
            return counted_reach(part, rows, record_count(part, names, self._parse_options(part), begin))
        return line_reach(part, rows, begin, spaces_are_blank=False)

    def texts(self, part: Part, schema: pa.Schema, asked: Collection[str] | None = None) -> Mapping[str, float]:
        return text_bytes(self, part, schema)

    def discover(self, part: Part) -> pa.Schema:
        text, _, _ = head(part)
        if not text:
            raise BrokenFileError("is empty, so it shows no schema")
        names = None if self.options.header else [f"f{at}" for at, _ in enumerate(self._fields(part, text))]
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(sample(part)),
                read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=_WHOLE),
                parse_options=self._parse_options(part, _skip),
                convert_options=arrow_csv.ConvertOptions(
                    null_values=list(self.options.null_values),
                    timestamp_parsers=[arrow_csv.ISO8601, *self.options.timestamp_formats],
                ),
            )
        except pa.ArrowInvalid as error:
            raise BrokenFileError(first_line(error)) from error
        return pa.schema([pa.field(one.name, _guessed(one.type)) for one in table.schema])

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        names, begin, skipped = self._layout(part, schema)
        parser = CsvParser(self.options, schema, names, self._parse_options(part))
        if self.options.multiline:
            return read_records(part, schema, columns, names, self._parse_options(part), self.options, begin)
        return read_lines(part, parser, schema, columns, begin, skipped)

    def _layout(self, part: Part, schema: pa.Schema) -> tuple[list[str], int, int]:
        """The names of the file's fields, and how many bytes and lines come before the first record."""
        if not self.options.header:
            return schema.names, mark_length(part), 0
        text, begin, skipped = head(part)
        names = self._fields(part, text)
        if text:
            missing = [name for name in schema.names if name not in names]
            if missing:
                raise BrokenFileError(
                    f"has no column {', '.join(map(repr, missing))}: its header has {', '.join(names)}"
                )
            twice = [name for name in schema.names if names.count(name) > 1]
            if twice:
                raise BrokenFileError(f"its header has {', '.join(map(repr, twice))} more than once")
        # Names that nobody asks for may repeat; the parser wants every name once.
        unique = [name if name in schema.names else f"{at}:{name}" for at, name in enumerate(names)]
        return unique or schema.names, begin, skipped

    def _fields(self, part: Part, text: str) -> list[str]:
        return next(csv.reader([text], delimiter=self._delimiter(part)), [])

    def _delimiter(self, part: Part) -> str:
        if self.options.delimiter is not None:
            return self.options.delimiter
        return "\t" if ".tsv" in part.path.lower().rpartition("/")[2] else ","

    def _parse_options(self, part: Part, handler: Any = None) -> arrow_csv.ParseOptions:
        return arrow_csv.ParseOptions(
            delimiter=self._delimiter(part),
            newlines_in_values=self.options.multiline,
            invalid_row_handler=handler,
        )


def _skip(row: Any) -> str:
    return "skip"


def _guessed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if pa.types.is_null(kind) else kind


@dataclass
class CsvParser:
    """Parses lines of one file. It remembers which way of reading times last worked, to try that first."""

    options: CsvOptions
    schema: pa.Schema
    names: Sequence[str]
    layout: arrow_csv.ParseOptions
    ways: list[Mapping[str, pa.DataType]] = field(init=False)

    def __post_init__(self) -> None:
        # Arrow reads a column of times either all with a zone or all without. As written in the schema; the other
        # way; or, when both occur, as text that is cast with care.
        times = [one for one in self.schema if pa.types.is_timestamp(one.type)]
        exact = {one.name: one.type for one in self.schema}
        other = {one.name: pa.timestamp(one.type.unit, None if one.type.tz else "UTC") for one in times}
        as_text = {one.name: pa.string() for one in self.schema if pa.types.is_temporal(one.type)}
        self.ways = [exact, {**exact, **other}, {**exact, **as_text}] if times else [exact, {**exact, **as_text}]

    @property
    def spaces_are_blank(self) -> bool:
        return False

    def parse(self, data: pa.Buffer) -> pa.Table:
        # A quote left open runs on to the next line and is noticed there; after the last line Arrow forgives it.
        last = last_line(data)
        if b'"' in last and self._unclosed(pa.array([last], pa.large_binary())):
            raise pa.ArrowInvalid(_UNCLOSED)
        failure: pa.ArrowInvalid | None = None
        for way in list(self.ways):
            try:
                table = self._read(data, way, self.layout)
            except pa.ArrowInvalid as error:
                failure = failure or error
                continue
            if way is not self.ways[0]:
                self.ways.remove(way)
                self.ways.insert(0, way)
            return table
        raise failure or pa.ArrowInvalid("no way to read this")

    def suspects(self, texts: pa.Array) -> Mapping[int, str]:
        bad = self._unclosed(texts)
        rows = np.setdiff1d(np.arange(len(texts)), np.fromiter(bad, np.int64, len(bad)))
        if not len(rows):
            return bad
        odd: dict[int, str] = {}

        def collect(row: Any) -> str:
            odd[row.number - 1] = f"has {row.actual_columns} fields, expected {row.expected_columns}"
            return "skip"

        layout = arrow_csv.ParseOptions(delimiter=self.layout.delimiter, invalid_row_handler=collect)
        raw = {one.name: pa.binary() for one in self.schema}
        try:
            fields = self._read(joined(texts.take(pa.array(rows))), raw, layout)
        except pa.ArrowInvalid:
            return bad
        if len(fields) + len(odd) != len(rows):
            return bad  # rows are not lines: only halving can tell which
        bad.update({int(rows[at]): reason for at, reason in odd.items()})
        kept = np.delete(rows, list(odd)) if odd else rows
        for one in self.schema:
            for row, reason in misfits(fields.column(one.name), one, self.options.spelling).items():
                bad.setdefault(int(kept[row]), reason)
        return bad

    def cast(self, table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, Mapping[int, str]]:
        return cast_table(table, schema, self.options.spelling)

    def _read(self, data: pa.Buffer, types: Mapping[str, pa.DataType], layout: arrow_csv.ParseOptions) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(use_threads=False, column_names=list(self.names), block_size=_WHOLE),
            parse_options=layout,
            convert_options=convert_options(self.options, types),
        )

    def _unclosed(self, texts: pa.Array) -> dict[int, str]:
        """Lines in which a quoted field does not end."""
        mark = f"\\x{ord(self.layout.delimiter):02x}"
        one = f'(?:"(?:[^"]|"")*"[^{mark}]*|[^{mark}"][^{mark}]*|)'
        closed = pc.match_substring_regex(texts, f"(?s)^{one}(?:{mark}{one})*$")
        rows = np.flatnonzero(~closed.to_numpy(zero_copy_only=False))
        return dict.fromkeys(rows.tolist(), _UNCLOSED)


def convert_options(options: CsvOptions, types: Mapping[str, pa.DataType]) -> arrow_csv.ConvertOptions:
    """Types, NULLs and times, as the schema and the options have them."""
    return arrow_csv.ConvertOptions(
        column_types=dict(types),
        include_columns=list(types),
        null_values=list(options.null_values),
        strings_can_be_null=True,
        timestamp_parsers=[arrow_csv.ISO8601, *options.timestamp_formats],
    )


def misfits(column: pa.ChunkedArray, one: pa.Field, spelling: Spelling) -> dict[int, str]:
    """Fields that do not fit the type of their column; times are left to the cast."""
    texts, bad = cast_rows(column, pa.string())
    found = dict.fromkeys(bad, f"column {one.name!r}: is no UTF-8 text") if not pa.types.is_binary(one.type) else {}
    if pa.types.is_temporal(one.type) or pa.types.is_string(one.type) or pa.types.is_binary(one.type):
        return found
    _, wrong = cast_rows(pc.utf8_trim_whitespace(texts), one.type)
    for row, value in zip(wrong, shown(texts, wrong), strict=True):
        advice = spelling.advice(str(texts[row]), one.type)
        found.setdefault(row, f"column {one.name!r}: {value} is no {one.type}{advice}")
    return found
