"""Binding: what a text means over a schema, or why it is refused.

The text is parsed with sqlglot (DuckDB's dialect), names are resolved, and what cannot be replayed is refused; then
DuckDB says what type it has. One thing differs from DuckDB: **between integers `/` and `//` are floor division**, also
below zero, so that `ts/60` numbers minutes and progresses (`-1/60` is `-1`). For a quotient with a fraction, cast one
side: `CAST(a AS DOUBLE) / b`. Division of an integer by zero is NULL; `%` keeps the sign of its left side.

Who only runs a network does not load this module: the parser takes longer to load than a small batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.algebra.expressions import kernel, purity
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.zones import in_zone, zone_of
from penstock.algebra.naming import did_you_mean
from penstock.errors import QueryError

DIALECT: Final = "duckdb"

_STATEMENTS: Final = (exp.Query, exp.DDL, exp.DML, exp.Command, exp.Set, exp.Use, exp.Pragma, exp.Alias, exp.Tuple)


def bind(text: str, schema: pa.Schema, *, what: str = "expression") -> Expression:
    """Bind a text to a schema, or refuse it.

    >>> bind("TS / 60", pa.schema({"ts": pa.int64()})).type
    DataType(int64)
    """
    return bind_tree(resolve(parse(text, what=what), schema, what=what), text, schema, what=what)


def bind_predicate(text: str, schema: pa.Schema) -> Expression:
    """Bind a text that must be true or false of every tuple."""
    bound = bind(text, schema, what="predicate")
    if not pa.types.is_boolean(bound.type):
        raise QueryError(
            f"the predicate {text!r} is no condition",
            expected="a boolean",
            found=f"{bound.type}",
            hint="compare it with something, for example '… > 0'",
        )
    return bound


def parse(text: str, *, what: str) -> exp.Expr:
    """The tree of a text that is one expression."""
    if not isinstance(text, str):
        raise QueryError(
            f"the {what} is no text",
            expected="SQL over the attributes of the stream, such as 'ts / 60'",
            found=repr(text),
            hint="write it in SQL; functions in Python go over windows: "
            "aggregate({...: pk.window_function(final=...)}, ...)"
            if callable(text)
            else f"put it in quotes: '{text}'",
        )
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=DIALECT) if tree is not None]
    except SqlglotError as error:
        raise QueryError(f"cannot read the {what} {text!r}", found=_underlined(text, error)) from error
    if len(trees) != 1:
        raise QueryError(f"{len(trees)} expressions in {text!r}", expected=f"one {what}")
    tree = trees[0].transform(_whole)
    if isinstance(tree, _STATEMENTS):
        alias = isinstance(tree, exp.Alias)
        raise QueryError(
            f"{text!r} is no {what}",
            expected="a scalar over the attributes of the stream",
            hint="the name goes before the expression: name='expression'" if alias else None,
        )
    return tree


def _whole(node: exp.Expr) -> exp.Expr:
    """The parser writes this call without its second argument, which the kernel's own function does not have."""
    if not isinstance(node, exp.ApproxDistinct):
        return node
    return exp.Anonymous(this="approx_count_distinct", expressions=list(node.iter_expressions()))


def resolve(tree: exp.Expr, schema: pa.Schema, *, what: str) -> exp.Expr:
    """The tree with every column replaced by the quoted name it has in the schema."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        # DuckDB reads a.b as column b of table a, or as field b of column a. One stream has no table names.
        first, *fields = [part.name for part in node.parts]
        column: exp.Expr = exp.column(exp.to_identifier(_named(first, schema, what), quoted=True))
        for field in fields:
            column = exp.Dot(this=column, expression=exp.to_identifier(field, quoted=True))
        return column

    if tree.find(exp.Query) is not None:
        raise QueryError(f"a subquery in the {what}", hint="join the streams instead")
    return tree.copy().transform(replaced)


def bind_tree(tree: exp.Expr, text: str, schema: pa.Schema, *, what: str) -> Expression:
    """Bind a tree whose columns are resolved."""
    columns = columns_of(tree)
    folded: dict[str, str] = {}
    for name in columns:
        if folded.setdefault(name.casefold(), name) != name:
            raise QueryError(
                f"{text!r} uses {folded[name.casefold()]!r} and {name!r}, which differ in case only",
                hint="rename one of them with a map box",
            )
    parameters = {name.name for scope in tree.find_all(exp.Lambda) for name in scope.expressions}
    purity.check(sql_of(tree), frozenset(columns) | parameters, what=what)
    used = pa.schema([schema.field(name) for name in columns])
    sql = sql_of(floored(tree, used))
    if columns and sql == kernel.quote(columns[0]):
        return Expression(text, sql, schema.field(columns[0]).type, columns)
    try:
        kind = _kind(sql, used)
    except QueryError as error:
        shown = ", ".join(f"{field.name}: {field.type}" for field in used)
        raise QueryError(f"{text!r} does not fit its columns: {error.what}", found=shown or None) from error
    if pa.types.is_null(kind):
        raise QueryError(f"{text!r} is always NULL and has no type", hint="say which: CAST(NULL AS BIGINT)")
    return Expression(text, sql, in_zone(kind, zone_of(used.types)), columns)


@lru_cache(maxsize=kernel.KNOWN)
def _kind(sql: str, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over columns."""
    # One tuple of NULLs makes constants show their faults now: x + 'a' has a type, but never a value.
    row = schema if len(schema) else pa.schema({"row": pa.null()})
    probe = pa.table([pa.nulls(1, field.type) for field in row], names=row.names)
    return kernel.run(f"SELECT {sql} AS value FROM {kernel.TUPLES}", **{kernel.TUPLES: probe}).schema[0].type


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """An expression over columns that have other names: `names` says which, by those that it uses.

    >>> renamed(bind("a > 1", pa.schema({"a": pa.int64()})), {"a": "b"}).sql
    '"b" > 1'
    """
    pairs = tuple((column, names[column]) for column in expression.columns)
    return expression if all(old == new for old, new in pairs) else _renamed(expression, pairs)


