"""The types of a Delta table.

Delta knows fewer types than Arrow. What is wider there is widened (unsigned integers, half floats), times become
microseconds (with a zone: instants in UTC; without: `timestamp_ntz`), dictionaries become their values; what has no
place there is refused when the run starts.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.errors import QueryError

_WIDENED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.null(): pa.string(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_KEPT: Final = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()} | {
    pa.binary(),
    pa.date32(),
}


def delta_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type as which a Delta table keeps this one.

    >>> delta_type(pa.uint32()), delta_type(pa.timestamp("ms", "Europe/Paris"))
    (DataType(int64), TimestampType(timestamp[us, tz=UTC]))
    """
    types = pa.types
    if kind in _KEPT:
        return kind
    if kind in _WIDENED:
        return _WIDENED[kind]
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_dictionary(kind):
        return delta_type(kind.value_type)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(delta_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, delta_type(child.type), child.nullable) for child in kind])
    if types.is_map(kind):
        return pa.map_(delta_type(kind.key_type), delta_type(kind.item_type))
    raise QueryError(f"a Delta table has no type for {kind}", hint="cast the column in a map box")


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as which a Delta table keeps this one."""
    try:
        return pa.schema([pa.field(column.name, delta_type(column.type), column.nullable) for column in schema])
    except QueryError as error:
        refused = [column.name for column in schema if not _has_delta_type(column.type)]
        error.found = f"in column {', '.join(refused)}"
        raise


def _has_delta_type(kind: pa.DataType) -> bool:
    try:
        delta_type(kind)
    except QueryError:
        return False
    return True


def as_stored(table: pa.Table) -> pa.Table:
    try:
        return table.cast(delta_schema(table.schema))
    except pa.ArrowInvalid as failure:
        raise QueryError(
            "a value has no exact form in a Delta table",
            expected="times on whole microseconds",
            found=str(failure),
            hint="truncate the column in a map box",
        ) from failure
