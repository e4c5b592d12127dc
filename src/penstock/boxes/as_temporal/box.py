"""The AsTemporal box: every tuple of an ordinary stream becomes an event, which is inserted once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.floors import Floors, lowest, named_before
from penstock.algebra.marks import Mark, Marks, only_end
from penstock.algebra.temporal.elements import SYNC, VE, VS, element_schema
from penstock.algebra.temporal.properties import NOTHING, Properties
from penstock.algebra.ticks import span_text

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class AsTemporal(Stateless):
    """An event starts at an attribute that progresses, and ends where an expression says, after a length, or never."""

    start: str
    end: Expression | int | None = None
    """Ticks are a length."""

    kind: ClassVar[str] = "as_temporal"
    page: ClassVar[str] = "temporal-streams.md"
    ERRORS: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("",) if self.end is None else ("", "errors")

    @property
    def time_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.start).type

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that the lifetime is made of."""
        return tuple(dict.fromkeys((self.start, *(self.end.columns if isinstance(self.end, Expression) else ()))))

    @cached_property
    def payload(self) -> tuple[str, ...]:
        """All columns but those that are the start and the end."""
        gone = {self.start, self.end.column if isinstance(self.end, Expression) else None}
        return tuple(name for name in self.inputs[0].schema.names if name not in gone)

    def schema(self, port: int) -> pa.Schema:
        if port == self.ERRORS:
            return REJECT_SCHEMA
        return element_schema((self.inputs[0].schema.field(name) for name in self.payload), self.time_type)

    def temporal(self, port: int) -> bool:
        return port == 0

    def properties(self, port: int) -> Properties:
        if port == self.ERRORS:
            return NOTHING
        known = self.inputs[0].properties
        # What is known of the order is known of the attribute that the stream makes progress on.
        only = self.inputs[0].progressing == (self.start,)
        return Properties(True, known.ordered and only, known.strict and only, known.unique, known.deterministic)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.ERRORS:
            return only_end(inputs)
        return Marks.made([(Mark(SYNC), inputs[0].of(self.start))], ended=inputs[0].ended)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset((*self.used, *(port_columns[0] & {*self.payload}))),)

    def time_of(self, slot: int) -> str:
        return self.start

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        made = {name: (name,) for name in self.payload} | {SYNC: (self.start,), VS: (self.start,), VE: self.used}
        return frozenset(column for name in names for column in made.get(name, ()))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        first, *others = behind
        return lowest((named_before(first, {SYNC: self.start}), *others))

    @property
    def keeps_errors(self) -> bool:
        return self.end is not None

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        names = {name: name for name in self.payload} | {self.start: VS}
        return tuple(names[key] for key in keys) if all(key in names for key in keys) else None

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.as_temporal.operator import AsTemporalOp

        return AsTemporalOp(self, needed)

    def describe(self) -> str:
        if self.end is None:
            return f"from {self.start} on"
        if isinstance(self.end, Expression):
            return f"from {self.start} to {self.end.text}"
        return f"from {self.start}, for {span_text(self.end, self.time_type)}"
