"""The Join box: pairs of tuples of two streams that are near each other in time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.expressions.pairing import Pairing
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.mark_ways import Branching, Together
from penstock.algebra.marks import NO_PAIRS, Marks, Ticks, all_ended
from penstock.algebra.ticks import END, span_text, within
from penstock.boxes.join.band import Band
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots

HOW: Final = ("inner", "left", "right", "full", "semi", "anti")
PROGRESS: Final = ("pair", "left", "right", "min", "max")
ONE_SIDED: Final = ("semi", "anti")
"""Joins whose tuples are those of the left stream."""

SEGMENT: Final = "#segment"
"""The stretch of time by which tuples find their bucket where the predicate equates nothing."""


@dataclass(frozen=True)
class Join(Stateful):
    """SQuAl Join with a band on the progressing attributes, order-agnostic (aurora.md 5.2.2.3, oop.md 5.3)."""

    pairing: Pairing
    on: tuple[str, str]
    band: Band
    how: str = "inner"
    stated: str = "pair"
    """Of which attributes of the pairs progress is stated."""

    kind: ClassVar[str] = "join"
    page: ClassVar[str] = "boxes/join.md"
    begins_pairs: ClassVar[bool] = True
    passes_at_once: ClassVar[bool] = True
    sorts_always: ClassVar[bool] = True
    SIDES: ClassVar[tuple[str, str]] = ("left", "right")

    def __post_init__(self) -> None:
        possible = [p for p in PROGRESS if self._can_state(p)]
        if self.stated not in possible:
            article = "an" if self.how == "anti" else "a"
            raise QueryError(
                f"the results of {article} {self.how} join make no progress={self.stated!r}",
                expected=f"one of {', '.join(possible)}",
                hint="an attribute that is NULL or absent in some results says nothing of those that follow",
            )
        _ = self._schema

    def _can_state(self, progress: str) -> bool:
        if progress in ("left", "right"):
            return self.SIDES.index(progress) in self.certain
        return progress == "pair" or self.how not in ONE_SIDED

    @property
    def certain(self) -> tuple[int, ...]:
        """The sides that every result has a tuple of."""
        return {"inner": (0, 1), "right": (1,), "full": ()}.get(self.how, (0,))

    @property
    def preserved(self) -> tuple[int, ...]:
        """The sides whose tuples leave, each once, when no partner can come any more."""
        return {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}.get(self.how, ())

    @property
    def joint(self) -> bool:
        """Whether joint punctuation can be stated: every result is a pair, and shows both of its times."""
        return self.how == "inner" and self.stated == "pair"

    def kind_of(self, side: int) -> pa.DataType:
        """The type of a side's progressing attribute."""
        return (self.pairing.left, self.pairing.right)[side].field(self.on[side]).type

    @cached_property
    def columns(self) -> tuple[tuple[str, int, str], ...]:
        """(name, side, column of that side) of the results, but for the added attribute."""
        if self.how in ONE_SIDED:
            return tuple((column, 0, column) for column in self.pairing.left.names)
        return self.pairing.columns

    @cached_property
    def added(self) -> pa.Field | None:
        """The attribute with the smaller or greater of the two times, where progress is stated of that."""
        if self.stated not in ("min", "max"):
            return None
        kinds = self.kind_of(0), self.kind_of(1)
        taken = {name for name, _, _ in self.columns}
        shared = self.on[0] if self.on[0] == self.on[1] else ""
        name = shared if shared and shared not in taken else f"{self.stated}_{self.on[0]}_{self.on[1]}"
        if name in taken:
            raise QueryError(f"there is already a column '{name}' in the pairs", hint="rename it with map()")
        return pa.field(name, kinds[0] if kinds[0] == kinds[1] else pa.int64())

    def schema(self, port: int) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        sides = self.pairing.left, self.pairing.right
        fields = [pa.field(name, sides[side].field(column).type) for name, side, column in self.columns]
        return pa.schema(fields if self.added is None else [*fields, self.added])

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        left, right = (stated.of(on) for stated, on in zip(inputs, self.on, strict=True))
        own = self.band.left_mark(left, right), self.band.right_mark(left, right)
        if self.added is not None:
            pairs = self.band.least_mark if self.stated == "min" else self.band.greatest_mark
            # A tuple that stays alone has its own time only.
            mark = min(pairs(left, right), *(own[side] for side in self.preserved), END)
            return Marks({self.added.name: within(mark, self.added.type)}, ended=all_ended(inputs))
        stated = self.certain if self.stated == "pair" else (self.SIDES.index(self.stated),)
        found = {
            name: within(own[side], self.kind_of(side))
            for name, side, column in self.columns
            if column == self.on[side] and side in stated
        }
        return Marks(found, joint=self._pairs(left, right) if self.joint else NO_PAIRS, ended=all_ended(inputs))

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        if (floors := behind[0]) is None:
            return None
        # A tuple is of use if it can be in a result of use; or if it keeps its partner from staying alone in one.
        found = [
            floors[name] if side == slot else self.band.first_partner(slot, floors[name])
            for name, side, column in self.columns
            if column == self.on[side] and side in self.certain and name in floors
        ]
        if self.added is not None and self.added.name in floors:
            floor = floors[self.added.name]
            alone = self.stated == "max" or 1 - slot in self.preserved
            found.append(min(floor, self.band.first_partner(slot, floor)) if alone else floor)
        return {self.on[slot]: max(found)} if found else NO_FLOORS

    def _pairs(self, *marks: int) -> tuple[Ticks, Ticks]:
        """Joint marks, of the columns that show the times of either side."""
        left, right = (
            {name: mark for name, of, column in self.columns if of == side and column == self.on[side]}
            for side, mark in enumerate(marks)
        )
        return left, right

    def shifts(self, time: str) -> tuple[int, int]:
        """What is added to the marks of each side to make them marks of a time of the pairs, as `progress` does."""
        before, after = self.band.before, self.band.after
        if self.added is not None and time == self.added.name:
            either = max if self.stated == "min" else min
            return -either(0, before), -either(0, after)
        side = next(side for name, side, _ in self.columns if name == time)
        return (0, -after) if side == 0 else (-before, 0)

    @cached_property
    def by(self) -> tuple[tuple[str, str], ...]:
        """(left column, right column) by which tuples find their bucket."""
        equal = self.pairing.equalities
        found: list[tuple[str, str]] = []
        for left, right in equal:
            # A column that is compared twice hashes once: fewer keys still bring partners together.
            if (left, right) != self.on and all(left != a and right != b for a, b in found):
                found.append((left, right))
        same_time = self.on in equal or (self.band == Band(0, 0) and self.kind_of(0) == self.kind_of(1))
        return tuple(found) or ((self.on,) if same_time else ())

    @property
    def home(self) -> int | None:
        """Without keys: the side whose tuples live in the segment of their own time; those of the other side are in
        every segment where they can meet it. None if there are keys, and for a full join, where both sides may have
        to leave alone, and one place must know."""
        if self.by or self.how == "full":
            return None
        return 1 if self.how == "right" else 0

    @property
    def segment_ticks(self) -> int:
        """The length of a segment: with twice the band, a tuple is in one or two."""
        return max(1, 2 * self.band.width)

    def keys(self, slot: int) -> tuple[str, ...]:
        if self.home is not None:
            return (SEGMENT,)
        return tuple(pair[slot] for pair in self.by)

    def slot_of(self, part: str) -> int:
        return self.SIDES.index(part)

    @property
    def partition(self) -> tuple[str, ...] | None:
        if self.home is not None or (self.by and self.how == "full"):
            return None
        side = 1 if self.how == "right" else 0
        names = {column: name for name, s, column in self.columns if s == side}
        return tuple(names[pair[side]] for pair in self.by)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        wanted = port_columns[0]
        if self.how in ONE_SIDED:
            predicate = self.pairing.needed(())
            return predicate[0] | (wanted & {*self.pairing.left.names}) | {self.on[0]}, predicate[1] | {self.on[1]}
        needed = self.pairing.needed(wanted)
        return needed[0] | {self.on[0]}, needed[1] | {self.on[1]}

    def time_of(self, slot: int) -> str:
        return self.on[slot]

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        return frozenset(column for name, side, column in self.columns if side == slot and name in names)

    def mark_way(self, on: str, by: Collection[str]) -> Together | None:
        if self.preserved:
            # A tuple that leaves alone does so behind the marks of its group.
            return None
        names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for name, side, column in self.columns:
            if name in by:
                names[side].setdefault(column, name)
                for other in (pair[1 - side] for pair in self.pairing.equalities if pair[side] == column):
                    names[1 - side].setdefault(other, name)
        shifts = self.shifts(on)
        return Together(tuple(Branching(names[side], self.on[side], shifts[side]) for side in (0, 1)))

    def exchange(self, slot: int) -> str | None:
        return super().exchange(slot) if self.home is None else "by segment of time, as there are no keys"

    def details(self, needed: Collection[str]) -> Sequence[str]:
        return (f"keeps {self.keeps()}",)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.join.entry import JoinEntryOp

        return JoinEntryOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.join.holder import JoinOp

        return JoinOp(self, slots, needed)

    def describe(self) -> str:
        left, right = (self.pairing.inside(side, self.on[side]) for side in (0, 1))
        first, last = (_moved(left, n, self.kind_of(0)) for n in (-self.band.before, self.band.after))
        near = f"{right} = {left}" if self.band == Band(0, 0) else f"{first} <= {right} <= {last}"
        predicate = f"{self.pairing.predicate.text} and " if self.pairing.predicate is not None else ""
        return f"{self.how}, {predicate}{near}, progress={self.stated}"

    def keeps(self) -> str:
        """Until when tuples are kept, for explain."""
        left, right = (self.pairing.inside(side, self.on[side]) for side in (0, 1))
        until = _moved(left, self.band.after, self.kind_of(0)), _moved(right, self.band.before, self.kind_of(1))
        names = self.pairing.names
        return f"{names[0]} until {right} has passed {until[0]}, {names[1]} until {left} has passed {until[1]}"


def _moved(attribute: str, ticks: int, kind: pa.DataType) -> str:
    return f"{attribute} {'-' if ticks < 0 else '+'} {span_text(abs(ticks), kind)}" if ticks else attribute
