"""JSON lines that are all written alike, as programs write them: the same fields, in the same order, with the same
spaces between them.

```
 {"ts":"2026-01-01T00:00:00Z","link":"a","len":677}
 {"ts":"                     ","link":" ","len":   }     what all lines share; between it are the values
```

Such lines are cut at their commas by the parser of CSV, which is five times as fast as that of JSON, and each piece
must begin and end as that of the first line. If anything is different anywhere, nothing is said here, and the parser of
JSON has the word: what is found here is what it would find.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

_WHOLE: Final = 1 << 30
"""As much as there is. Not left to Arrow, which says the largest number there is, and multiplies it."""
_TEXT_PIECE: Final = re.compile(rb'( *(?:\{ *)?"[^"]*" *: *")([^"]*)(" *(?:\} *)?)')
_OTHER_PIECE: Final = re.compile(rb'( *(?:\{ *)?"[^"]*" *: *)([^" {}\[\]]+)( *(?:\} *)?)')
_SPACE, _QUOTE, _MINUS, _POINT, _ZERO, _NINE = (ord(character) for character in ' "-.09')


@dataclass(frozen=True)
class _Field:
    """A field of the first line: its name, a value, and what stands before and behind values."""

    name: str
    value: str | float | bool
    before: bytes
    behind: bytes


def parse_alike(data: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """The records of lines that are all written alike; None if they are not, or if a value does not fit its column.

    >>> lines = pa.py_buffer(b'{"a": 1, "b": "x"}\\n{"a": 20, "b": ""}\\n')
    >>> parse_alike(lines, pa.schema({"b": pa.string(), "a": pa.int8()})).to_pylist()
    [{'b': 'x', 'a': 1}, {'b': '', 'a': 20}]
    >>> parse_alike(pa.py_buffer(b'{"a": 1}\\n{"a":1}\\n'), pa.schema({"a": pa.int8()}))
    """
    text = np.frombuffer(data, np.uint8)
    fields = _fields_of_first(data)
    if fields is None or not _readable(fields, schema):
        return None
    pieces = _cut(data, len(fields))
    if pieces is None or not pieces.num_rows:
        return None
    rows = pieces.num_rows
    quotes = sum((field.before + field.behind).count(b'"') for field in fields)
    # Line ends are all that is below a space, one to a record; and there are no quotes but those that all lines share.
    if np.count_nonzero(text < _SPACE) != rows - (text[-1] >= _SPACE):
        return None
    if np.count_nonzero(text == _QUOTE) != rows * quotes:
        return None
    found: dict[str, pa.Array] = {}
    kinds = {one.name: one.type for one in schema}
    for field, piece in zip(fields, pieces.columns, strict=True):
        values = _values(field, piece.combine_chunks(), kinds.get(field.name))
        if values is None:
            return None
        found[field.name] = values
    return pa.table([found[one.name] if one.name in found else pa.nulls(rows, one.type) for one in schema], schema)


def _fields_of_first(data: pa.Buffer) -> list[_Field] | None:
    """The fields of the first line; None if it is no object of plain values, or a text has something escaped."""
    content = memoryview(data)
    first = bytes(content[: _line_end(content)])
    if _has_backslash(data):
        return None
    try:
        pairs = json.loads(first, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    pieces = first.split(b",")
    if not isinstance(pairs, tuple) or len(pairs) != len(pieces) or len(dict(pairs)) != len(pairs):
        return None
    fields: list[_Field] = []
    for (name, value), piece in zip(pairs, pieces, strict=True):
        if not isinstance(value, str | int | float | bool):
            return None
        match = (_TEXT_PIECE if isinstance(value, str) else _OTHER_PIECE).fullmatch(piece)
        if match is None:
            return None
        fields.append(_Field(name, value, match[1], match[3]))
    return fields


def _line_end(content: memoryview) -> int:
    at, size = 0, 1 << 12
    while at < len(content):
        found = bytes(content[at : at + size]).find(b"\n")
        if found >= 0:
            return at + found
        at += size
    return len(content)


def _has_backslash(data: pa.Buffer) -> bool:
    return bool((np.frombuffer(data, np.uint8) == ord("\\")).any())


def _readable(fields: Sequence[_Field], schema: pa.Schema) -> bool:
    """Whether values of the first line are of the kinds that the columns want."""
    kinds = {one.name: one.type for one in schema}
    return all(_suits(field.value, kinds[field.name]) for field in fields if field.name in kinds)


def _suits(value: str | float | bool, kind: pa.DataType) -> bool:
    if isinstance(value, str):
        return bool(pa.types.is_string(kind))
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(kind))
    if isinstance(value, int) and pa.types.is_integer(kind):
        return True
    return bool(pa.types.is_float64(kind) or pa.types.is_float32(kind))


def _cut(data: pa.Buffer, columns: int) -> pa.Table | None:
    """Lines cut at their commas; None if not all have as many pieces."""
    names = [str(number) for number in range(columns)]
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_WHOLE, column_names=names),
            parse_options=arrow_csv.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False, check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None


def _values(field: _Field, piece: pa.Array, kind: pa.DataType | None) -> pa.Array | None:
    """The values of a field, as a column of a type if somebody wants it; None if one is no value of its kind."""
    shared = pc.and_(pc.starts_with(piece, field.before), pc.ends_with(piece, field.behind))
    least = len(field.before) + len(field.behind)
    if not pc.all(shared).as_py() or pc.min(pc.binary_length(piece)).as_py() < least:
        return None
    # What has been checked as a whole is text.
    texts = pc.binary_slice(piece, len(field.before), -len(field.behind) or _WHOLE).view(pa.string())
    if isinstance(field.value, str):
        return texts
    if isinstance(field.value, bool):
        true, false = pc.equal(texts, "true"), pc.equal(texts, "false")
        return true if pc.all(pc.or_(true, false)).as_py() else None
    whole = kind is not None and pa.types.is_integer(kind)
    if not _are_numbers(texts, whole=whole):
        return None
    try:
        return texts if kind is None else texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def _are_numbers(texts: pa.Array, *, whole: bool) -> bool:
    """Whether all texts are numbers as JSON has them: no sign but a minus, no digits behind a first 0, and digits on
    both sides of a point. Not all that JSON has: none with an exponent."""
    content, offsets = _content(texts)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(content) or (starts == ends).any():
        return False
    minus, points = content == _MINUS, content == _POINT
    digits = (content >= _ZERO) & (content <= _NINE)
    if not (digits | minus | points).all() or (whole and points.any()):
        return False
    begins = starts + minus[starts]
    if np.count_nonzero(minus) != np.count_nonzero(begins != starts) or (begins == ends).any():
        return False
    several = begins + 1 < ends
    seconds = points[np.where(several, begins + 1, begins)]
    if not digits[begins].all() or not digits[ends - 1].all():
        return False
    if (several & (content[begins] == _ZERO) & ~seconds).any():
        return False
    return whole or not points.any() or bool((np.add.reduceat(points, starts, dtype=np.int64) <= 1).all())


def _content(texts: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bytes of texts, and where each begins and ends in them."""
    _, offsets, content = texts.buffers()
    at = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    everything = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    return everything[at[0] : at[-1]], at - at[0]
