"""The bounds that a predicate sets to single columns, as far as comparisons with constants tell.

>>> from penstock.algebra.expressions.binding import bind
>>> from penstock.algebra.expressions.bounds import may_hold
>>> schema = pa.schema({"k": pa.int64(), "x": pa.float64()})
>>> wanted = bounds_of(bind("k > 3 AND x < 0.5 AND k IN (2, 9)", schema), schema)
>>> str(wanted)
'k >= 3 and k in (2, 9)'
>>> [may_hold(wanted, {"k": values}) for values in ((3, 8), (4, 9), None)]
[False, True, False]
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.binding import DIALECT, sql_of
from penstock.algebra.expressions.bounds import Bounds, OneOf, Value, Within, both, either, time_name
from penstock.algebra.expressions.expression import Expression
from penstock.errors import PenstockError


def bounds_of(predicate: Expression, schema: pa.Schema) -> Bounds | None:
    """What a predicate asks of columns of a schema, as far as comparisons with constants tell; None if nothing."""
    return _of(sqlglot.parse_one(predicate.sql, dialect=DIALECT), schema)


def _of(node: Any, schema: pa.Schema) -> Bounds | None:
    match node:
        case exp.Paren():
            return _of(node.this, schema)
        case exp.And():
            return both(_of(node.left, schema), _of(node.right, schema))
        case exp.Or():
            return either((_of(node.left, schema), _of(node.right, schema)))
        case exp.Between():
            low, high = (_value(node.args[end], node.this, schema) for end in ("low", "high"))
            return Within(node.this.name, low, high) if low is not None or high is not None else None
        case exp.In() if node.expressions and not any(node.args.get(other) for other in ("query", "unnest", "field")):
            return _one_of(node.this, [_value(each, node.this, schema) for each in node.expressions])
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return _comparison(node, schema)
    return None


def _comparison(node: Any, schema: pa.Schema) -> Bounds | None:
    column, constant, above = node.left, node.right, isinstance(node, exp.GT | exp.GTE)
    if not isinstance(column, exp.Column):
        column, constant, above = constant, column, not above
    value = _value(constant, column, schema)
    if isinstance(node, exp.EQ):
        return _one_of(column, [value])
    return _within(column, low=value) if above else _within(column, high=value)


def _within(column: Any, **bound: Value | None) -> Bounds | None:
    return None if None in bound.values() else Within(column.name, **bound)


def _one_of(column: Any, values: list[Any]) -> Bounds | None:
    return None if None in values else OneOf(column.name, tuple(sorted(set(values))))


def _value(node: Any, column: Any, schema: pa.Schema) -> Value | None:
    """A constant as a value of the column that it is compared with; None if one of them is not what it should be."""
    if not isinstance(column, exp.Column) or column.name not in schema.names:
        return None
    kind, types = schema.field(column.name).type, pa.types
    text = isinstance(node, exp.Literal) and node.is_string
    if types.is_string(kind):
        return str(node.this) if text else None
    if types.is_integer(kind):
        whole = node.this if isinstance(node, exp.Neg) else node
        return _whole(int(sql_of(node)), kind) if isinstance(whole, exp.Literal) and whole.is_int else None
    name = time_name(kind)
    if name is None or not (text or (isinstance(node, exp.Cast) and sql_of(node.to) in _castable(name))):
        return None
    try:
        # As DuckDB itself understands it.
        found = kernel.run(f"SELECT CAST({sql_of(node)} AS {name}) AS value")["value"][0].as_py()
    except PenstockError:
        return None
    return found if isinstance(found, dt.date) else None


def _whole(number: int, kind: pa.DataType) -> int | None:
    """A number that the type has; others say nothing."""
    lowest = -(1 << (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
    return number if lowest <= number < lowest + (1 << kind.bit_width) else None


def _castable(name: str) -> tuple[str, ...]:
    """Types of constants that mean the same, whatever the zone: dates and times without one; instants."""
    return ("TIMESTAMPTZ",) if name == "TIMESTAMPTZ" else ("DATE", "TIMESTAMP")
