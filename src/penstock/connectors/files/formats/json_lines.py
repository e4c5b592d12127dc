"""JSON lines: one object to a line, fields by name; extra fields are ignored, missing ones are NULL."""

from __future__ import annotations

import atexit
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from penstock.connectors.connector import Chunk
from penstock.connectors.files.formats.format import BrokenFileError, Cut, Format, Part, Reach, Tuning, first_line
from penstock.connectors.files.formats.json_alike import parse_alike
from penstock.connectors.files.formats.line_reader import cast_table, read_lines, text_bytes
from penstock.connectors.files.formats.text_blocks import (
    Block,
    check_utf8,
    head,
    last_line,
    line_reach,
    lines_of,
    mark_length,
    sample,
    text_cuts,
)
from penstock.connectors.fitting import Spelling, cast_rows

if TYPE_CHECKING:
    import duckdb

_WHOLE: Final = 1 << 30
_LINES: Final = "one object to a line is expected, as `jq -c '.[]'` writes them"
_SHOWN: Final = 80  # characters of a value that a reason quotes
_NUMBERS: Final = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class JsonLines(Format):
    """The JSON lines format."""

    timestamp_formats: tuple[str, ...] = ()

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        if part.at == 0 and _spread_array(head(part)[0]):
            raise BrokenFileError(f"is a JSON array: {_LINES}")
        return text_cuts(part, tuning, whole=False)

    def reach(self, part: Part, rows: int, schema: pa.Schema) -> Reach:
        return line_reach(part, rows, mark_length(part), spaces_are_blank=True)

    def texts(self, part: Part, schema: pa.Schema, asked: Collection[str] | None = None) -> Mapping[str, float]:
        return text_bytes(self, part, schema)

    def discover(self, part: Part) -> pa.Schema:
        first = head(part)[0].strip()
        if not first:
            raise BrokenFileError("is empty, so it shows no schema")
        if first.startswith("["):
            raise BrokenFileError(f"is a JSON array: {_LINES}")
        try:
            table = arrow_json.read_json(
                pa.BufferReader(sample(part)[mark_length(part) :]),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=_WHOLE),
            )
        except pa.ArrowInvalid as error:
            raise BrokenFileError(first_line(error)) from error
        return pa.schema([pa.field(one.name, _guessed(one.type)) for one in table.schema])

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        return read_lines(part, JsonParser(schema, self.timestamp_formats), schema, columns, mark_length(part), 0)


def _spread_array(line: str) -> bool:
    """Whether a first line begins an array that goes on in the next ones: then none of them is a record."""
    text = line.strip()
    return text.startswith("[") and not text.endswith("]")


def _guessed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if pa.types.is_null(kind) else kind


@dataclass(frozen=True)
class JsonParser:
    """Parses lines with the schema's types; times come as text and are cast with care."""

    schema: pa.Schema
    timestamp_formats: tuple[str, ...] = ()

    @property
    def spaces_are_blank(self) -> bool:
        return True

    def parse(self, data: pa.Buffer) -> pa.Table:
        check_utf8(data)
        if not last_line(data).strip():
            return self._carried().empty_table()
        if (alike := parse_alike(data, self._carried())) is not None:
            return alike
        records = _check_lines(data)
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=_WHOLE),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._carried(), unexpected_field_behavior="ignore", newlines_in_values=False
            ),
        )
        if len(table) != records:
            raise pa.ArrowInvalid(f"{len(table)} records, expected {records}: one to a line")
        return table.select(self.schema.names)

    def cast(self, table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, Mapping[int, str]]:
        return cast_table(table, schema, Spelling(self.timestamp_formats))

    def suspects(self, texts: pa.Array) -> Mapping[int, str]:
        good_text = _utf8(texts)
        bad = dict.fromkeys(np.flatnonzero(~good_text).tolist(), "is no UTF-8 text")
        rows = np.flatnonzero(good_text)
        lines = pa.table({"line": texts.take(pa.array(rows)).cast(pa.large_string())})
        with _kernel(os.getpid()).cursor() as kernel:
            kernel.register("lines", lines)
            kinds = kernel.sql(
                "SELECT CASE WHEN json_valid(line) THEN json_type(line) END AS whole"
                + "".join(
                    f", CASE WHEN json_valid(line) THEN json_type(line, {_path(one.name)}) END AS k{at}"
                    f", CASE WHEN json_valid(line) THEN json_extract_string(line, {_path(one.name)}) END AS v{at}"
                    for at, one in enumerate(self.schema)
                )
                + " FROM lines"
            ).to_arrow_table()
        whole = _array(kinds.column("whole"))
        odd = _rows_where(pc.invert(pc.fill_null(pc.equal(whole, "OBJECT"), False)))
        for row, shape in zip(odd, whole.take(pa.array(odd, pa.int64())).to_pylist(), strict=True):
            odd_shape = "is no JSON" if shape is None else f"is {_called(shape)}, expected an object"
            bad[int(rows[row])] = f"{odd_shape}: {_LINES}" if shape == "ARRAY" else odd_shape
        for at, one in enumerate(self.schema):
            for row, reason in _wrong(one, _array(kinds.column(f"k{at}")), _array(kinds.column(f"v{at}"))).items():
                bad.setdefault(int(rows[row]), reason)
        return bad

    def _carried(self) -> pa.Schema:
        return pa.schema(
            [pa.field(one.name, pa.string() if pa.types.is_temporal(one.type) else one.type) for one in self.schema]
        )


