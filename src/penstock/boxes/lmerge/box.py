"""The LMerge box: copies of one stream as one stream (lmerge.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Port, Stateful
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, only_end
from penstock.algebra.order import ANY, ARRIVAL
from penstock.algebra.temporal.elements import VS, payload_names
from penstock.algebra.temporal.properties import Properties, common
from penstock.algebra.ticks import BEGINNING, END, duration_ticks, within
from penstock.boxes.lmerge.cases import IN_SEQUENCE, MEANINGS, R0, R1, R2, R3, R3_SEPARATE, R4, carries
from penstock.boxes.lmerge.policy import DEFAULT, LARGEST, MergePolicy
from penstock.boxes.requirements import refuse_different
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class LMerge(Stateful):
    """Logical merge: what leaves is one stream that all inputs are copies of, as far as the furthest of them.

    Inputs are temporal streams, or ordinary ones: then every tuple is an event that begins at `on` and never ends.
    """

    on: str
    """The attribute whose marks are the stable points."""
    case: str
    declared: bool = False
    """Whether the user has named the case."""
    policy: MergePolicy = DEFAULT
    copies: tuple[str, ...] = ()
    """By these names its state knows the inputs, which come and go: those of their streams where they were declared,
    however the plan arranges the boxes before it. As the inputs are called, if not given."""
    joining: tuple[tuple[str, int], ...] = ()
    """Inputs that came later, by name, and the tick from which on each has all events (lmerge.md V-B): until the output
    is stable up to there, it does not say how far the output may go."""
    feedback: bool = False
    """Whether it tells those before it what is of no use to it any more (lmerge.md V-D)."""

    kind: ClassVar[str] = "lmerge"
    page: ClassVar[str] = "boxes/lmerge.md"
    takes_temporal: ClassVar[bool] = True
    passes_at_once: ClassVar[bool] = True
    inputs_come_and_go: ClassVar[bool] = True
    ends_with_one: ClassVar[bool] = True
    checks_elements: ClassVar[bool] = True
    ERRORS: ClassVar[int] = 1

    def __post_init__(self) -> None:
        refuse_different(self.inputs, "logical merge", self.name)
        if len({port.temporal for port in self.inputs}) > 1:
            kinds = (f"'{p.name}' ({'temporal' if p.temporal else 'ordinary'})" for p in self.inputs)
            raise QueryError(
                "copies of one stream are all temporal or all ordinary", box=self.name, found=", ".join(kinds)
            )
        if self.case in IN_SEQUENCE and not self.policy.at_once:
            raise QueryError(
                f"case {self.case} lets inserts go as they come",
                box=self.name,
                found=self.policy.describe(),
                hint="leave case= out, or give R3 or R4",
            )
        if self.feedback and not self.forgets_begins:
            raise QueryError(
                f"case {self.case} of temporal streams has no feedback",
                box=self.name,
                expected="ordinary streams, or a case in which events are never revised: R0, R1 or R2",
                hint="an element from before the stable point may still be revised: leave feedback= out",
            )
        _ = self.lag

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "errors")

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self.inputs[0].schema

    @property
    def revises(self) -> bool:
        """Whether its streams are temporal."""
        return self.inputs[0].temporal

    def temporal(self, port: int) -> bool:
        return port == 0 and self.revises

    def properties(self, port: int) -> Properties:
        if port == self.ERRORS:
            return Properties()
        return Properties(insert_only=self.known.insert_only, unique=self.case not in (R1, R4))

    @cached_property
    def known(self) -> Properties:
        """What is known of all inputs."""
        return known_of(self.inputs, self.on)

    @property
    def begin(self) -> str:
        """The attribute at which events begin."""
        return VS if self.revises else self.on

    @property
    def time_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    @cached_property
    def payload(self) -> tuple[str, ...]:
        """The columns in which copies of an event agree, besides its begin."""
        names = self.inputs[0].schema.names
        return tuple(payload_names(names)) if self.revises else tuple(n for n in names if n != self.on)

    @cached_property
    def lag(self) -> int:
        """How many ticks the output stays behind the input that is furthest."""
        if self.policy.stable == LARGEST:
            return 0
        lag = duration_ticks(self.policy.stable, self.time_type)
        if lag < 0:
            raise QueryError("the output cannot be ahead of its inputs", found=f"stable={self.policy.stable!r}")
        return lag

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The names of its inputs, in their order."""
        return self.copies or tuple(port.name for port in self.inputs)

    def stable_point(self, inputs: Sequence[Marks], before: int) -> int:
        """How far the output is stable, that was stable up to `before`: as far as the furthest input, less the lag."""
        reached = self._reached(inputs)
        furthest = max((reached[at] for at in self.joined(before)), default=BEGINNING)
        if furthest not in (BEGINNING, END):
            furthest = within(max(furthest - self.lag, BEGINNING), self.time_type)
        return max(before, furthest)

    def joined(self, before: int) -> list[int]:
        """The inputs that have all events behind a stable point of the output."""
        since = dict(self.joining)
        return [at for at, name in enumerate(self.input_names) if since.get(name, BEGINNING) <= before]

    def furthest_first(self, inputs: Sequence[Marks], before: int) -> list[int]:
        """The inputs, by how far they have come; of several that are as far the first. Those that join are last."""
        reached, joined = self._reached(inputs), {*self.joined(before)}
        return sorted(range(len(reached)), key=lambda at: (at not in joined, -reached[at], at))

    def _reached(self, inputs: Sequence[Marks]) -> list[int]:
        return [END if marks.ended else marks.of(self.on) for marks in inputs]

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        if port == self.ERRORS:
            return only_end(inputs)
        # An input that has ended has said all there is to say. Those that join are heard by those who hold the state.
        stable = self.stable_point(inputs, BEGINNING)
        return Marks({self.on: stable}, ended=stable == END)

    def output_marks(self, stable: int) -> Marks:
        """What is known of the output that is stable up to a point."""
        return Marks({self.on: stable}, ended=stable == END)

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        if not self.feedback or not self.forgets_begins:
            return NO_FLOORS
        # What it would have refused of that time is of no use to those who read its errors, either.
        asked = (behind[0] or NO_FLOORS).get(self.on, BEGINNING)
        return {self.on: max(asked, reached[0].of(self.on))}

    @property
    def gives_feedback(self) -> bool:
        return self.feedback

    @property
    def forgets_begins(self) -> bool:
        """Whether an element that begins before the stable point changes nothing, whatever follows it. What R3 and R4
        have inserted may be revised later, and then they must know what each input has said of it."""
        return not self.revises or self.case in IN_SEQUENCE

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # Copies agree in all columns, whoever needs them.
        needed = frozenset({*self.inputs[0].schema.names, SEQ})
        return tuple(needed for _ in self.inputs)

    @property
    def keeps_errors(self) -> bool:
        return True

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.payload or (self.begin,)

    def slot_of(self, part: str) -> int:
        return int(part)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.keys(0)

    def time_of(self, slot: int) -> str:
        return self.on

    def order_before(self, slot: int, order: str) -> str:
        # A sort by `sync` would bring revisions of one event into another order.
        return ARRIVAL if self.revises else self.on if self.case in IN_SEQUENCE else ANY

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardOp

        return ForwardOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.lmerge.counted_ends import CountedEndsOp
        from penstock.boxes.lmerge.in_sequence import ComparingOp, CountingOp, RisingOp
        from penstock.boxes.lmerge.single_ends import SeparateEndsOp, SharedEndsOp

        works: dict[str, Callable[[LMerge, Slots], Holder]] = {
            R0: RisingOp,
            R1: CountingOp,
            R2: ComparingOp,
            R3: SharedEndsOp,
            R3_SEPARATE: SeparateEndsOp,
            R4: CountedEndsOp,
        }
        return works[self.case](self, slots)

    def details(self, needed: Collection[str]) -> Sequence[str]:
        known = self.known.words()
        if not self.declared:
            why = f"of all inputs: {known}"
        elif carries(self.known, self.case):
            why = f"as declared; of all inputs: {known}"
        else:
            why = f"as declared, checked while it runs; of all inputs: {known}"
        inputs = f"copies: {', '.join(self.input_names)}"
        told = ("feedback: what is before the output's stable point is left out upstream",) if self.feedback else ()
        return (inputs, f"case {self.case} ({MEANINGS[self.case]}), {why}", self.policy.describe(), *told)

    def describe(self) -> str:
        return f"{self.case} on {self.on}"


def known_of(inputs: Sequence[Port], on: str) -> Properties:
    """What is known of all of several streams, if their events begin at an attribute."""
    known = common(tuple(port.properties for port in inputs))
    if all(port.temporal for port in inputs):
        return known
    # A tuple is a fact. Order is known of the first attribute that a stream makes progress on.
    facts = replace(known, insert_only=True)
    if all(port.progressing[:1] == (on,) for port in inputs):
        return facts
    return replace(facts, ordered=False, strict=False, deterministic=False)
