"""The Dedupe box: the first of all tuples that agree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.floors import Floors, named_before
from penstock.algebra.hidden import SEQ
from penstock.algebra.mark_ways import Along
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.properties import Properties

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Dedupe(Stateful):
    """Duplicate elimination, order-agnostic: the first of all tuples that agree in `on` and `by` (oop.md 5.4)."""

    on: str
    by: tuple[str, ...] = ()

    kind: ClassVar[str] = "dedupe"
    page: ClassVar[str] = "boxes/dedupe.md"
    passes_at_once: ClassVar[bool] = True

    @property
    def identity(self) -> tuple[str, ...]:
        """The attributes in which duplicates agree."""
        return (self.on, *self.by)

    @property
    def remembers(self) -> bool:
        return True

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def properties(self, port: int) -> Properties:
        return replace(self.inputs[0].properties, insert_only=True, unique=True, deterministic=False)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0]

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        # Duplicates agree in `on`: where one is of no use, all are. Of other attributes the first of them decides.
        return named_before(behind[0], {self.on: self.on})

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (port_columns[0] | {SEQ, *self.identity},)

    def keys(self, slot: int) -> tuple[str, ...]:
        # Duplicates agree in all of `identity`, so any part of it brings them together: without `on`, boxes that
        # group by the same attributes need no other exchange.
        return self.by or (self.on,)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.keys(0)

    def time_of(self, slot: int) -> str:
        return self.on

    def mark_way(self, on: str, by: Collection[str]) -> Along:
        return Along(on, {name: name for name in by})

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.dedupe.workers import DedupeEntryOp

        return DedupeEntryOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.dedupe.workers import DedupeOp

        return DedupeOp(self, slots)

    def describe(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"on {self.on}{by}"