def _check_lines(data: pa.Buffer) -> int:
    """How many lines hold a record. Refuses records that run over a line end, which Arrow allows.

    What such records hold would depend on how a file is cut.
    No record goes on from a line that ends in a closing brace to one that starts with an opening one.
    """
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    ends = ends[(ends > 1) & (ends < len(text) - 1)]
    last = np.where(text[ends - 1] == ord("\r"), text[ends - 2], text[ends - 1])
    if (last == ord("}")).all() and (text[ends + 1] == ord("{")).all():
        return len(ends) + 1
    lines = lines_of(Block(data, 0, None), spaces_are_blank=True)
    if not pc.all(pc.match_substring_regex(lines.texts, r"(?s)^\s*\{.*\}\s*$"), min_count=0).as_py():
        raise pa.ArrowInvalid("is no JSON object that begins and ends on its line")
    return len(lines.texts)


@lru_cache(maxsize=1)
def _kernel(process: int) -> duckdb.DuckDBPyConnection:
    """One for each process: a connection does not survive a fork."""
    import duckdb  # loaded only by processes that compute: those that plan start sooner without it

    # DuckDB complains on standard error of a connection that is still there when the interpreter ends.
    atexit.register(_kernel.cache_clear)
    return duckdb.connect(config={"enable_external_access": False, "threads": 1})


def _called(kind: str, value: str | None = None) -> str:
    """A JSON type and value as a reason names them."""
    word = "a number" if kind in _NUMBERS else {"VARCHAR": "a text", "BOOLEAN": "a truth value"}.get(kind)
    word = word or {"ARRAY": "an array", "OBJECT": "an object", "NULL": "null"}[kind]
    return word if value is None else f"{word} ({value[:_SHOWN]})"


def _utf8(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    try:
        texts.cast(pa.large_string())
    except pa.ArrowInvalid:
        good = np.ones(len(texts), bool)
        good[cast_rows(pa.chunked_array([texts]), pa.large_string())[1]] = False
        return good
    return np.ones(len(texts), bool)


def _path(name: str) -> str:
    """A field of the object, as a JSON pointer in an SQL text."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    return "'" + pointer.replace("'", "''") + "'"


def _accepted(kind: pa.DataType) -> tuple[str, ...] | None:
    """The JSON types that a column takes; None where only the parser can tell."""
    types = pa.types
    if types.is_integer(kind):
        return _NUMBERS[:4]
    if types.is_floating(kind):
        return _NUMBERS
    if types.is_string(kind) or types.is_temporal(kind):
        return ("VARCHAR",)
    return ("BOOLEAN",) if types.is_boolean(kind) else None


def _wrong(one: pa.Field, kinds: pa.Array, values: pa.Array) -> dict[int, str]:
    """Values whose JSON type is not what the column takes, or that lie outside its range; with the reason."""
    accepted = _accepted(one.type)
    if accepted is None:
        return {}
    fits = pc.is_in(kinds, pa.array([*accepted, "NULL", None], pa.string()))
    wrong = _rows_where(pc.invert(fits))
    if pa.types.is_integer(one.type):
        whole = pc.is_in(kinds, pa.array(accepted, pa.string()))
        _, outside = cast_rows(pa.chunked_array([pc.if_else(whole, values, pa.scalar(None, values.type))]), one.type)
        wrong = sorted({*wrong, *outside})
    at = pa.array(wrong, pa.int64())
    told = zip(wrong, kinds.take(at).to_pylist(), values.take(at).to_pylist(), strict=True)
    return {row: f"column {one.name!r}: {_called(kind, value)} is no {one.type}" for row, kind, value in told}


def _rows_where(mask: pa.Array) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask.to_numpy(zero_copy_only=False))]


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
