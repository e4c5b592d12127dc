"""Boxes: frozen, typed declarations of operators, and the ports and arcs between them.

A box names its inputs as ports of other boxes; its schemas are derived from theirs, never stored by the user. What a
box does to progress is a pure rule, `progress`: from the low-water marks of its inputs to those of an output port.
A box names those who do its work; each box has a room of its own, `penstock.boxes.<box>`, where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import SEQ
from penstock.algebra.joint_punctuation import JointUse
from penstock.algebra.mark_ways import Along, Together
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.order import ANY, ARRIVAL
from penstock.algebra.temporal.properties import NOTHING, Properties

if TYPE_CHECKING:
    from penstock.algebra.expressions.bounds import Bounds
    from penstock.connectors.targets.target import Target
    from penstock.operators.protocol import Entry, Holder, Operator, Slots


@dataclass(frozen=True)
class Port:
    """One output of a box: where an arc begins."""

    box: Box
    index: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.box.schema(self.index)

    @property
    def name(self) -> str:
        """The name of the arcs that begin here, unique in a network."""
        label = self.box.ports[self.index]
        return f"{self.box.name}.{label}" if label else self.box.name

    @property
    def progressing(self) -> tuple[str, ...]:
        return self.box.progressing(self.index)

    @property
    def shape(self) -> Marks:
        """All marks that it could state, with nothing known of them."""
        return self.box.shape(self.index)

    @property
    def temporal(self) -> bool:
        """Whether what begins here is a temporal stream, of elements."""
        return self.box.temporal(self.index)

    @property
    def properties(self) -> Properties:
        """What is known of every stream that can begin here."""
        return self.box.properties(self.index)


@dataclass(frozen=True)
class Box(ABC):
    """What all boxes have: a name that is unique in the network, and inputs."""

    name: str
    inputs: tuple[Port, ...]

    kind: ClassVar[str]
    """What it is called in explain, status and errors."""
    page: ClassVar[str]
    """Its page in the documentation."""
    has_windows: ClassVar[bool] = False
    """Whether its state is what windows hold that are open."""
    keeps_count: ClassVar[bool] = False
    """Whether every tuple that came leaves once, by its first port or by that of errors."""
    begins_pairs: ClassVar[bool] = False
    """Whether it makes joint marks of marks that its inputs state alone."""
    takes_temporal: ClassVar[bool] = False
    """Whether it gives elements of temporal streams the meaning that they have."""
    checks_elements: ClassVar[bool] = False
    """Whether it finds illegal elements by itself, so that nobody need look for them before it."""

    @property
    def calls_functions(self) -> bool:
        """Whether it calls Python functions of the user's, which run one at a time in a process."""
        return False

    @property
    def ports(self) -> tuple[str, ...]:
        """The labels of the output ports; the label of an only output is empty."""
        return ("",)

    @abstractmethod
    def schema(self, port: int) -> pa.Schema:
        """The schema of an output port, derived from those of the inputs."""

    def temporal(self, port: int) -> bool:
        """Whether an output port brings elements of a temporal stream."""
        return False

    def properties(self, port: int) -> Properties:
        """What is known of every stream that an output port can bring."""
        return NOTHING

    @abstractmethod
    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        """The low-water marks of an output port, given those of every input.

        Boxes that let tuples go in the batch in which these come keep joint ones; boxes that hold tuples back must not.
        """

    def progressing(self, port: int) -> tuple[str, ...]:
        """The attributes that an output port makes progress on."""
        return tuple(self.shape(port).rising)

    def shape(self, port: int) -> Marks:
        """All marks that an output port could state, with nothing known of them."""
        return self._shapes[port]

    @cached_property
    def _shapes(self) -> tuple[Marks, ...]:
        inputs = [port.shape for port in self.inputs]
        return tuple(self.progress(port, inputs).unknown() for port in range(len(self.ports)))

    def late_port(self) -> int | None:
        """The output by which tuples leave that came too late for the box, if it has one."""
        return self.ports.index("late") if "late" in self.ports else None

    def errors_port(self) -> int | None:
        """The output by which tuples leave that the box has refused, if it has one."""
        return self.ports.index("errors") if "errors" in self.ports else None

    def delivers(self, port: int) -> bool:
        """Whether what leaves by a port is what the box is there for, and counts as its results."""
        return port not in (self.late_port(), self.errors_port())

    @abstractmethod
    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """The columns needed of every input when these columns of the outputs are needed."""

    @property
    def keeps_late(self) -> bool:
        """Whether its late tuples are kept, whoever reads them."""
        return self.late_port() is not None

    @property
    def keeps_errors(self) -> bool:
        """Whether what it refuses is kept, whoever reads it."""
        return False

    @property
    def speaks_for(self) -> str | None:
        """The input in whose place it judges who is late."""
        return None

    @property
    def step(self) -> int | None:
        """The step of progress that is of use to it, in ticks; None: that of whoever is behind it."""
        return 1

    @property
    def pair_use(self) -> JointUse | None:
        """How it can use joint punctuation, if its input may state any."""
        return None

    def time_of(self, slot: int) -> str | None:
        """The attribute of an input that it takes for a time."""
        return None

    def takes(self, slot: int, read: Collection[str]) -> bool:
        """Whether it takes the tuples of an input in a batch by whose end these histories have been read."""
        return True

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        """The attributes of an input that these attributes of what leaves are, or are computed from."""
        return frozenset(name for name in self.inputs[slot].schema.names if name in names)

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        """Bounds within which a tuple of an input must be to be of use, if those behind its ports ask this; None if any
        tuple is."""
        return None

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        """From which ticks on tuples of an input are of use, if those that leave by its ports are from these on, and
        the ports have reached these marks. None stands for a port that nobody reads."""
        return NO_FLOORS

    @property
    def gives_feedback(self) -> bool:
        """Whether it has floors of its own, that rise with what leaves it."""
        return False

    def guarded(self, times: Collection[str]) -> Box:
        """The box, if others take these attributes of what leaves for times: it may have to look at them."""
        return self

    def order_before(self, slot: int, order: str) -> str:
        """The order in which it wants an input, so that what leaves is in an order: an attribute, ARRIVAL or ANY."""
        return order if order in self.inputs[slot].progressing else ANY

    def mark_way(self, on: str, by: Collection[str]) -> Along | Together | None:
        """How marks of groups of some columns `by`, of the time `on`, get past it; None if they do not."""
        return None

    def details(self, needed: Collection[str]) -> Sequence[str]:
        """More lines for explain, if these columns of its output are needed."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """The box in one line, for explain."""


@dataclass(frozen=True)
class Stateless(Box):
    """A box that looks at each tuple alone: it runs wherever its tuples are."""

    @property
    def several(self) -> tuple[str, ...]:
        """The boxes of the user's network that it does the work of, where they are several."""
        return ()

    @abstractmethod
    def operator(self, needed: Collection[str]) -> Operator:
        """Who does its work, if only some columns of its output are needed."""

    @abstractmethod
    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        """How what leaves is spread over buckets, if what comes is by these columns; None if that cannot be said."""


