"""The join of two temporal streams: pairs of events that are valid at the same time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.expressions.pairing import Pairing
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, all_ended, only_end
from penstock.algebra.temporal.elements import COLUMNS, SYNC, element_schema
from penstock.algebra.temporal.properties import Properties

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class TemporalJoin(Stateful):
    """Of every two events whose payloads satisfy the predicate, an event that is valid while both are."""

    pairing: Pairing
    """Of the payloads."""

    kind: ClassVar[str] = "temporal join"
    page: ClassVar[str] = "boxes/join.md"
    takes_temporal: ClassVar[bool] = True
    passes_at_once: ClassVar[bool] = True
    SIDES: ClassVar[tuple[str, str]] = ("left", "right")
    ERRORS: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "errors")

    @property
    def time(self) -> pa.DataType:
        """The type of the times of both sides."""
        return self.inputs[0].schema.field(SYNC).type

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return element_schema(self.pairing.schema, self.time)

    def temporal(self, port: int) -> bool:
        return port != self.ERRORS

    def properties(self, port: int) -> Properties:
        # Events of one payload that begin one after the other may all be paired with one that begins later.
        return Properties(insert_only=port == 0 and all(side.properties.insert_only for side in self.inputs))

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.ERRORS:
            return only_end(inputs)
        return Marks({SYNC: min(marks.of(SYNC) for marks in inputs)}, ended=all_ended(inputs))

    @property
    def keeps_errors(self) -> bool:
        return True

    @cached_property
    def by(self) -> tuple[tuple[str, str], ...]:
        """(left column, right column) by which events find their bucket."""
        found: list[tuple[str, str]] = []
        for left, right in self.pairing.equalities:
            # A column that is compared twice hashes once: fewer keys still bring partners together.
            if all(left != a and right != b for a, b in found):
                found.append((left, right))
        return tuple(found)

    def keys(self, slot: int) -> tuple[str, ...]:
        return tuple(pair[slot] for pair in self.by)

    def slot_of(self, part: str) -> int:
        return self.SIDES.index(part)

    @property
    def partition(self) -> tuple[str, ...]:
        return tuple(self.pairing.name(0, left) for left, _ in self.by)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # Which event is adjusted, the whole payload says.
        left, right = (frozenset((*side.schema.names, SEQ)) for side in self.inputs)
        return left, right

    def time_of(self, slot: int) -> str:
        return SYNC

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        times = set() if set(COLUMNS).isdisjoint(names) else set(COLUMNS)
        return frozenset(times | {c for name, side, c in self.pairing.columns if side == slot and name in names})

    def details(self, needed: Collection[str]) -> Sequence[str]:
        return (f"keeps events until {SYNC} of both streams has passed their end",)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.temporal_join.entry import TemporalJoinEntryOp

        return TemporalJoinEntryOp(self)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.temporal_join.holder import TemporalJoinOp

        return TemporalJoinOp(self, slots)

    def describe(self) -> str:
        predicate = self.pairing.predicate
        return f"{predicate.text if predicate is not None else 'all'}, while both are valid"
