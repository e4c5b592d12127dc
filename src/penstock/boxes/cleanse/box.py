"""The Cleanse and Merge boxes: a sort that punctuation releases, of one stream or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.floors import Floors, named_before
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, least
from penstock.algebra.temporal.properties import Properties
from penstock.boxes.requirements import refuse_different

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Cleanse(Stateful):
    """A sort that punctuation unblocks (oop.md 5.5): tuples leave in order of `on` when the mark has reached them."""

    on: str
    by: tuple[str, ...] = ()

    kind: ClassVar[str] = "cleanse"
    page: ClassVar[str] = "boxes/cleanse.md"

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    @property
    def shared(self) -> tuple[str, ...]:
        """The attributes that all inputs make progress on, `on` first."""
        common = set.intersection(*(set(i.progressing) for i in self.inputs)) - {self.on}
        return (self.on, *(a for a in self.inputs[0].progressing if a in common))

    def properties(self, port: int) -> Properties:
        alone = len(self.inputs) == 1
        known = self.inputs[0].properties
        return Properties(insert_only=True, ordered=True, strict=alone and known.strict, unique=alone and known.unique)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # Of attributes other than `on`, only the holder knows what still waits.
        stated = least(inputs)
        others = {attribute: stated.end for attribute in stated.rising if attribute != self.on}
        return Marks({self.on: stated.of(self.on), **others}, ended=stated.ended)

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        # What it holds keeps the marks of attributes other than `on` back, so nothing is left out by those.
        return named_before(behind[0], {self.on: self.on})

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        needed = port_columns[0] | {SEQ, *self.by, *self.shared}
        return tuple(needed for _ in self.inputs)

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.by

    def slot_of(self, part: str) -> int:
        return int(part)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.by

    def time_of(self, slot: int) -> str:
        return self.on

    def leaves_in_order(self, on: str) -> bool:
        return self.on == on and not self.by

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardOp

        return ForwardOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.cleanse.holder import CleanseOp

        return CleanseOp(self, slots, needed)

    def describe(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"on {self.on}{by}"


@dataclass(frozen=True)
class Merge(Cleanse):
    """The order-preserving union: what Cleanse does, over the tuples of several inputs of one schema."""

    kind: ClassVar[str] = "merge"
    page: ClassVar[str] = "boxes/cleanse.md"

    def __post_init__(self) -> None:
        refuse_different(self.inputs, "merge")

    def describe(self) -> str:
        return f"{' + '.join(i.name for i in self.inputs)} {super().describe()}"
