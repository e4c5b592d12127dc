"""The AsFacts box: a temporal stream as an ordinary one, of events that can no longer change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import COLUMNS, VE, VS, payload_names
from penstock.boxes.by_payload import ByPayload

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class AsFacts(ByPayload):
    """Every event leaves once, with its payload, start and end: when it is fully frozen (lmerge.md III-C)."""

    kind: ClassVar[str] = "as_facts"
    takes_temporal: ClassVar[bool] = True

    @property
    def payload(self) -> tuple[str, ...]:
        return tuple(payload_names(self.inputs[0].schema.names))

    def schema(self, port: int) -> pa.Schema:
        elements = self.inputs[0].schema
        return pa.schema([elements.field(name) for name in (VS, VE, *self.payload)])

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # An event that has not ended holds the starts back: only the holder knows of those.
        return Marks({VS: inputs[0].end}, ended=inputs[0].ended)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((*COLUMNS, *self.payload)),)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardWhole

        return ForwardWhole((*COLUMNS, *self.payload))

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.as_facts.workers import AsFactsOp

        return AsFactsOp(self, slots, needed)

    def describe(self) -> str:
        return "events that are fully frozen"
