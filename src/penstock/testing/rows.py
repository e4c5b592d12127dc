"""`assert_rows`: a table compared with the rows that are expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.errors import QueryError

TOLERANCE: Final = 1e-9
"""How far two floats may be apart, as a share of the larger one: the last digits of a sum depend on its order."""
_SHOWN: Final = 20
"""Rows that a failed comparison shows of each kind."""

Row: TypeAlias = dict[str, Any]


def assert_rows(
    found: pa.Table | Sequence[Mapping[str, Any]],
    expected: Iterable[Sequence[Any] | Mapping[str, Any]],
    *,
    ordered: bool = False,
    tolerance: float = TOLERANCE,
) -> None:
    """Check that a table has these rows and no others: in any order, unless `ordered`.

    `found` may also be a list of dicts. An expected row is a tuple in the order of the columns, or a dict. Times may be
    written as text. Two floats are equal if they differ by at most `tolerance`, as a share of the larger one.

    >>> counts = pa.table({"ts": [0, 10], "n": [2, 1]})
    >>> assert_rows(counts, [(10, 1), (0, 2)])
    >>> assert_rows(counts, [(10, 1), (0, 3)])
    Traceback (most recent call last):
        ...
    AssertionError: 2 rows were expected and 2 found, but they differ
      missing:      {'ts': 0, 'n': 3}
      not expected: {'ts': 0, 'n': 2}
    """
    __tracebackhide__ = True
    table = found if isinstance(found, pa.Table) else pa.Table.from_pylist([dict(row) for row in found])
    got = table.to_pylist()
    # A list without rows has no names of columns, either.
    schema = table.schema if table.column_names else None
    wanted = [_expected(row, schema) for row in expected]
    told = _first_difference(got, wanted, tolerance) if ordered else _differences(got, wanted, tolerance)
    if told:
        raise AssertionError("\n".join(told))


def _differences(got: list[Row], wanted: list[Row], tolerance: float) -> list[str]:
    """What differs, in any order; nothing if all is as expected."""
    missing, surplus = [], list(got)
    for row in wanted:
        match = next((at for at, other in enumerate(surplus) if _same(row, other, tolerance)), None)
        if match is None:
            missing.append(row)
        else:
            del surplus[match]
    if not missing and not surplus:
        return []
    head = f"{_count(len(wanted))} expected and {len(got):,} found, but they differ"
    return [head, *_listed("missing:     ", missing), *_listed("not expected:", surplus)]


def _first_difference(got: list[Row], wanted: list[Row], tolerance: float) -> list[str]:
    """The first row that differs; nothing if all is as expected."""
    for at, (want, have) in enumerate(zip(wanted, got, strict=False)):
        if not _same(want, have, tolerance):
            return [f"row {at + 1} differs", f"  expected: {want!r}", f"  found:    {have!r}"]
    if len(got) == len(wanted):
        return []
    head = f"{_count(len(wanted))} expected and {len(got):,} found"
    return [head, *_listed("missing:     ", wanted[len(got) :]), *_listed("not expected:", got[len(wanted) :])]


def _expected(row: Sequence[Any] | Mapping[str, Any], schema: pa.Schema | None) -> Row:
    """An expected row as a dict, its times as the table has them."""
    if schema is None:
        # Nothing was found: nobody knows the names, and nothing is compared.
        return dict(row) if isinstance(row, Mapping) else {f"column {at + 1}": value for at, value in enumerate(row)}
    named = isinstance(row, Mapping)
    fits = set(row) == set(schema.names) if named else len(row) == len(schema) and not isinstance(row, str)
    if not fits:
        raise QueryError(
            "an expected row has other columns than the rows that were found",
            expected=", ".join(schema.names),
            found=repr(row),
            hint="write a tuple in the order of the columns, or a dict with all of them",
        )
    values = row if isinstance(row, Mapping) else dict(zip(schema.names, row, strict=True))
    return {name: _value(values[name], schema.field(name).type) for name in schema.names}


def _value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str) and pa.types.is_temporal(kind):
        return pa.scalar(value).cast(kind).as_py()
    return value


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name], tolerance) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=tolerance) or (math.isnan(one) and math.isnan(other))
    if isinstance(other, float) and isinstance(one, int):
        return math.isclose(one, other, rel_tol=tolerance)
    return bool(one == other)


def _count(rows: int) -> str:
    return f"{rows:,} row was" if rows == 1 else f"{rows:,} rows were"


def _listed(label: str, rows: list[Row]) -> list[str]:
    lines = [f"  {label if at == 0 else ' ' * len(label)} {row!r}" for at, row in enumerate(rows[:_SHOWN])]
    more = len(rows) - _SHOWN
    return [*lines, f"  {' ' * len(label)} ... and {more:,} more"] if more > 0 else lines
