"""Boxes: frozen, typed declarations of operators, and the ports and arcs between them.

A box names its inputs as ports of other boxes; its schemas are derived from theirs, never stored by the user. What a
box does to progress is a pure rule, `progress`: from the low-water marks of its inputs to those of an output port.
The physical operator of `Filter` is `FilterOp` in `penstock.operators`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expression import Expression
from penstock.algebra.hidden import ENDED, end_of, fallen, falling, visible
from penstock.algebra.monotone import Progression, progression
from penstock.algebra.rejects import REJECT_SCHEMA
from penstock.algebra.ticks import BEGINNING, tick_text, to_ticks
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.connectors.connector import Connector
    from penstock.connectors.targets.target import Target
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

    @abstractmethod
    def describe(self) -> str:
        """The box in one line, for explain."""


@dataclass(frozen=True)
class Track:
    """A progressing attribute of an input, and what its tuples say of its progress."""

    attribute: str
    kind: pa.DataType
    policy: Policy

    @property
    def descending(self) -> bool:
        return self.policy.descending

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
class Filter(Box):
    """SQuAl Filter: m predicates, m + 1 outputs; a tuple leaves by the first one it satisfies, or by the last port."""

    predicates: tuple[Expression, ...]
    rest: bool = True
    """Whether the (m+1)st output exists; `where` has only the first."""

    kind: ClassVar[str] = "filter"

    @property
    def ports(self) -> tuple[str, ...]:
        if not self.rest:
            return tuple(str(i + 1) for i in range(len(self.predicates))) if len(self.predicates) > 1 else ("",)
        return tuple(str(i + 1) for i in range(len(self.predicates) + 1))

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        return dict(marks[0])

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        used = frozenset(c for p in self.predicates for c in p.columns)
        return (used.union(*port_columns),)

    def describe(self) -> str:
        return " | ".join(p.text for p in self.predicates)


@dataclass(frozen=True)
class Map(Box):
    """SQuAl Map: every output attribute is an expression of the input tuple."""

    outputs: tuple[tuple[str, Expression], ...]
    times: tuple[str, ...] = ()
    """Outputs that boxes behind take for times: a tuple of which one is out of range is refused."""

    kind: ClassVar[str] = "map"
    ERRORS: ClassVar[int] = 1

    @cached_property
    def ports(self) -> tuple[str, ...]:
        return ("", "errors") if self.risky else ("",)

    @cached_property
    def risky(self) -> frozenset[str]:
        """The outputs that make progress and may be out of range, though what they are computed from is not."""
        marks = [mark for mark, _, how in (*self.carried, *self.turned) if how.may_leave_range]
        return frozenset((*visible(marks), *fallen(marks)))

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self._schema

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
                how = progression(expression, attribute, source.schema)
                if how is not None and not how.result_falls:
                    found.append((name, attribute, how))
        return tuple(found)

    @cached_property
    def turned(self) -> tuple[tuple[str, str, Progression], ...]:
        """(mark of the output, mark of the input, how it is mapped) for outputs that decrease, or stem from such."""
        source = self.inputs[0]
        falls = [(a, falling(a), True) for a in fallen(source.box.marked(source.index))]
        found = []
        for name, expression in self.outputs:
            for attribute, mark, down in (*((a, a, False) for a in source.progressing), *falls):
                how = progression(expression, attribute, source.schema, falls=down)
                if how is not None and (down or how.result_falls):
                    found.append((falling(name) if how.result_falls else name, mark, how))
        return tuple(found)

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        if port == self.ERRORS:
            return end_of(marks)
        found = {name: how.apply(marks[0][mark]) for name, mark, how in (*self.carried, *self.turned)}
        return found | end_of(marks)

    def computed(self, needed: Collection[str]) -> tuple[tuple[str, Expression], ...]:
        """The outputs that are computed when these are needed: one at least, as a table without columns has no rows."""
        wanted = {*needed, *self.times}
        return tuple(output for output in self.outputs if output[0] in wanted) or self.outputs[:1]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(c for _, e in self.computed(port_columns[0]) for c in e.columns),)

    def describe(self) -> str:
        return ", ".join(name if e.text == name else f"{name}={e.text}" for name, e in self.outputs)


@dataclass(frozen=True)
class Union(Box):
    """SQuAl Union, order-agnostic: tuples pass through, progress is the minimum over the inputs (oop.md A.2.1)."""

    kind: ClassVar[str] = "union"

    def __post_init__(self) -> None:
        first = self.inputs[0]
        for other in self.inputs[1:]:
            if set(other.schema) != set(first.schema):
                raise QueryError(
                    "the inputs of a union differ in their schemas",
                    box=self.name,
                    expected=f"{_columns(first.schema)} (of '{first.name}')",
                    found=f"{_columns(other.schema)} (of '{other.name}')",
                    hint="give the streams the same attributes and types with map()",
                )

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, marks: Sequence[Marks]) -> dict[str, int]:
        shared = [a for a in marks[0] if all(a in m for m in marks)]
        return {a: min(m[a] for m in marks) for a in shared}

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return tuple(port_columns[0] for _ in self.inputs)

    def describe(self) -> str:
        return " + ".join(i.name for i in self.inputs)


@dataclass(frozen=True)
class Stateful(Box):
    """A box that keeps state, in the buckets of a stage."""

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

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(self.inputs[0].schema.names),)

    def describe(self) -> str:
        return self.target.describe()


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)
