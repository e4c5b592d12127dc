"""The Union box: several streams of one schema as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.floors import Floors
from penstock.algebra.mark_ways import Branching, Together
from penstock.algebra.marks import Marks, least
from penstock.algebra.temporal.properties import Properties
from penstock.boxes.requirements import refuse_different

if TYPE_CHECKING:
    from penstock.algebra.expressions.bounds import Bounds
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class Union(Stateless):
    """SQuAl Union, order-agnostic: tuples pass through, progress is the minimum over the inputs (oop.md A.2.1)."""

    kind: ClassVar[str] = "union"
    page: ClassVar[str] = "boxes/union.md"
    keeps_count: ClassVar[bool] = True
    takes_temporal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        refuse_different(self.inputs, "union", self.name)

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def temporal(self, port: int) -> bool:
        return any(each.temporal for each in self.inputs)

    def properties(self, port: int) -> Properties:
        return Properties(insert_only=all(i.properties.insert_only for i in self.inputs))

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return least(inputs)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return tuple(port_columns[0] for _ in self.inputs)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        return keys

    @property
    def step(self) -> int | None:
        return None

    def order_before(self, slot: int, order: str) -> str:
        return order

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        return behind[0]

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        return behind[0]

    def mark_way(self, on: str, by: Collection[str]) -> Together:
        return Together(tuple(Branching({name: name for name in by}, on) for _ in self.inputs), parts=True)

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.union.operator import UnionOp

        return UnionOp(self, needed)

    def describe(self) -> str:
        return " + ".join(i.name for i in self.inputs)
