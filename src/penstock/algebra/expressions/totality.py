"""Which expressions have a value for every tuple, whatever is in it: total ones never end a run with an error.

`a + 1` of a BIGINT overflows for one value, so it is not total; `CAST(a AS BIGINT) + 1` of an INTEGER is. A box that
may fail must not see other tuples than the user has sent it, so only boxes whose expressions are all total change
places. What is not known to be total here counts as one that may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import exp

from penstock.algebra.expressions.binding import DIALECT
from penstock.algebra.expressions.expression import Expression

T = TypeVar("T")

WHOLE: Final = "whole"
FLOAT: Final = "float"
EXACT: Final = "exact"
"""A constant with a fraction, which DuckDB takes for a decimal."""
TEXT: Final = "text"
TRUTH: Final = "truth"
NOTHING: Final = "nothing"
NUMBERS: Final = frozenset({WHOLE, FLOAT, EXACT})
LITERAL_DIGITS: Final = 15
"""A decimal with more of them may not fit together with a BIGINT into 38 digits."""


@dataclass(frozen=True)
class _Kind:
    """What is known of the values of a part of an expression."""

    name: str
    low: int = 0
    high: int = 0
    """Between which whole numbers lie, if they are such."""
    bits: int = 0
    """The size of their type, which overflows."""
    signed: bool = True


_TRUTH: Final = _Kind(TRUTH)
_TEXT: Final = _Kind(TEXT)
_FLOAT: Final = _Kind(FLOAT)
_LENGTH: Final = _Kind(WHOLE, 0, 2**31, 64)

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_OF_TEXTS: Final[dict[type[exp.Expr], _Kind]] = {
    exp.Lower: _TEXT,
    exp.Upper: _TEXT,
    exp.Trim: _TEXT,
    exp.Reverse: _TEXT,
    exp.MD5: _TEXT,
    exp.Replace: _TEXT,
    exp.DPipe: _TEXT,
    exp.Length: _LENGTH,
    exp.Contains: _TRUTH,
    exp.StartsWith: _TRUTH,
    exp.EndsWith: _TRUTH,
}
"""Functions of texts that have a value for all texts."""
_PARTS_OF_TEXTS: Final = (exp.Left, exp.Right, exp.Substring)
_PATTERNS: Final = (exp.Like, exp.ILike, exp.RegexpLike)
_OF_FLOATS: Final = (exp.Floor, exp.Ceil)
_BITS: Final = {
    exp.DType.TINYINT: 8,
    exp.DType.SMALLINT: 16,
    exp.DType.INT: 32,
    exp.DType.BIGINT: 64,
}


class _MayFailError(Exception):
    """Nothing says that this part of an expression has a value for all tuples."""


def is_total(expression: Expression, schema: pa.Schema) -> bool:
    """Whether an expression has a value, or NULL, for every tuple of a schema.

    >>> from penstock.algebra.expressions.binding import bind
    >>> schema = pa.schema({"i": pa.int64(), "s": pa.string()})
    >>> [is_total(bind(text, schema), schema) for text in ("i > 5", "i + 1 > 5", "lower(s) LIKE 'a%'", "TRY(i + 1)")]
    [True, False, True, True]
    """
    return _is_total(expression.sql, tuple((name, schema.field(name).type) for name in expression.columns))


@lru_cache(maxsize=1024)
def _is_total(sql: str, columns: tuple[tuple[str, pa.DataType], ...]) -> bool:
    if len(columns) == 1 and sql == '"' + columns[0][0].replace('"', '""') + '"':
        return True
    try:
        _kind(sqlglot.parse_one(sql, dialect=DIALECT), dict(columns))
    except _MayFailError:
        return False
    return True


def _kind(node: exp.Expr, columns: dict[str, pa.DataType]) -> _Kind:
    match node:
        case exp.Column():
            # A field of a struct looks like the column of a table.
            return _of_type(columns[_if(node.name in columns and len(node.parts) == 1, node.name)])
        case exp.Literal():
            return _literal(node)
        case exp.Boolean():
            return _TRUTH
        case exp.Null():
            return _Kind(NOTHING)
        case exp.Paren():
            return _kind(node.this, columns)
        case exp.Is():
            return _if(isinstance(node.expression, exp.Null | exp.Boolean) and _kind(node.this, columns), _TRUTH)
        case exp.And() | exp.Or() | exp.Not():
            return _if(all(k.name in (TRUTH, NOTHING) for k in _kinds(node, columns)), _TRUTH)
        case exp.Between() | exp.In():
            return _if(node.args.get("query") is None and _alike(_kinds(node, columns)), _TRUTH)
        case exp.Try() | exp.TryCast():
            return _Kind("tried")
        case exp.Cast():
            return _cast(node, columns)
        case exp.Case() | exp.If():
            return _choice(node, columns)
        case exp.Coalesce() | exp.Greatest() | exp.Least() | exp.Nullif():
            return _widest(_kinds(node, columns))
    if isinstance(node, _COMPARISONS):
        return _if(_alike(_kinds(node, columns)), _TRUTH)
    if isinstance(node, _PATTERNS):
        constant = isinstance(node.expression, exp.Literal) and node.expression.is_string
        return _if(constant and len(_children(node)) == 2 and _kind(node.this, columns).name == TEXT, _TRUTH)
    if isinstance(node, _PARTS_OF_TEXTS):
        at = [child for child in _children(node) if child is not node.this]
        whole = all(_kind(child, columns).name == WHOLE and not child.find(exp.Column) for child in at)
        return _if(whole and _kind(node.this, columns).name == TEXT, _TEXT)
    if (kind := _OF_TEXTS.get(type(node))) is not None:
        return _if(all(k.name == TEXT for k in _kinds(node, columns)), kind)
    if isinstance(node, _OF_FLOATS):
        return _if(all(k.name == FLOAT for k in _kinds(node, columns)), _FLOAT)
    return _arithmetic(node, columns)


def _arithmetic(node: exp.Expr, columns: dict[str, pa.DataType]) -> _Kind:
    kinds = _kinds(node, columns)
    if any(k.name == FLOAT for k in kinds) and all(k.name in NUMBERS for k in kinds):
        return _if(isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg | exp.Abs), _FLOAT)
    if not kinds or not all(k.name == WHOLE for k in kinds):
        raise _MayFailError
    first, last = kinds[0], kinds[-1]
    bits = max(k.bits for k in kinds)
    match node:
        case exp.IntDiv() | exp.Mod() if last.low == last.high > 0:
            if isinstance(node, exp.Mod):
                reach = last.high - 1
                return _Kind(WHOLE, max(first.low, -reach) if first.low < 0 else 0, reach, bits, first.signed)
            ends = [_towards_zero(end, last.high) for end in (first.low, first.high)]
            return _Kind(WHOLE, min(ends), max(ends), bits, first.signed)
        case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() if all(k.signed for k in kinds):
            return _whole(bits)
    if not all(k.signed for k in kinds):
        raise _MayFailError
    rules: dict[type[exp.Expr], Callable[[int, int], int]] = {
        exp.Add: lambda a, b: a + b,
        exp.Sub: lambda a, b: a - b,
        exp.Mul: lambda a, b: a * b,
        exp.Neg: lambda a, _: -a,
        exp.Abs: lambda a, _: a,
    }
    if (rule := rules.get(type(node))) is None:
        raise _MayFailError
    ends = [rule(a, b) for a in (first.low, first.high) for b in (last.low, last.high)]
    # The absolute value of the smallest number of a type is no number of the type.
    low, high = (0, max(map(abs, ends))) if isinstance(node, exp.Abs) else (min(ends), max(ends))
    room = _whole(bits)
    return _if(room.low <= low and high <= room.high, _Kind(WHOLE, low, high, bits))


def _cast(node: exp.Cast, columns: dict[str, pa.DataType]) -> _Kind:
    to = node.to.this
    if isinstance(node.this, exp.Literal):
        # A constant: binding has computed it.
        named = {exp.DType.DATE: "date32[day]", exp.DType.TIMESTAMP: "timestamp[us]"}
        named[exp.DType.TIMESTAMPNTZ] = "timestamp[us]"
        if node.this.is_string and to in named:
            return _Kind(named[to])
    kind = _kind(node.this, columns)
    if to in (exp.DType.TEXT, exp.DType.VARCHAR):
        return _if(kind.name in (WHOLE, FLOAT, TEXT, TRUTH), _TEXT)
    if to == exp.DType.DOUBLE:
        return _if(kind.name in (WHOLE, FLOAT), _FLOAT)
    if (bits := _BITS.get(to)) is not None:
        if kind.name == TRUTH:
            return _Kind(WHOLE, 0, 1, bits)
        room = _whole(bits)
        fits = kind.name == WHOLE and room.low <= kind.low and kind.high <= room.high
        return _if(fits, _Kind(WHOLE, kind.low, kind.high, bits))
    raise _MayFailError


def _choice(node: exp.Expr, columns: dict[str, pa.DataType]) -> _Kind:
    """What a CASE gives; one with a subject compares it as = does."""
    branches = node.args.get("ifs") or [node]
    subject = node.this if isinstance(node, exp.Case) else None
    if subject is not None:
        raise _MayFailError
    conditions = [_kind(branch.this, columns) for branch in branches]
    results = [branch.args["true"] for branch in branches]
    last = node.args.get("default") or node.args.get("false")
    found = _widest([_kind(result, columns) for result in (*results, *([last] if last is not None else []))])
    return _if(all(c.name in (TRUTH, NOTHING) for c in conditions), found)


def _widest(kinds: Sequence[_Kind]) -> _Kind:
    """One of several kinds, which must be the same."""
    known = [k for k in kinds if k.name != NOTHING]
    if not known or len({(k.name, k.signed) for k in known}) > 1:
        raise _MayFailError
    if known[0].name != WHOLE:
        return known[0]
    bits = max(k.bits for k in known)
    return _Kind(WHOLE, min(k.low for k in known), max(k.high for k in known), bits, known[0].signed)


def _alike(kinds: Sequence[_Kind]) -> bool:
    """Whether values of these kinds can be compared without a conversion that may fail."""
    names = {k.name for k in kinds if k.name != NOTHING}
    return names <= NUMBERS or len(names) == 1


def _kinds(node: exp.Expr, columns: dict[str, pa.DataType]) -> list[_Kind]:
    return [_kind(child, columns) for child in _children(node)]


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())


def _literal(node: exp.Literal) -> _Kind:
    if node.is_string:
        return _TEXT
    text = str(node.this)
    if text.isdigit():
        # A constant takes the type of what stands beside it, so it has no room of its own.
        return _if(int(text) < 2**63, _Kind(WHOLE, int(text), int(text), 8))
    if "e" in text.lower():
        return _FLOAT
    return _if(len(text) <= LITERAL_DIGITS, _Kind(EXACT))


def _of_type(kind: pa.DataType) -> _Kind:
    if pa.types.is_signed_integer(kind):
        return _whole(kind.bit_width)
    if pa.types.is_unsigned_integer(kind):
        return _Kind(WHOLE, 0, 2**kind.bit_width - 1, kind.bit_width, signed=False)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _FLOAT
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _TEXT
    if pa.types.is_boolean(kind):
        return _TRUTH
    return _Kind(str(kind))


def _whole(bits: int) -> _Kind:
    return _Kind(WHOLE, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, bits)


def _towards_zero(value: int, by: int) -> int:
    return value // by if value >= 0 else -(-value // by)


def _if(sure: object, value: T) -> T:
    if not sure:
        raise _MayFailError
    return value