@dataclass(frozen=True)
class PaceUse:
    """What a box does with marks of groups."""

    on: str
    """The attribute that they are of."""
    groups: tuple[str, ...]
    """The groups that it closes."""
    paced: Callable[[Port, tuple[str, ...]], Stateful]
    """The box, with the marks of groups as another input."""


@dataclass(frozen=True)
class Stateful(Box):
    """A box that keeps state, in the buckets of a stage."""

    passes_at_once: ClassVar[bool] = False
    """Whether tuples leave in the batch in which they come, or in which their partners do."""
    inputs_come_and_go: ClassVar[bool] = False
    """Whether it keeps its state while inputs are added and removed; all have the same schema."""
    ends_with_one: ClassVar[bool] = False
    """Whether nothing will follow as soon as one of its inputs has ended."""
    sorts_always: ClassVar[bool] = False
    """Whether an in-order system knows no other output of it than one in order."""

    @property
    def reduces(self) -> bool:
        """Whether its entry makes partial results of tuples, instead of sending the tuples."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether it keeps something of every tuple that it lets through."""
        return False

    @property
    def coded(self) -> frozenset[str]:
        """The columns of texts that its entry takes as codes of a dictionary, too, as files hold them."""
        return frozenset()

    def timed(self, part: str) -> bool:
        """Whether what its entry sends of a part says when it arrived."""
        return True

    @abstractmethod
    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        """Who does its work where the tuples are; `needed` are the columns needed of each of its outputs."""

    @abstractmethod
    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        """Who does its work at its stage, and keeps its state."""

    @abstractmethod
    def keys(self, slot: int) -> tuple[str, ...] | None:
        """The columns by which tuples that enter at input `slot` find their bucket; without any they share one.

        None sends them to every bucket.
        """

    def slot_of(self, part: str) -> int:
        """The input that a part of the box's traffic stems from."""
        return 0

    @property
    @abstractmethod
    def partition(self) -> tuple[str, ...] | None:
        """The columns by which the tuples that leave are spread over the buckets; None if that cannot be said."""

    @abstractmethod
    def time_of(self, slot: int) -> str | None: ...

    @property
    def paced(self) -> tuple[str, ...]:
        """The attributes of the groups whose own marks it has; empty if it has none."""
        return ()

    @property
    def pace_use(self) -> PaceUse | None:
        """How it could close each group by a mark of the group's own; None if it could not use such marks."""
        return None

    def order_before(self, slot: int, order: str) -> str:
        time = self.time_of(slot)
        return time if time is not None and time in self.inputs[slot].progressing else ARRIVAL

    def in_order(self) -> Stateful:
        """The box as a system runs it that keeps its streams in order."""
        return self

    def leaves_in_order(self, on: str) -> bool:
        """Whether what leaves is one sequence in order of an attribute."""
        return False

    def has_ended(self, inputs: Sequence[Marks]) -> bool:
        """Whether nothing will follow, if these are the marks of its inputs."""
        return any(marks.ended for marks in inputs) if self.ends_with_one else all_ended(inputs)

    def exchange(self, slot: int) -> str | None:
        """How tuples of an input come to their bucket, for explain; None if they are there already."""
        keys = self.keys(slot)
        if keys is None:
            return "to every bucket"
        return f"by {', '.join(keys)}" if keys else "to bucket 0, as there are no keys"


