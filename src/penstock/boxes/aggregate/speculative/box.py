"""The Aggregate box whose results leave early, and are revised: what leaves is a temporal stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import PaceUse
from penstock.algebra.joint_punctuation import JointUse
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.temporal.elements import COLUMNS, SYNC, element_schema
from penstock.algebra.temporal.properties import Properties
from penstock.boxes.aggregate.box import Aggregate

if TYPE_CHECKING:
    from penstock.operators.protocol import Holder, Slots


@dataclass(frozen=True)
class SpeculativeAggregate(Aggregate):
    """An event for every window and group that holds tuples: valid while the window lasts, revised while it is open."""

    kind: ClassVar[str] = "speculative aggregate"

    def schema(self, port: int) -> pa.Schema:
        return element_schema([f for f in self.results if f.name != self.on], self.results.field(self.on).type)

    def temporal(self, port: int) -> bool:
        return True

    def properties(self, port: int) -> Properties:
        # The group is part of the payload, and a group has one event for each window.
        return Properties(unique=True)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # Whatever is said of a window has its start as `sync`, so this is the start of the first that can still change.
        return Marks({SYNC: self.window.output_mark(inputs[0].of(self.on))}, ended=all_ended(inputs))

    @property
    def pair_use(self) -> JointUse | None:
        # Results leave before any punctuation, so that finer punctuation would make nothing leave sooner.
        return None

    @property
    def keeps_sets(self) -> bool:
        # Results of single groups are said anew, so their values are held row by row.
        return False

    @property
    def pace_use(self) -> PaceUse | None:
        return None

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        times = {self.on} if not set(COLUMNS).isdisjoint(names) else set()
        return frozenset(times | {name for name in self.by if name in names})

    def leaves_in_order(self, on: str) -> bool:
        return False

    def details(self, needed: Collection[str]) -> Sequence[str]:
        low, *_ = super().details(needed)
        high = (
            f"high level: early results leave in every batch; they are final when {self.on} has passed a window's end"
        )
        return low, high

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.aggregate.speculative.holder import SpeculativeAggregateOp

        return SpeculativeAggregateOp(self, slots)

    def describe(self) -> str:
        return f"{super().describe()}, early results"
