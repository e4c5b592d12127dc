"""Boxes: frozen, typed declarations of operators, and the ports and arcs between them.

A box names its inputs as ports of other boxes; its schemas are derived from theirs, never stored by the user. What a
box does to progress is a pure rule, `progress`: from the low-water marks of its inputs to those of an output port.
A box names those who do its work; each box has a room of its own, `penstock.boxes.<box>`, where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.hidden import ENDED, falling, visible
from penstock.algebra.joint_punctuation import joint_only
from penstock.algebra.ticks import BEGINNING, tick_text, to_ticks

if TYPE_CHECKING:
    from penstock.connectors.base import Connector
    from penstock.connectors.targets import Target
    from penstock.operators.protocol import Entry, Holder, Operator, Slots
    from penstock.progress.extremes import Extremes
    from penstock.progress.policy import Policy

Marks = Mapping[str, int]
"""The low-water marks of a stream, in ticks, by progressing attribute; and the mark `ENDED`."""


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


@dataclass(frozen=True)
class Box(ABC):
    """What all boxes have: a name that is unique in the network, and inputs."""

    name: str
    inputs: tuple[Port, ...]

    kind: ClassVar[str] = "box"

    @property
    def ports(self) -> tuple[str, ...]:
        """The labels of the output ports; the label of an only output is empty."""
        return ("",)

    @abstractmethod
    def schema(self, port: int) -> pa.Schema:
        """The schema of an output port, derived from those of the inputs."""

    @abstractmethod
    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        """The low-water marks of an output port, given those of every input."""

    def progressing(self, port: int) -> tuple[str, ...]:
        """The attributes that an output port makes progress on."""
        return tuple(visible(self.marked(port)))

    def marked(self, port: int) -> tuple[str, ...]:
        """All marks that an output port states: of the attributes that it makes progress on, and hidden ones."""
        return self._marked[port]

    @cached_property
    def _marked(self) -> tuple[tuple[str, ...], ...]:
        unknown = [dict.fromkeys(i.box.marked(i.index), BEGINNING) for i in self.inputs]
        return tuple(tuple(self.progress(port, unknown)) for port in range(len(self.ports)))

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

    def joint_marks(self, port: int, inputs: Sequence[Marks]) -> dict[str, int]:
        """The joint marks of an output port, given all marks of every input; none where it cannot state any.

        Boxes that let tuples go in the batch in which these come keep them; boxes that hold tuples back lose them.
        """
        return {}

    @abstractmethod
    def describe(self) -> str:
        """The box in one line, for explain."""


@dataclass(frozen=True)
class Stateless(Box):
    """A box that looks at each tuple alone: it runs wherever its tuples are."""

    @abstractmethod
    def operator(self, needed: Collection[str], rows: pa.Table | None = None) -> Operator:
        """Who does its work, if only some columns of its output are needed; `rows` are those of its table, if any."""


@dataclass(frozen=True)
class Track:
    """A progressing attribute of an input, and what its tuples say of its progress."""

    attribute: str
    kind: pa.DataType
    policy: Policy

    @property
    def descending(self) -> bool:
        return bool(getattr(self.policy, "descending", False))

    @property
    def mark(self) -> str:
        """The name of its mark."""
        return falling(self.attribute) if self.descending else self.attribute

    def ticks(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Its values as ticks that grow; those of no use are `out_of_range`."""
        ticks = to_ticks(column, wrap=True)
        return pc.negate(ticks) if self.descending else ticks

    def text(self, tick: int) -> str:
        """A tick that grows, as a value of the attribute."""
        return tick_text(-tick if self.descending else tick, self.kind)


@dataclass(frozen=True)
class Source(Box):
    """An input of the network, with its late stream and its error stream."""

    tuples: pa.Schema
    on: str
    connector: Connector
    policy: Policy
    late: str = "route"
    timestamps: str = "external"
    """'external': tuples bring `on` along; 'internal': it is the clock reading of their batch; 'latent': the same, and
    nobody ever waits for this input."""

    also: tuple[tuple[str, Policy], ...] = ()
    """Further attributes that it makes progress on."""
    overdue: int | None = None
    """After so many microseconds without a tuple a shard counts as failed."""
    closes: bool = False
    """Whether a shard that has failed is closed, so that nobody waits for it."""
    assumed: bool = False
    """Whether nobody has said how it progresses, and it is taken to be ordered."""

    kind: ClassVar[str] = "source"
    LATE: ClassVar[int] = 1
    ERRORS: ClassVar[int] = 2

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late", "errors")

    @property
    def on_type(self) -> pa.DataType:
        return self.tuples.field(self.on).type

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        """All progressing attributes, `on` first."""
        return tuple(Track(a, self.tuples.field(a).type, policy) for a, policy in ((self.on, self.policy), *self.also))

    def extremes(self, track: Track, seen: Extremes) -> Extremes:
        """What is known of one attribute of a shard."""
        return seen if track == self.tracks[0] else seen.of(track.mark)

    def marks(self, seen: Extremes) -> dict[str, int]:
        """The low-water marks that a shard states."""
        return {t.mark: t.policy.low_water_mark(self.extremes(t, seen), t.kind) for t in self.tracks}

    @property
    def stamped(self) -> bool:
        """Whether the intake gives tuples their progressing attribute."""
        return self.timestamps != "external"

    @property
    def delivered(self) -> pa.Schema:
        """What the connector brings: without `on`, where the intake adds it."""
        return pa.schema([f for f in self.tuples if f.name != self.on]) if self.stamped else self.tuples

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self.tuples

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        # Late tuples and broken records come in no order that anything is known of, until the input has ended.
        tracks = self.tracks if port == 0 else ()
        return {**{track.mark: BEGINNING for track in tracks}, ENDED: BEGINNING}

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return ()

    def describe(self) -> str:
        given = f" ({self.timestamps})" if self.stamped else ""
        also = "".join(f"; on {attribute}, {policy.describe()}" for attribute, policy in self.also)
        return f"{self.connector.describe()}, on {self.on}{given}, {self.policy.describe()}{also}, late={self.late}"


@dataclass(frozen=True)
class Stateful(Box):
    """A box that keeps state, in the buckets of a stage."""

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


@dataclass(frozen=True)
class Output(Box):
    """Where a stream leaves the network."""

    target: Target

    kind: ClassVar[str] = "output"

    @property
    def ports(self) -> tuple[str, ...]:
        return ()

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        return dict(marks[0])

    def joint_marks(self, port: int, inputs: Sequence[Marks]) -> dict[str, int]:
        return joint_only(inputs[0])

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(self.inputs[0].schema.names),)

    def describe(self) -> str:
        return self.target.describe()
