"""Inputs of a network: where tuples come from, on what they make progress, and how far they have come."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Box
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.marks import FALLING, UNKNOWN, Mark, Marks
from penstock.algebra.temporal.properties import NOTHING, Properties
from penstock.algebra.ticks import BEGINNING, tick_text, to_ticks

if TYPE_CHECKING:
    from penstock.connectors.connector import Connector
    from penstock.progress.policy import Policy


Pairs = tuple[tuple[str, ...], tuple[str, ...]]
NO_SIDES: Final[Pairs] = ((), ())


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
    def mark(self) -> Mark:
        """The name of its mark."""
        return Mark(self.attribute, FALLING) if self.descending else Mark(self.attribute)

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
    elements: Properties | None = None
    """What is promised of its elements, if it is a temporal input."""
    pairs: Pairs = NO_SIDES
    """The attributes of either side of joint punctuation in its data, all of which it makes progress on."""
    group_marks: tuple[str, ...] = ()
    """The attributes of groups whose marks its data states; they leave by a port of their own."""
    freezes: bool = False
    """Whether its punctuation is stable points, so that tuples below it are illegal."""

    kind: ClassVar[str] = "source"
    page: ClassVar[str] = "inputs.md"
    LATE: ClassVar[int] = 1
    ERRORS: ClassVar[int] = 2
    MARKS: ClassVar[int] = 3

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late", "errors", *(("marks",) if self.group_marks else ()))

    def delivers(self, port: int) -> bool:
        return port == 0

    @property
    def on_type(self) -> pa.DataType:
        return self.tuples.field(self.on).type

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        """All progressing attributes, `on` first."""
        return tuple(Track(a, self.tuples.field(a).type, policy) for a, policy in ((self.on, self.policy), *self.also))

    @property
    def stamped(self) -> bool:
        """Whether the intake gives tuples their progressing attribute."""
        return self.timestamps != "external"

    @property
    def delivered(self) -> pa.Schema:
        """What the connector brings: without `on`, where the intake adds it."""
        return pa.schema([f for f in self.tuples if f.name != self.on]) if self.stamped else self.tuples

    def schema(self, port: int) -> pa.Schema:
        if port == self.MARKS:
            return pa.schema([self.tuples.field(name) for name in (*self.group_marks, self.on)])
        return REJECT_SCHEMA if port == self.ERRORS else self.tuples

    def temporal(self, port: int) -> bool:
        return port == 0 and self.elements is not None

    def properties(self, port: int) -> Properties:
        if port != 0:
            return NOTHING
        if self.elements is not None:
            return self.elements
        return Properties(insert_only=True, ordered=self.arrives_in_order(self.on))

    @property
    def refuses_late(self) -> bool:
        """Whether late tuples go to the error stream: elements that come before a stable point are illegal."""
        return self.freezes and self.late == "route"

    def arrives_in_order(self, on: str) -> bool:
        """Whether it promises that its tuples come as one sequence, in order of an attribute."""
        policy = next(track.policy for track in self.tracks if track.attribute == on)
        one = len(self.connector.shards()) == 1 and not self.connector.more_shards
        return one and self.connector.in_sequence and policy.in_order and not policy.groups

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # Late tuples and broken records come in no order that anything is known of, until the input has ended.
        if port != 0:
            return UNKNOWN
        left, right = (dict.fromkeys(side, BEGINNING) for side in self.pairs)
        return Marks.made((track.mark, BEGINNING) for track in self.tracks).with_joint((left, right))

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return ()

    @property
    def keeps_late(self) -> bool:
        return self.late == "route"

    @property
    def keeps_errors(self) -> bool:
        return True

    def details(self, needed: Collection[str]) -> Sequence[str]:
        return (f"reads {', '.join(name for name in self.tuples.names if name in needed)}", *self.connector.details())

    def describe(self) -> str:
        given = f" ({self.timestamps})" if self.stamped else ""
        also = "".join(f"; on {attribute}, {policy.describe()}" for attribute, policy in self.also)
        return f"{self.connector.describe()}, on {self.on}{given}, {self.policy.describe()}{also}, late={self.late}"
