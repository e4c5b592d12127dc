"""Boxes with an order specification: what they do depends on the order in which tuples arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.order import ARRIVAL, Order

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry


@dataclass(frozen=True)
class OnArrival(Stateful):
    """Takes tuples as they arrive, in the groups of its order, and passes them on as they are."""

    order: Order

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.order.by

    @property
    def partition(self) -> tuple[str, ...]:
        return self.order.by

    def time_of(self, slot: int) -> str:
        return self.order.on

    def order_before(self, slot: int, order: str) -> str:
        # It is defined on arrival, which a sort would destroy.
        return ARRIVAL

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardOp

        return ForwardOp(self, needed)
