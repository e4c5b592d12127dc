"""Filters side by side as one box: the optimizer makes it of filters that never fail.

A tuple passes if all predicates are true of it; they are asked one after the other, and each only of the tuples that
are left. What each of them takes, lets through and costs is told of it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from penstock.algebra.expressions.bounds import Bounds, both
from penstock.algebra.expressions.expression import Expression
from penstock.boxes.filter.box import Sieve

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class CombinedFilter(Sieve):
    """Several filters with one output each."""

    parts: tuple[tuple[str, Expression], ...]
    """The predicate of each filter, by the name of the box that its work is told of."""

    page: ClassVar[str] = "optimizer.md"

    @property
    def several(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parts)

    @property
    def asked(self) -> tuple[Expression, ...]:
        return tuple(predicate for _, predicate in self.parts)

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        return reduce(both, self.bounds_asked(), behind[0])

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.filter.operator import CombinedFilterOp

        return CombinedFilterOp(self, needed)

    def describe(self) -> str:
        return ", then ".join(predicate.text for _, predicate in self.parts)
