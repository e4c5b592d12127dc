"""Predicates over pairs of tuples, one of each of two streams, and the schema of the pairs.

In a predicate the two sides are named, `l` and `r` unless the user says otherwise; inside, a column of a side goes by
the name `l.x`, as one word. The columns of a pair keep their names; those that collide come out as `l_x` and `r_x`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from penstock.algebra.expressions.expression import Expression
from penstock.errors import QueryError

SIDES: Final = ("l", "r")


@dataclass(frozen=True)
class Pairing:
    """Two schemas side by side, and a predicate over pairs of their tuples."""

    left: pa.Schema
    right: pa.Schema
    names: tuple[str, str]
    predicate: Expression | None
    """Over the columns `l.x` and `r.x`; None for all pairs."""
    equalities: tuple[tuple[str, str], ...]
    """(left column, right column) of the conjuncts that compare two plain columns of the same type for equality, in
    their order: what tuples can be partitioned by. Floating numbers are left out: equal ones can differ in bits."""
    equated: tuple[tuple[str, str], ...] = ()
    """The same for columns of any types."""
    only_equal: bool = False
    """Whether the predicate says nothing but `equalities`."""

    @cached_property
    def columns(self) -> tuple[tuple[str, int, str], ...]:
        """(name in the pair, side, column): left ones first."""
        both = set(self.left.names) & set(self.right.names)
        found = [
            (f"{self.names[side]}_{column}" if column in both else column, side, column)
            for side, schema in enumerate((self.left, self.right))
            for column in schema.names
        ]
        repeated = [name for name, _, _ in found if [n for n, _, _ in found].count(name) > 1]
        if repeated:
            raise QueryError(
                f"two columns of the pairs would be named '{repeated[0]}'",
                hint="rename one with map(), or the sides with names=",
            )
        return tuple(found)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the pairs; every column may be NULL, where a side found no partner."""
        sides = (self.left, self.right)
        return pa.schema([pa.field(name, sides[side].field(column).type) for name, side, column in self.columns])

    def name(self, side: int, column: str) -> str:
        """What a column of a side is called in the pair."""
        return next(name for name, s, c in self.columns if (s, c) == (side, column))

    def needed(self, columns: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """The columns of each side that these columns of the pairs, and the predicate, are made of."""
        wanted = set(columns)
        found = [{column for name, s, column in self.columns if s == side and name in wanted} for side in (0, 1)]
        for name in self.predicate.columns if self.predicate is not None else ():
            side, column = self.side_of(name)
            found[side].add(column)
        return frozenset(found[0]), frozenset(found[1])

    def side_of(self, inside: str) -> tuple[int, str]:
        """Side and column of a name such as `l.x`."""
        side = 0 if inside.startswith(f"{self.names[0]}.") else 1
        return side, inside[len(self.names[side]) + 1 :]

    def inside(self, side: int, column: str) -> str:
        """The name of a column inside of predicates."""
        return f"{self.names[side]}.{column}"