@dataclass(frozen=True)
class End(Box):
    """Where a path of the network ends."""

    takes_temporal: ClassVar[bool] = True

    @property
    def ports(self) -> tuple[str, ...]:
        return ()

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(self.inputs[0].schema.names),)


@dataclass(frozen=True)
class Output(End):
    """Where a stream leaves the network; and the marks of its groups, where the target keeps these."""

    target: Target

    MARKS: ClassVar[int] = 1
    """The input that brings marks of groups, if a plan has found any."""

    kind: ClassVar[str] = "output"
    page: ClassVar[str] = "outputs.md"

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # All tuples have a QoS timestamp, but arrival order is carried only where somebody asks for it.
        order = {SEQ} & {*self.target.hidden}
        marks = (frozenset(port.schema.names) for port in self.inputs[self.MARKS :])
        return (frozenset(self.inputs[0].schema.names) | order, *marks)

    def order_before(self, slot: int, order: str) -> str:
        return next(iter(self.inputs[0].progressing), ANY)

    def describe(self) -> str:
        return self.target.describe()


@dataclass(frozen=True)
class View(End):
    """A path without an application (aurora.md 2.1): what leaves here is computed when somebody asks for it."""

    kind: ClassVar[str] = "view"
    page: ClassVar[str] = "views.md"

    def describe(self) -> str:
        return "computed when it is read"
