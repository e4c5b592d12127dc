"""Schemas as people write them: a pyarrow schema, or a mapping of column names to type names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.algebra.naming import did_you_mean
from penstock.errors import QueryError

SchemaLike: TypeAlias = Mapping[str, Any] | pa.Schema
"""A pyarrow schema, or a mapping of column names to type names or pyarrow types."""

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "str": pa.string(),
    "utf8": pa.string(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "timestamp": pa.timestamp("us"),
    "datetime": pa.timestamp("us"),
}
_PATTERNS: Final = (
    "timestamp[s|ms|us|ns], timestamp[us, UTC], decimal(p, s), list<type>, struct<name: type, ...>, map<type, type>"
)
_TIMESTAMP: Final = re.compile(
    r"timestamp\s*\[\s*(s|ms|us|ns)\s*(?:,\s*(?:tz\s*=\s*)?([\w/+:\-]+)\s*)?\]", re.IGNORECASE
)
_DECIMAL: Final = re.compile(r"(?:decimal|decimal128|numeric)\s*\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)", re.IGNORECASE)
_NESTED: Final = re.compile(r"(list|array|struct|map)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_DECIMAL_DIGITS: Final = 38  # what 128 bits hold


def parse_type(text: str) -> pa.DataType:
    """The type that a name stands for.

    >>> parse_type("timestamp[us, UTC]"), parse_type("decimal(10, 2)"), parse_type("struct<a: list<int64>>")
    (TimestampType(timestamp[us, tz=UTC]), Decimal128Type(decimal128(10, 2)), StructType(struct<a: list<item: int64>>))
    """
    name = text.strip()
    if (simple := _SIMPLE.get(name.lower())) is not None:
        return simple
    if found := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(found.group(1).lower(), tz=found.group(2))
    if found := _DECIMAL.fullmatch(name):
        digits, scale = int(found.group(1)), int(found.group(2) or 0)
        if not 1 <= digits <= _DECIMAL_DIGITS:
            raise QueryError(f"a decimal has 1 to {_DECIMAL_DIGITS} digits", found=repr(text))
        return pa.decimal128(digits, scale)
    if found := _NESTED.fullmatch(name):
        return _nested(name, found.group(1).lower(), _parts(name, found.group(2)))
    _parts(name, name)
    raise QueryError(
        f"unknown type name {name!r}",
        expected=f"one of {', '.join(_SIMPLE)}; or {_PATTERNS}",
        hint=did_you_mean(name, _SIMPLE) or "use one of these names, or give a pyarrow type",
    )


def _nested(text: str, kind: str, parts: list[str]) -> pa.DataType:
    if kind == "struct":
        fields = [_field(text, part) for part in parts]
        if len({field.name for field in fields}) < len(fields):
            raise QueryError(f"two fields of {text!r} have the same name")
        return pa.struct(fields)
    if kind == "map":
        if len(parts) != 2:
            raise QueryError("a map has a type of keys and one of values", expected="map<string, int64>", found=text)
        return pa.map_(parse_type(parts[0]), parse_type(parts[1]))
    if len(parts) != 1:
        raise QueryError("a list has one type of items", expected="list<int64>", found=text)
    return pa.list_(parse_type(re.sub(r"^\s*item\s*:", "", parts[0])))


def _field(text: str, part: str) -> pa.Field:
    name, colon, kind = part.partition(":")
    if not colon or not name.strip():
        found = repr(part.strip())
        raise QueryError(f"a field of {text!r} has no type", expected="struct<name: type, ...>", found=found)
    return pa.field(name.strip(), parse_type(kind))


def _parts(text: str, inside: str) -> list[str]:
    """What the outermost commas separate; refused where brackets do not match."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter in "<([") - (letter in ">)]")
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise QueryError(f"cannot read the type {text!r}: its brackets do not match")
    return parts


def parse_schema(spec: SchemaLike) -> pa.Schema:
    """A pyarrow schema from what the user gave; metadata and nullability are no part of a stream's schema.

    >>> parse_schema({"ts": "int64", "k": "string"}).names
    ['ts', 'k']
    """
    if isinstance(spec, pa.Schema):
        schema = pa.schema([pa.field(field.name, field.type) for field in spec])
    elif isinstance(spec, Mapping):
        schema = pa.schema([pa.field(_name(name), _type(name, kind)) for name, kind in spec.items()])
    else:
        raise QueryError(
            "a schema cannot be read",
            expected='a pyarrow schema or a mapping such as {"ts": "int64", "k": "string"}',
            found=repr(spec),
        )
    if not schema.names:
        raise QueryError("a schema has no columns", expected="at least one column")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise QueryError(
            f"the schema has more than one column named {', '.join(map(repr, twice))}",
            expected="every column name once",
            found=", ".join(schema.names),
            hint="rename one of them",
        )
    return schema


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema of the same values, in the types that all boxes compute with.

    Arrow has several layouts for one kind of value. Views become what they show, small decimals and floats larger ones.

    >>> plain_schema(pa.schema([("k", pa.string_view()), ("d", pa.decimal32(5, 2))])).types
    [DataType(string), Decimal128Type(decimal128(5, 2))]
    """
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    return kind


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise QueryError("a column name is not a text", expected="a name that is not empty", found=repr(name))
    return name


def _type(column: str, kind: object) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if not isinstance(kind, str):
        raise QueryError(
            f"column {column!r} has no type that can be read",
            expected="a type name or a pyarrow type",
            found=repr(kind),
        )
    try:
        return parse_type(kind)
    except QueryError as error:
        error.what = f"column {column!r}: {error.what}"
        raise
