"""Which expressions progress: monotone, non-decreasing functions of one progressing attribute.

If every later tuple has `A >= v` and f never decreases, every later tuple has `f(A) >= f(v)`: so a low-water mark goes
through a monotone expression by evaluating the expression on the mark itself. An attribute that decreases has a mark of
its negative, and goes through expressions that turn it round, such as `-ttl`. (Temporal attributes in Gigascope and
progressing attributes in out-of-order processing are inferred by the same rule.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.binding import columns_of, parse, resolve, sql_of
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.progression import Progression
from penstock.algebra.ticks import can_progress
from penstock.errors import QueryError

_KINDS: Final = exp.DataType.Type
_KEEP_ORDER: Final = frozenset(
    {*exp.DataType.INTEGER_TYPES, *exp.DataType.REAL_TYPES, *exp.DataType.TEMPORAL_TYPES}
    - {_KINDS.TIME, _KINDS.TIMETZ, _KINDS.TIME_NS, _KINDS.BIT}
)
"""Types to which numbers, dates and timestamps are cast without changing places."""
_CONVERSIONS: Final = frozenset({"epoch_us", "epoch_ns", "make_timestamp_ms", "make_timestamp_ns"})


def progression(
    expression: Expression, attribute: str, schema: pa.Schema, *, falls: bool = False
) -> Progression | None:
    """How `expression` progresses when `attribute` does, or None if it does not; `falls` if the attribute decreases.

    >>> from penstock.algebra.expressions.binding import bind
    >>> schema = pa.schema({"ts": pa.int64()})
    >>> progression(bind("ts / 60", schema), "ts", schema).apply(125)
    2
    >>> progression(bind("ts % 60", schema), "ts", schema) is None
    True
    >>> progression(bind("100 - ts", schema), "ts", schema, falls=True).apply(-30)
    70
    """
    source = schema.field(attribute).type
    if expression.columns != (attribute,) or not can_progress(expression.type) or not can_progress(source):
        return None
    if expression.column is not None:
        return Progression(attribute, source, expression.type, None, falls)
    tree = resolve(parse(expression.text, what="expression"), schema, what="expression")
    turns = _antitone(tree)
    if not turns and not _monotone(tree):
        return None
    found = Progression(attribute, source, expression.type, expression.sql, falls, turns)
    # What decreases has marks of its negative, which only signed numbers have.
    return None if found.result_falls and not pa.types.is_signed_integer(expression.type) else found


def _monotone(node: exp.Expr) -> bool:
    """Whether a tree over one column never decreases, and never is NULL, where that column is not NULL."""
    match node:
        case exp.Column():
            return True
        case exp.Paren():
            return _monotone(node.this)
        case exp.Add():
            return _shifted(node.left, node.right) or _shifted(node.right, node.left)
        case exp.Sub():
            return _shifted(node.left, node.right)
        case exp.Mul():
            return _scaled(node.left, node.right) or _scaled(node.right, node.left)
        case exp.Div() | exp.IntDiv():
            return _scaled(node.left, node.right)
        case exp.TryCast():
            return False  # NULL where the value does not fit
        case exp.Cast():
            return node.to.this in _KEEP_ORDER and _monotone(node.this)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return not columns_of(node.args["unit"]) and _monotone(node.this)
        case exp.DateBin():
            origin = [part for key, part in node.args.items() if key not in ("this", "expression") and part]
            return _constant(node.this) is not None and all(map(_shift, origin)) and _monotone(node.expression)
        case exp.AtTimeZone():
            # Other zones set their clocks back once a year, and local time with them.
            return _constant(node.args["zone"]) == "UTC" and _monotone(node.this)
        case exp.Greatest() | exp.Least():
            parts = [node.this, *node.expressions]
            moving = [part for part in parts if columns_of(part)]
            return all(map(_monotone, moving)) and all(_constant(p) is not None for p in parts if p not in moving)
        case exp.Anonymous() if node.name.lower() in _CONVERSIONS and len(node.expressions) == 1:
            return _monotone(node.expressions[0])
        case exp.Floor() | exp.Ceil() | exp.Round() | exp.Trunc() | exp.TimeToUnix() | exp.UnixToTime():
            others = [part for part in node.iter_expressions() if part is not node.this]
            return all(_constant(part) is not None for part in others) and _monotone(node.this)
    return False


def _antitone(node: exp.Expr) -> bool:
    """Whether a tree over one column never increases, and never is NULL, where that column is not NULL."""
    match node:
        case exp.Paren():
            return _antitone(node.this)
        case exp.Neg():
            return _monotone(node.this)
        case exp.Sub():
            return (not columns_of(node.left) and _shift(node.left) and _monotone(node.right)) or (
                not columns_of(node.right) and _shift(node.right) and _antitone(node.left)
            )
        case exp.Add():
            return any(_shift(fixed) and _antitone(moving) for fixed, moving in _both_ways(node))
        case exp.Mul():
            factors = [(_constant(fixed), moving) for fixed, moving in _both_ways(node)]
            numbers = [(value, moving) for value, moving in factors if isinstance(value, int | float)]
            return any(_monotone(moving) if value < 0 else value > 0 and _antitone(moving) for value, moving in numbers)
        case exp.Cast():
            return not isinstance(node, exp.TryCast) and node.to.this in _KEEP_ORDER and _antitone(node.this)
    return False


def _both_ways(node: exp.Binary) -> tuple[tuple[exp.Expr, exp.Expr], ...]:
    return ((node.left, node.right), (node.right, node.left))


def _shifted(moving: exp.Expr, fixed: exp.Expr) -> bool:
    return bool(columns_of(moving)) and _shift(fixed) and _monotone(moving)


def _shift(fixed: exp.Expr) -> bool:
    """Whether adding a constant keeps order. Months do not: the 30th at noon and the 31st at dawn become the 28th."""
    value = _constant(fixed)
    return value is not None and getattr(value, "months", 0) == 0


def _scaled(moving: exp.Expr, fixed: exp.Expr) -> bool:
    value = _constant(fixed)
    return bool(columns_of(moving)) and isinstance(value, int | float) and value > 0 and _monotone(moving)


def _constant(node: exp.Expr) -> Any:
    """The value of a tree without columns, None for any other."""
    return None if columns_of(node) else _value_of(sql_of(node))


@lru_cache(maxsize=kernel.KNOWN)
def _value_of(sql: str) -> Any:
    """The value of an expression without columns; None if it has none."""
    try:
        kind = kernel.types(f"{sql} AS value", pa.schema({"row": pa.bool_()})).field(0).type
        # Decimals and integers of any width are only compared with zero, so a double will do.
        number = pa.types.is_decimal(kind) or pa.types.is_integer(kind)
        found = kernel.run(f"SELECT CAST({sql} AS DOUBLE) AS value" if number else f"SELECT {sql} AS value")
    except QueryError:
        return None
    return found["value"][0].as_py()
