"""Making decoded columns fit the schema: safe casts, and the rows for which they fail.

A cast is tried on the whole column. Only when it fails are the failing rows looked for: by what is known of the types,
then by halving. So a clean column costs one cast, and a row is refused exactly if Arrow refuses its value alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FAILURES: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_ZONE: Final = r"[T ][0-9]{2}.*([zZ]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_NULL_TEXTS: Final = frozenset({"na", "n/a", "#n/a", "nan", "null", "nil", "none", "-", "--", "?", "\\n"})
_EXAMPLE_FORMS: Final = ["%d/%m/%Y %H:%M"]
_SHOWN: Final = 80  # characters of a value that a reason quotes


@dataclass(frozen=True)
class Misfit:
    """A row that does not fit, by its number in what was fitted (from 0)."""

    row: int
    reason: str


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether any value of `source` can become one of `target`."""
    if source.equals(target):
        return True
    try:
        pa.array([], source).cast(target)
    except (*_FAILURES, pa.ArrowTypeError):
        return False
    return True


def lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` becomes one of `target`, so that nobody needs to look at the values."""
    if source.equals(target):
        return True
    types = pa.types
    if types.is_dictionary(source):
        return lossless(source.value_type, target)
    if types.is_integer(source) and types.is_integer(target):
        signs = types.is_signed_integer(source), types.is_signed_integer(target)
        return bool(source.bit_width < target.bit_width and signs != (True, False)) or (
            signs[0] == signs[1] and bool(source.bit_width <= target.bit_width)
        )
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if any(is_text(source) for is_text in texts) and types.is_string(target):
        return True
    return bool(types.is_float32(source) and types.is_float64(target))


def missing_or_uncastable(found: pa.Schema, schema: pa.Schema) -> str | None:
    """Why no row of a file with this schema can fit, naming the column and what the file has instead."""
    for field in schema:
        at = found.get_all_field_indices(field.name)
        if not at:
            has = ", ".join(found.names) or "no columns"
            return f"has no column {field.name!r}: expected {field.type}, the file has {has}"
        if len(at) > 1:
            return f"has {len(at)} columns named {field.name!r}"
        kind = found.field(at[0]).type
        if not castable(kind, field.type):
            return f"column {field.name!r} is {kind}, which cannot become {field.type}"
    return None


def to_read(found: pa.Schema, schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The columns to decode: those asked for, and those in which a value might not fit.

    Which rows are refused must not depend on the columns asked for, hence the second kind.
    """
    wanted = set(columns)
    return [
        field.name for field in schema if field.name in wanted or not lossless(found.field(field.name).type, field.type)
    ]


@dataclass(frozen=True)
class Spelling:
    """How values are written in a text file: how times are, besides ISO 8601, and what means NULL."""

    times: Sequence[str] = ()
    nulls: Sequence[str] | None = None
    """None where a format has a NULL of its own."""

    def advice(self, value: str, kind: pa.DataType) -> str:
        """Which option would read a value that does not fit, for the end of the reason."""
        if self.nulls is not None and value.strip().lower() in _NULL_TEXTS:
            return f": null_values={[*self.nulls, value.strip()]} reads it as NULL"
        if pa.types.is_timestamp(kind) and any(one.isdigit() for one in value):
            return f": other forms than ISO 8601 are given in timestamp_formats=, such as {_EXAMPLE_FORMS}"
        return ""


def fit_table(table: pa.Table, schema: pa.Schema, spelling: Spelling | None = None) -> tuple[pa.Table, list[Misfit]]:
    """The columns of `schema` that `table` has, cast safely; rows that do not fit are left out and told."""
    fields = [field for field in schema if field.name in table.column_names]
    fitted, reasons = [], dict[int, str]()
    for field in fields:
        column = table.column(field.name)
        if not column.type.equals(field.type):
            column, bad = cast_rows(column, field.type, () if spelling is None else spelling.times)
            for row, value in zip(bad, shown(table.column(field.name), bad), strict=True):
                reason = f"column {field.name!r}: {value} is no {field.type}"
                advice = "" if spelling is None else spelling.advice(str(table.column(field.name)[row]), field.type)
                reasons.setdefault(row, reason + advice)
        fitted.append(column)
    if not fitted:
        return table.select([]), []
    result = pa.table(fitted, schema=pa.schema(fields))
    if reasons:
        keep = np.ones(len(result), bool)
        keep[list(reasons)] = False
        result = result.filter(pa.array(keep))
    return result, [Misfit(row, reasons[row]) for row in sorted(reasons)]


def shown(column: pa.ChunkedArray, rows: Sequence[int]) -> list[str]:
    """Values as a reason quotes them."""
    # Not taken at once: Arrow cannot take from views.
    values = [column[row].as_py() for row in rows]
    texts = [repr(value) if isinstance(value, str) else str(value) for value in values]
    return [text if len(text) <= _SHOWN else text[:_SHOWN] + "…" for text in texts]


def cast_rows(
    column: pa.ChunkedArray, target: pa.DataType, formats: Sequence[str] = ()
) -> tuple[pa.ChunkedArray, list[int]]:
    """A safe cast, and the rows for which it fails (NULL in the result)."""
    if pa.types.is_timestamp(target) and _is_text(column.type):
        return _read_times(column, target, formats)
    try:
        return column.cast(target), []
    except _FAILURES:
        return _cast_some(_array(column), target)


def _cast_some(values: pa.Array, target: pa.DataType) -> tuple[pa.ChunkedArray, list[int]]:
    doubtful = _surely_bad(values, target)
    kept = pc.if_else(doubtful, pa.scalar(None, values.type), values)
    bad = np.flatnonzero(doubtful.to_numpy(zero_copy_only=False)).tolist()
    found: list[int] = []
    cast = _halve(kept, target, 0, found)
    return pa.chunked_array([cast]), sorted(bad + found)


def _read_times(
    column: pa.ChunkedArray, target: pa.DataType, formats: Sequence[str]
) -> tuple[pa.ChunkedArray, list[int]]:
    """Times with and without a zone; those without are in UTC, as all ticks are."""
    kinds = [pa.timestamp(target.unit), pa.timestamp(target.unit, "UTC")]
    for kind in reversed(kinds) if _first_has_zone(column) else kinds:
        # All in one way is the common case. The first text tells which: a cast that fails takes thirty times as long.
        try:
            return column.cast(kind).cast(target), []
        except _FAILURES:
            continue
    values = _array(column)
    zoned = pc.fill_null(pc.match_substring_regex(values, _ZONE), False)
    nothing = pa.scalar(None, values.type)
    with_zone, bad_zoned = _times(pc.if_else(zoned, values, nothing), pa.timestamp(target.unit, "UTC"))
    plain, bad_plain = _times(pc.if_else(zoned, nothing, values), pa.timestamp(target.unit))
    ticks = pc.coalesce(with_zone.cast(pa.int64()), plain.cast(pa.int64()))
    bad = sorted(bad_zoned + bad_plain)
    for form in formats:
        if bad:
            read = pc.strptime(values.take(pa.array(bad, pa.int64())), form, target.unit, error_is_null=True)
            mask = np.zeros(len(values), bool)
            mask[bad] = True
            ticks = pc.replace_with_mask(ticks, pa.array(mask), read.cast(pa.int64()))
            bad = [row for row, value in zip(bad, read.is_valid().to_pylist(), strict=True) if not value]
    return pa.chunked_array([ticks.cast(target)]), bad


def _first_has_zone(column: pa.ChunkedArray) -> bool:
    first = pc.first(column).as_py()
    return first is not None and re.search(_ZONE, first) is not None


def _times(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    try:
        return values.cast(target), []
    except _FAILURES:
        cast, bad = _cast_some(values, target)
        return _array(cast), bad


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _surely_bad(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Rows that cannot be cast, found without trying them; others may fail too."""
    types = pa.types
    numbers = types.is_integer(values.type) or types.is_floating(values.type)
    if numbers and types.is_integer(target):
        low, high = _range(target)
        outside = pc.or_(pc.less(values, pa.scalar(low).cast(values.type, safe=False)), _above(values, high))
        if types.is_floating(values.type):
            outside = pc.or_(outside, pc.invert(pc.equal(values, pc.trunc(values))))
        return pc.fill_null(outside, False)
    if types.is_timestamp(values.type) and types.is_timestamp(target):
        back = values.cast(target, safe=False).cast(values.type, safe=False)
        return pc.fill_null(pc.not_equal(back, values), False)
    if _is_text(values.type):
        pattern = text_pattern(target)
        if pattern is not None:
            return pc.fill_null(pc.invert(pc.match_substring_regex(values, pattern)), False)
    return pa.array(np.zeros(len(values), bool))


def text_pattern(target: pa.DataType) -> str | None:
    """What every text that can be cast to `target` matches (texts that cannot may match too)."""
    types = pa.types
    if types.is_integer(target):
        return r"^\s*[+-]?(0[xX])?[0-9a-fA-F]+\s*$"
    if types.is_floating(target) or types.is_decimal(target):
        return r"^\s*[+-]?([0-9.][0-9.eE+\-]*|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*$"
    if types.is_temporal(target):
        return r"^\s*[0-9+-]"
    return None


def _range(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _above(values: pa.Array, high: int) -> Any:
    if pa.types.is_floating(values.type):
        # 2**63 - 1 has no double; the next one up is the first that does not fit.
        return pc.greater_equal(values, pa.scalar(float(high + 1), values.type))
    if high > _range(values.type)[1]:
        return pa.array(np.zeros(len(values), bool))
    return pc.greater(values, pa.scalar(high, values.type))


def _halve(values: pa.Array, target: pa.DataType, first: int, bad: list[int]) -> pa.Array:
    try:
        return values.cast(target)
    except _FAILURES:
        if len(values) == 1:
            bad.append(first)
            return pa.nulls(1, target)
    half = len(values) // 2
    return pa.concat_arrays(
        [_halve(values[:half], target, first, bad), _halve(values[half:], target, first + half, bad)]
    )


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one record batch, however it was chunked."""
    if not table.column_names:
        return pa.RecordBatch.from_struct_array(pa.nulls(len(table), pa.struct([])).fill_null({}))
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
