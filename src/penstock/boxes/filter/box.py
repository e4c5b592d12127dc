"""The Filter box: tuples routed by predicates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.expressions.bounds import Bounds, both, either
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.floors import Floors, lowest
from penstock.algebra.mark_ways import Along
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.properties import Properties

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class Sieve(Stateless):
    """Lets tuples through as they are, or not: what all filters have in common."""

    kind: ClassVar[str] = "filter"
    takes_temporal: ClassVar[bool] = True

    @property
    @abstractmethod
    def asked(self) -> tuple[Expression, ...]:
        """All predicates."""

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def temporal(self, port: int) -> bool:
        return self.inputs[0].temporal

    def properties(self, port: int) -> Properties:
        return self.inputs[0].properties

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        used = frozenset(column for predicate in self.asked for column in predicate.columns)
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

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        return lowest(behind)

    def bounds_asked(self) -> list[Bounds | None]:
        """What each predicate asks of single columns."""
        from penstock.algebra.expressions.predicate_bounds import bounds_of

        return [bounds_of(predicate, self.inputs[0].schema) for predicate in self.asked]


@dataclass(frozen=True)
class Filter(Sieve):
    """SQuAl Filter: m predicates, m + 1 outputs; a tuple leaves by the first one it satisfies, or by the last port."""

    predicates: tuple[Expression, ...]
    rest: bool = True
    """Whether the (m+1)st output exists; `where` has only the first."""

    page: ClassVar[str] = "boxes/filter.md"

    @property
    def ports(self) -> tuple[str, ...]:
        if not self.rest:
            return tuple(str(i + 1) for i in range(len(self.predicates))) if len(self.predicates) > 1 else ("",)
        return tuple(str(i + 1) for i in range(len(self.predicates) + 1))

    @property
    def asked(self) -> tuple[Expression, ...]:
        return self.predicates

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        asked = (*self.bounds_asked(), *((None,) if self.rest else ()))
        return either(both(own, other) for own, other in zip(asked, behind, strict=True))

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.filter.operator import FilterOp

        # Of a box with several outputs nobody says what is needed of each.
        return FilterOp(self, needed if len(self.ports) == 1 else self.inputs[0].schema.names)

    def describe(self) -> str:
        return " | ".join(p.text for p in self.predicates)
