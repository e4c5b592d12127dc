"""The Map box: new attributes, computed from each tuple."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.expressions.bounds import Bounds, either, renamed
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.progression import Progression
from penstock.algebra.floors import Floors, lowest, named_before
from penstock.algebra.mark_ways import Along
from penstock.algebra.marks import FALLING, RISING, SIDES, Mark, Marks, only_end
from penstock.algebra.order import ANY, ARRIVAL
from penstock.algebra.temporal.properties import NOTHING, Properties

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class Map(Stateless):
    """SQuAl Map: every output attribute is an expression of the input tuple."""

    outputs: tuple[tuple[str, Expression], ...]
    times: tuple[str, ...] = ()
    """Outputs that boxes behind take for times: a tuple of which one is out of range is refused."""

    kind: ClassVar[str] = "map"
    page: ClassVar[str] = "boxes/map.md"
    keeps_count: ClassVar[bool] = True
    takes_temporal: ClassVar[bool] = True
    ERRORS: ClassVar[int] = 1

    @cached_property
    def ports(self) -> tuple[str, ...]:
        return ("", "errors") if self.risky else ("",)

    @cached_property
    def risky(self) -> frozenset[str]:
        """The outputs that make progress and may be out of range, though what they are computed from is not."""
        named = (*self.carried, *((mark.attribute, before, how) for mark, before, how in self.turned))
        return frozenset(name for name, _, how in named if how.may_leave_range)

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self._schema

    def temporal(self, port: int) -> bool:
        return port == 0 and self.inputs[0].temporal

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, e.type) for name, e in self.outputs])

    @cached_property
    def carried(self) -> tuple[tuple[str, str, Progression], ...]:
        """(output attribute, input attribute, how its marks are mapped) for every output that still progresses."""
        source = self.inputs[0]
        found = []
        for name, expression in self.outputs:
            for attribute in source.progressing:
                how = _progression(expression, attribute, source.schema)
                if how is not None and not how.result_falls:
                    found.append((name, attribute, how))
        return tuple(found)

    @cached_property
    def turned(self) -> tuple[tuple[Mark, Mark, Progression], ...]:
        """(mark of the output, mark of the input, how it is mapped) for outputs that decrease, or stem from such."""
        source = self.inputs[0]
        known = [*map(Mark, source.progressing), *(Mark(a, FALLING) for a in source.shape.falling)]
        found = []
        for name, expression in self.outputs:
            for mark in known:
                falls = mark.part == FALLING
                how = _progression(expression, mark.attribute, source.schema, falls=falls)
                if how is not None and (falls or how.result_falls):
                    found.append((Mark(name, FALLING if how.result_falls else RISING), mark, how))
        return tuple(found)

    def properties(self, port: int) -> Properties:
        known, before = self.inputs[0].properties, self.inputs[0].progressing[:1]
        if port == self.ERRORS or not before:
            return NOTHING
        copied = {e.column for _, e in self.outputs if e.column is not None}
        timed = self.carried[:1]
        same_time = any(dict(self.outputs)[name].column == attribute for name, attribute, _ in timed)
        return Properties(
            insert_only=known.insert_only,
            ordered=known.ordered and timed != () and timed[0][1] == before[0],
            strict=known.strict and same_time and timed[0][1] == before[0],
            unique=known.unique and same_time and copied >= {*self.inputs[0].schema.names},
        )

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.ERRORS:
            return only_end(inputs)
        stated = inputs[0]
        single = ((Mark(name), Mark(attribute), how) for name, attribute, how in self.carried)
        jointly = (
            (Mark(name, side), mark, how)
            for name, attribute, how in self.carried
            for side in SIDES
            if stated.has(mark := Mark(attribute, side))
        )
        computed = (*single, *self.turned, *jointly)
        return Marks.made(((mark, how.apply(stated.of(before))) for mark, before, how in computed), ended=stated.ended)

    def computed(self, needed: Collection[str]) -> tuple[tuple[str, Expression], ...]:
        """The outputs that are computed when these are needed: one at least, as a table without columns has no rows."""
        wanted = {*needed, *self.times}
        return tuple(output for output in self.outputs if output[0] in wanted) or self.outputs[:1]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(c for _, e in self.computed(port_columns[0]) for c in e.columns),)

    @property
    def keeps_errors(self) -> bool:
        return bool(self.times)

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        return frozenset(column for name, e in self.outputs if name in names for column in e.columns)

    def guarded(self, times: Collection[str]) -> Map:
        found = tuple(name for name, _ in self.outputs if name in self.risky and name in times)
        return self if found == self.times else replace(self, times=found)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        names = {e.columns[0]: out for out, e in self.outputs if e.column is not None}
        return tuple(names[k] for k in keys) if all(k in names for k in keys) else None

    def order_before(self, slot: int, order: str) -> str:
        if any(mark == Mark(order) for mark, _, _ in self.turned):
            # It stems from an attribute that decreases: a sort on another one would lose sight of that.
            return ARRIVAL
        return next((attribute for name, attribute, _ in self.carried if name == order), ANY)

    @cached_property
    def untouched(self) -> dict[str, str]:
        """The attributes of the input that leave as they came, by what they are called then."""
        return {name: e.column for name, e in self.outputs if e.column is not None}

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        first, *others = behind
        return either((renamed(first, self.untouched), *others))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        first, *others = behind
        return lowest((named_before(first, self.untouched), *others))

    def mark_way(self, on: str, by: Collection[str]) -> Along | None:
        known = dict(self.outputs)
        time = next((attribute for name, attribute, _ in self.carried if name == on), None)
        names = {c: name for name in reversed(list(by)) if (c := known[name].column) is not None}
        return None if time is None else Along(time, names, known)

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.map.operator import MapOp

        return MapOp(self, needed)

    def describe(self) -> str:
        return ", ".join(name if e.text == name else f"{name}={e.text}" for name, e in self.outputs)


def _progression(
    expression: Expression, attribute: str, schema: pa.Schema, *, falls: bool = False
) -> Progression | None:
    """Whether an expression progresses. It is found out when the network is built: who runs it loads no parser."""
    from penstock.algebra.expressions.monotone import progression

    return progression(expression, attribute, schema, falls=falls)
