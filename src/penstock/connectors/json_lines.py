"""JSON lines: one object to a line, fields by name; extra fields are ignored, missing ones are NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from penstock.connectors.base import Chunk
from penstock.connectors.formats import BrokenFileError, Cut, Part, Tuning, first_line
from penstock.connectors.line_reader import cast_table, read_lines
from penstock.connectors.text import head, mark_length, sample, text_cuts

_WHOLE: Final = 1 << 30
_NUMBERS: Final = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class JsonLines:
    """The JSON lines format."""

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        return text_cuts(part, tuning, whole=False)

    def discover(self, part: Part) -> pa.Schema:
        if not head(part)[0]:
            raise BrokenFileError("is empty, so it shows no schema")
        try:
            table = arrow_json.read_json(
                pa.BufferReader(sample(part)[mark_length(part) :]),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=_WHOLE),
            )
        except pa.ArrowInvalid as error:
            raise BrokenFileError(first_line(error)) from error
        return pa.schema([pa.field(one.name, _guessed(one.type)) for one in table.schema])

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        return read_lines(part, JsonParser(schema), schema, columns, mark_length(part), 0)


def _guessed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if pa.types.is_null(kind) else kind


@dataclass(frozen=True)
class JsonParser:
    """Parses lines with the schema's types; times come as text and are cast with care."""

    schema: pa.Schema

    def parse(self, data: pa.Buffer) -> pa.Table:
        if not bytes(data[: min(len(data), 1 << 16)]).strip() and not bytes(data).strip():
            return self._carried().empty_table()
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=_WHOLE),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._carried(), unexpected_field_behavior="ignore", newlines_in_values=False
            ),
        )
        return table.select(self.schema.names)

    def cast(self, table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, Mapping[int, str]]:
        return cast_table(table, schema)

    def suspects(self, texts: pa.Array) -> Mapping[int, str]:
        good_text = _utf8(texts)
        bad = dict.fromkeys(np.flatnonzero(~good_text).tolist(), "is no UTF-8 text")
        rows = np.flatnonzero(good_text)
        lines = pa.table({"line": texts.take(pa.array(rows)).cast(pa.large_string())})
        with duckdb.connect(config={"enable_external_access": False, "threads": 1}) as kernel:
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
        whole = np.array(kinds.column("whole").to_pylist(), object)
        for row in np.flatnonzero(whole != "OBJECT").tolist():
            shape = whole[row]
            bad[int(rows[row])] = "is no JSON" if shape is None else f"is {shape.lower()}, expected an object"
        for at, one in enumerate(self.schema):
            self._wrong(one, kinds.column(f"k{at}"), kinds.column(f"v{at}"), rows, bad)
        return bad

    def _wrong(
        self,
        one: pa.Field,
        kinds: pa.ChunkedArray,
        values: pa.ChunkedArray,
        rows: np.ndarray[tuple[int], np.dtype[np.int64]],
        bad: dict[int, str],
    ) -> None:
        accepted = _accepted(one.type)
        if accepted is None:
            return
        found = np.array(kinds.to_pylist(), object)
        wrong = ~np.isin(found.astype(str), [*accepted, "NULL", "None"])
        if pa.types.is_integer(one.type):
            wrong |= _outside(values, found, one.type)
        for row in np.flatnonzero(wrong).tolist():
            kind, value = found[row].lower(), values[row].as_py()
            bad.setdefault(int(rows[row]), f"column {one.name!r}: {kind} {value!r} is no {one.type}")

    def _carried(self) -> pa.Schema:
        return pa.schema(
            [pa.field(one.name, pa.string() if pa.types.is_temporal(one.type) else one.type) for one in self.schema]
        )


def _utf8(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    try:
        texts.cast(pa.large_string())
    except pa.ArrowInvalid:
        from penstock.connectors.fitting import cast_rows

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


def _outside(
    values: pa.ChunkedArray, kinds: np.ndarray[tuple[int], np.dtype[np.object_]], kind: pa.DataType
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    from penstock.connectors.fitting import cast_rows

    numbers = np.isin(kinds.astype(str), _NUMBERS[:4])
    texts = pa.chunked_array([pa.array(np.where(numbers, np.array(values.to_pylist(), object), None), pa.string())])
    wrong = np.zeros(len(numbers), bool)
    wrong[cast_rows(texts, kind)[1]] = True
    return wrong
