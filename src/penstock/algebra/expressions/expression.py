"""Expressions: SQL scalars over the attributes of one stream, bound to its schema (`binding.py`), and their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.overflow import explained, overflows
from penstock.errors import QueryError


@dataclass(frozen=True)
class Expression:
    """A scalar over the tuples of one schema."""

    text: str
    """As the user wrote it."""
    sql: str
    """Normalised DuckDB SQL, identifiers quoted."""
    type: pa.DataType
    columns: tuple[str, ...]
    """The input columns it uses, in order of first use."""

    @property
    def column(self) -> str | None:
        """The column that this expression is, if it is a bare column."""
        bare = len(self.columns) == 1 and self.sql == kernel.quote(self.columns[0])
        return self.columns[0] if bare else None


def evaluate(expressions: Sequence[tuple[str, Expression]], table: pa.Table) -> pa.Table:
    """One output column per expression, in row order; bare columns pass through untouched."""
    computed = [bound for _, bound in expressions if bound.column is None]
    if computed:
        items = ", ".join(f"{bound.sql} AS e{i}" for i, bound in enumerate(computed))
        try:
            found = iter(_over(items, computed, table).columns)
        except QueryError as error:
            raise _failing([(f"attribute '{name}'", e) for name, e in expressions], table, error) from error
    else:
        found = iter(())
    columns = [_in_type(next(found), e.type) if e.column is None else table[e.column] for _, e in expressions]
    return pa.table(columns, names=[name for name, _ in expressions])


def mask(predicates: Sequence[Expression], table: pa.Table) -> pa.ChunkedArray:
    """For every row the index of the first predicate that is true of it, or their number: an int32 column.

    NULL is not true.
    """
    if not predicates:
        return pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)])
    cases = " ".join(f"WHEN {bound.sql} THEN {i}" for i, bound in enumerate(predicates))
    try:
        return _over(f"CAST(CASE {cases} ELSE {len(predicates)} END AS INTEGER) AS port", predicates, table)["port"]
    except QueryError as error:
        raise _failing([("predicate", bound) for bound in predicates], table, error) from error


def _failing(expressions: Sequence[tuple[str, Expression]], table: pa.Table, error: QueryError) -> QueryError:
    """The error of the first of several expressions that a value does not fit into."""
    for what, bound in expressions if overflows(error) else ():
        try:
            _over(f"{bound.sql} AS value", (bound,), table)
        except QueryError as own:
            return explained(own, f"the {what}", bound.text)
    return error


def _in_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The kernel gives all instants as UTC: a column of the same ones in the zone that the expression has."""
    timed = pa.types.is_nested(kind) or pa.types.is_timestamp(kind)
    return column.cast(kind) if timed and column.type != kind else column


def _over(items: str, expressions: Iterable[Expression], table: pa.Table) -> pa.Table:
    used = list(dict.fromkeys(name for bound in expressions for name in bound.columns))
    # A query needs the number of rows even where it needs no column of them.
    tuples = table.select(used) if used else pa.table({"row": pa.nulls(table.num_rows, pa.bool_())})
    return kernel.run(f"SELECT {items} FROM {kernel.TUPLES}", **{kernel.TUPLES: tuples})