@lru_cache(maxsize=256)
def _renamed(expression: Expression, names: tuple[tuple[str, str], ...]) -> Expression:
    known = dict(names)

    def replaced(node: exp.Expr) -> exp.Expr:
        column = isinstance(node, exp.Column) and node.name in known
        return exp.column(exp.to_identifier(known[node.name], quoted=True)) if column else node

    tree = sqlglot.parse_one(expression.sql, dialect=DIALECT).transform(replaced)
    return Expression(sql_of(tree).replace('"', ""), sql_of(tree), expression.type, columns_of(tree))


def sql_of(tree: exp.Expr) -> str:
    """DuckDB SQL of a tree, without the comments of its text."""
    return str(tree.sql(DIALECT, comments=False, normalize_functions="lower"))


def columns_of(tree: exp.Expr) -> tuple[str, ...]:
    """The columns of a resolved tree, in order of first use."""
    return tuple(dict.fromkeys(node.name for node in tree.find_all(exp.Column, bfs=False)))


def floored(tree: exp.Expr, schema: pa.Schema) -> exp.Expr:
    """The tree with integer divisions made to floor, innermost first."""
    tree = tree.copy()
    divisions = [node for node in tree.walk(bfs=False) if isinstance(node, exp.Div | exp.IntDiv)]
    for node in reversed(divisions):
        left, right = sql_of(node.left), sql_of(node.right)
        floor = _floor_division(left, right, schema)
        if floor is None:
            continue
        made = exp.Paren(this=exp.Var(this=floor))
        if node is tree:
            return made
        node.replace(made)
    return tree


def _floor_division(left: str, right: str, schema: pa.Schema) -> str | None:
    """SQL of the floor of left / right, where both are integers. DuckDB's own `//` truncates towards zero."""
    left, right = f"({left})", f"({right})"
    row = schema if len(schema) else pa.schema({"row": pa.bool_()})
    try:
        kinds = kernel.types(f"{left} AS l, {right} AS r, {left} // {right} AS q", row).types
    except QueryError:
        return None  # a parameter of a lambda, or a fault that binding reports better
    if not (pa.types.is_integer(kinds[0]) and pa.types.is_integer(kinds[1])):
        return None
    if pa.types.is_unsigned_integer(kinds[0]) and pa.types.is_unsigned_integer(kinds[2]):
        return f"{left} // {right}"
    # By a positive constant, the usual case, only a negative remainder says that truncation went up.
    if right.strip("()").isdigit():
        return f"{left} // {right} - CAST({left} % {right} < 0 AS TINYINT)"
    floor = f"{left} // {right} - CAST({left} % {right} <> 0 AND ({left} < 0) <> ({right} < 0) AS TINYINT)"
    return floor if pa.types.is_integer(kinds[2]) else f"CAST({floor} AS BIGINT)"


def _named(name: str, schema: pa.Schema, what: str) -> str:
    if name in schema.names:
        return name
    same = [known for known in schema.names if known.casefold() == name.casefold()]
    if len(same) == 1:
        return str(same[0])
    if same:
        raise QueryError(f"column {name!r} of the {what} is ambiguous", expected=f"one of {', '.join(same)}")
    raise QueryError(
        f"unknown column {name!r} in the {what}",
        expected=f"one of {', '.join(schema.names)}" if schema.names else "no columns: the stream has none",
        hint=did_you_mean(name, schema.names),
    )


def _underlined(text: str, error: SqlglotError) -> str:
    """The text with the place of a fault marked below it."""
    faults = getattr(error, "errors", None) or []
    if not faults or not faults[0].get("highlight"):
        return str(error).splitlines()[0]
    fault = faults[0]
    before = len((fault["start_context"] or "").splitlines()[-1]) if fault["start_context"] else 0
    line = text.splitlines()[max((fault["line"] or 1) - 1, 0)]
    said = fault["description"]
    said = "something is missing here" if said.startswith("Required keyword") else said
    return f"{said}\n    {line}\n    {' ' * before}{'^' * len(fault['highlight'])}"
