"""The AsOpenClose box: a temporal stream as opens and closes, ordinary tuples (lmerge.md III-A, example 3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import COLUMNS, SYNC, VS, payload_names
from penstock.algebra.temporal.open_close import open_close_schema

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class AsOpenClose(Stateless):
    """An insert opens an event, and closes it if it has an end; an adjust closes it once more."""

    kind: ClassVar[str] = "as_open_close"
    page: ClassVar[str] = "temporal-streams.md"
    takes_temporal: ClassVar[bool] = True

    @property
    def payload(self) -> tuple[str, ...]:
        return tuple(payload_names(self.inputs[0].schema.names))

    def schema(self, port: int) -> pa.Schema:
        elements = self.inputs[0].schema
        return open_close_schema((elements.field(name) for name in self.payload), elements.field(VS).type)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return Marks({SYNC: inputs[0].of(SYNC)}, ended=inputs[0].ended)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((*COLUMNS, *(port_columns[0] & {*self.payload}))),)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        return keys if {*keys} <= {*self.payload} else None

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.as_open_close.operator import AsOpenCloseOp

        return AsOpenCloseOp(self, needed)

    def describe(self) -> str:
        return "opens and closes of events"
