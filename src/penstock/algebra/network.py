"""A network: a loop-free graph of boxes, in topological order, frozen.

Boxes refer to their inputs, so a loop cannot even be written down; the network adds what needs the whole: unique
names, and who consumes a port. How progress spreads from the sources to every arc is in `progress/propagation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.algebra.box import Box, End, Output, Port
from penstock.algebra.source import Source
from penstock.errors import InternalError, QueryError


@dataclass(frozen=True)
class Arc:
    """Connects an output port to the `slot`-th input of a box."""

    port: Port
    consumer: Box
    slot: int


@dataclass(frozen=True)
class Attached:
    """A query that was attached to a network while it ran, or a copy of a stream that has joined an LMerge: what was
    asked for, and the boxes that it consists of."""

    name: str
    at: tuple[str, ...]
    """The connection points that it reads."""
    since: str
    """From where on it reads what they hold, in words."""
    share: float
    """How much of the work its history may take, at most."""
    boxes: tuple[str, ...]
    outputs: tuple[str, ...]
    """Its outputs and views."""
    to: str = ""
    """The LMerge that it has joined, if it is a copy of a stream: then `since` is from when on it has all events."""


@dataclass(frozen=True)
class Network:
    """Boxes in topological order: every box stands after the boxes it reads."""

    name: str
    boxes: tuple[Box, ...]
    joint: frozenset[str] = frozenset()
    """The ports, by name, whose joint punctuation somebody uses."""
    attached: tuple[Attached, ...] = ()

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(box for box in self.boxes if isinstance(box, Source))

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(box for box in self.boxes if isinstance(box, Output))

    @cached_property
    def arcs(self) -> Mapping[str, tuple[Arc, ...]]:
        """The arcs that begin at each port, by the port's name: an implicit split where there are several."""
        found: dict[str, list[Arc]] = {}
        for box in self.boxes:
            for slot, port in enumerate(box.inputs):
                found.setdefault(port.name, []).append(Arc(port, box, slot))
        return {name: tuple(arcs) for name, arcs in found.items()}

    def consumers(self, port: Port) -> tuple[Arc, ...]:
        return self.arcs.get(port.name, ())

    def check(self) -> None:
        """The invariants that every network keeps, built by hand or rewritten by a rule."""
        seen: set[tuple[bool, str]] = set()
        for box in self.boxes:
            label = (isinstance(box, End), box.name)
            if label in seen:
                raise InternalError(f"two boxes are named '{box.name}'", network=self.name)
            for port in box.inputs:
                if (False, port.box.name) not in seen:
                    raise InternalError(f"'{box.name}' stands before its input '{port.box.name}'", network=self.name)
            seen.add(label)
        if not self.outputs:
            raise QueryError(
                "the network has no output",
                network=self.name,
                hint="end at least one stream with .output('name')",
            )


def lost_progress(port: Port, attribute: str) -> Box | None:
    """The box on the way to `port` that lost the progress of `attribute`, or None if no box upstream ever had it."""
    box = port.box
    for upstream in box.inputs:
        known = (*upstream.progressing, *upstream.shape.falling)
        if attribute in known or (upstream.progressing and attribute not in upstream.schema.names):
            return box
    return next((lost for p in box.inputs if (lost := lost_progress(p, attribute)) is not None), None)
