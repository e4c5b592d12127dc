"""Filters side by side as one box: the optimizer makes it of filters that never fail.

A tuple passes if all predicates are true of it; they are asked one after the other, and each only of the tuples that
are left. What each of them takes, lets through and costs is told of it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.mark_ways import Along
from penstock.algebra.marks import Marks

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class CombinedFilter(Stateless):
    """Several filters with one output each."""

    parts: tuple[tuple[str, Expression], ...]
    """The predicate of each filter, by the name of the box that its work is told of."""

    kind: ClassVar[str] = "filter"
    page: ClassVar[str] = "optimizer.md"

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        used = frozenset(column for _, predicate in self.parts for column in predicate.columns)
        return (used.union(*port_columns),)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        return keys

    @property
    def step(self) -> int | None:
        return None

    def order_before(self, slot: int, order: str) -> str:
        return order

    def mark_way(self, on: str, by: Collection[str]) -> Along:
        return Along(on, {name: name for name in by})

    def operator(self, needed: Collection[str], rows: pa.Table | None = None) -> Operator:
        from penstock.boxes.filter.operator import CombinedFilterOp

        return CombinedFilterOp(self, needed)

    def describe(self) -> str:
        return ", then ".join(predicate.text for _, predicate in self.parts)
