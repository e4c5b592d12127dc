"""What a predicate asks of single columns: bounds that can be held against the smallest and largest values of a file.

Bounds are weaker than their predicate: where they do not hold, it does not either. So a part of a file may be left out
if its values show that they hold for none of its rows; NULL is within no bounds.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Value = int | str | dt.date
"""Floats are none: NaN is larger than all others for a predicate, and no value at all for who writes down extremes."""
Extent = tuple[Any, Any] | None
"""The smallest and the largest value of a column; None if all of its values are NULL."""
_SHOWN: Final = 5
_MOST_VALUES: Final = 10_000
"""Of more values only the smallest and the largest are held against those of a file."""


@dataclass(frozen=True)
class Within:
    """A column has no smaller and no larger values; None where there is no such bound."""

    column: str
    low: Value | None = None
    high: Value | None = None

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.column} >= {_text(self.low)}"
        if self.low is None:
            return f"{self.column} <= {_text(self.high)}"
        return f"{self.column} between {_text(self.low)} and {_text(self.high)}"


@dataclass(frozen=True)
class OneOf:
    """A column has one of these values, which are in order."""

    column: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.column} = {_text(self.values[0])}"
        if len(self.values) > _SHOWN:
            return f"{self.column} is one of {len(self.values):,} values"
        return f"{self.column} in ({', '.join(map(_text, self.values))})"


@dataclass(frozen=True)
class AllOf:
    """All of them hold."""

    parts: tuple[Bounds, ...]

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts)


@dataclass(frozen=True)
class AnyOf:
    """One of them holds at least."""

    parts: tuple[Bounds, ...]

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, AllOf) else str(part) for part in self.parts) or "nothing"


Bounds = Within | OneOf | AllOf | AnyOf
NOTHING: Final = AnyOf(())
"""They hold for no row."""


def both(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """What holds where two bounds do; None says nothing."""
    if one is None or other is None:
        return one if other is None else other
    if NOTHING in (one, other):
        return NOTHING
    parts = [part for each in (one, other) for part in (each.parts if isinstance(each, AllOf) else (each,))]
    found = tuple(dict.fromkeys(parts))
    return found[0] if len(found) == 1 else AllOf(found)


def either(several: Iterable[Bounds | None]) -> Bounds | None:
    """What holds where one of several does."""
    parts: list[Bounds] = []
    for each in several:
        if each is None:
            return None
        parts += each.parts if isinstance(each, AnyOf) else (each,)
    found = tuple(dict.fromkeys(parts))
    return found[0] if len(found) == 1 else AnyOf(found)


def renamed(bounds: Bounds | None, names: Mapping[str, str]) -> Bounds | None:
    """The same of columns with other names; what concerns a column without one says nothing."""
    match bounds:
        case AllOf(parts):
            return reduce(both, [renamed(part, names) for part in parts])
        case AnyOf(parts):
            return either(renamed(part, names) for part in parts)
        case Within(column, low, high):
            return Within(names[column], low, high) if column in names else None
        case OneOf(column, values):
            return OneOf(names[column], values) if column in names else None
    return None


def columns_in(bounds: Bounds) -> frozenset[str]:
    """The columns that bounds are about."""
    if isinstance(bounds, AllOf | AnyOf):
        return frozenset(name for part in bounds.parts for name in columns_in(part))
    return frozenset({bounds.column})


def may_hold(bounds: Bounds, known: Mapping[str, Extent]) -> bool:
    """Whether a row within these extents can be within bounds; of a column that is not in `known` anything may be."""
    match bounds:
        case AllOf(parts):
            return all(may_hold(part, known) for part in parts)
        case AnyOf(parts):
            return any(may_hold(part, known) for part in parts)
    if bounds.column not in known:
        return True
    extent = known[bounds.column]
    if extent is None:
        return False
    smallest, largest = extent
    if isinstance(bounds, Within):
        return (bounds.low is None or bounds.low <= largest) and (bounds.high is None or bounds.high >= smallest)
    at = bisect_left(bounds.values, smallest)
    return at < len(bounds.values) and bool(bounds.values[at] <= largest)


def rows_within(bounds: Bounds, rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """A mask of the rows that are within bounds."""
    match bounds:
        case AllOf(parts):
            return reduce(pc.and_, [rows_within(part, rows) for part in parts])
        case AnyOf(parts):
            return reduce(pc.or_, [rows_within(part, rows) for part in parts])
    column = rows.column(bounds.column)
    if isinstance(bounds, OneOf):
        return pc.is_in(column, pa.array(bounds.values, column.type))
    found = [pc.greater_equal(column, pa.scalar(bounds.low, column.type))] if bounds.low is not None else []
    found += [pc.less_equal(column, pa.scalar(bounds.high, column.type))] if bounds.high is not None else []
    return pc.fill_null(reduce(pc.and_, found), False)


def bounds_of_values(column: str, values: pa.ChunkedArray) -> Bounds | None:
    """What is asked of a column that must have one of some values; None if nothing."""
    kind = values.type
    if not pa.types.is_string(kind) and not pa.types.is_integer(kind) and time_name(kind) is None:
        return None
    if len(values.unique()) > _MOST_VALUES:
        ends = pc.min_max(values)
        return Within(column, ends["min"].as_py(), ends["max"].as_py())
    return OneOf(column, tuple(sorted(value for value in values.unique().to_pylist() if value is not None)))


def time_name(kind: pa.DataType) -> str | None:
    """What the kernel calls a type of times that bounds can be of; None for other types."""
    if pa.types.is_date32(kind):
        return "DATE"
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return None
    return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return str(value)
