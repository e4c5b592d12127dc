"""Expressions of expressions: one that is computed from what others compute, as one over what these are computed from.

Who only runs a network does not load this module, as it loads the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from penstock.algebra.expressions.binding import DIALECT, columns_of, parse, resolve, sql_of
from penstock.algebra.expressions.expression import Expression

_SQL: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}
"""Types of which a value is the same whether it leaves the kernel and comes back, or not. Of others some change: a
HUGEINT leaves as a decimal, an instant in another zone."""


def composable(kind: pa.DataType) -> bool:
    """Whether what is computed in this type may stay inside of another expression."""
    return kind in _SQL


def composed(expression: Expression, inside: Mapping[str, Expression]) -> Expression:
    """An expression with others in the place of the columns that it uses.

    >>> from penstock.algebra.expressions.binding import bind
    >>> first = {"kb": bind("len / 1000", pa.schema({"len": pa.int64()}))}
    >>> composed(bind("kb > 5", pa.schema({"kb": pa.int64()})), first).text
    '("len" / 1000) > 5'
    """
    if expression.column is not None:
        return inside[expression.column]
    if all(inside[name].column == name for name in expression.columns):
        return expression
    return _composed(expression, tuple((name, inside[name]) for name in expression.columns))


@lru_cache(maxsize=256)
def _composed(expression: Expression, inside: tuple[tuple[str, Expression], ...]) -> Expression:
    known = dict(inside)
    names = pa.schema([pa.field(name, inner.type) for name, inner in inside])
    said = resolve(parse(expression.text, what="expression"), names, what="expression")
    tree = _replaced(sqlglot.parse_one(expression.sql, dialect=DIALECT), known, _computed)
    return Expression(sql_of(_replaced(said, known, _said)), sql_of(tree), expression.type, columns_of(tree))


def _replaced(tree: exp.Expr, known: Mapping[str, Expression], other: Callable[[Expression], exp.Expr]) -> exp.Expr:
    def replaced(node: exp.Expr) -> exp.Expr:
        if not (isinstance(node, exp.Column) and node.name in known):
            return node
        inner = known[node.name]
        if inner.column is not None:
            return exp.column(exp.Identifier(this=inner.column, quoted=True))
        return other(inner)

    return tree.transform(replaced)


def _computed(inner: Expression) -> exp.Expr:
    """What an expression computes, in the type in which it would have left the kernel."""
    return sqlglot.parse_one(f"CAST(({inner.sql}) AS {_SQL[inner.type]})", dialect=DIALECT)


def _said(inner: Expression) -> exp.Expr:
    """An expression as the user wrote it: who asks whether it progresses reads that."""
    quoted = {name.casefold(): name for name in inner.columns}

    def named(node: exp.Expr) -> exp.Expr:
        column = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.casefold() in quoted
        return exp.column(exp.to_identifier(quoted[node.name.casefold()], quoted=True)) if column else node

    return exp.Paren(this=parse(inner.text, what="expression").transform(named))
