"""A network: a loop-free graph of boxes, in topological order, frozen.

Boxes refer to their inputs, so a loop cannot even be written down; the network adds what needs the whole: unique
names, who consumes a port, and how progress spreads from the sources to every arc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.algebra.box import Box, Marks, Output, Port
from penstock.algebra.hidden import ENDED, fallen
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING
from penstock.errors import InternalError, QueryError


@dataclass(frozen=True)
class Arc:
    """Connects an output port to the `slot`-th input of a box."""

    port: Port
    consumer: Box
    slot: int


@dataclass(frozen=True)
class Network:
    """Boxes in topological order: every box stands after the boxes it reads."""

    name: str
    boxes: tuple[Box, ...]
    joint: frozenset[str] = frozenset()
    """The ports, by name, whose joint punctuation somebody uses."""

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

    def propagate(self, known: Mapping[str, Marks]) -> dict[str, Marks]:
        """The low-water marks of every port, from those already known (at least the sources'), by port name."""
        marks: dict[str, Marks] = dict(known)
        for box in self.boxes:
            self.advance(box, marks)
        return marks

    def advance(self, box: Box, marks: dict[str, Marks]) -> None:
        """Add the low-water marks of the ports of a box, where they are not known yet, from those of its inputs."""
        inputs = [marks[p.name] for p in box.inputs]
        for index in range(len(box.ports)):
            port = Port(box, index)
            if port.name not in marks:
                late_or_broken = isinstance(box, Source) and box.name in marks
                ended = {ENDED: marks[box.name].get(ENDED, BEGINNING)} if late_or_broken else {}
                marks[port.name] = ended or box.progress(index, inputs)
            if port.name in self.joint:
                marks[port.name] = {**marks[port.name], **box.joint_marks(index, inputs)}

    def check(self) -> None:
        """The invariants that every network keeps, built by hand or rewritten by a rule."""
        seen: set[tuple[bool, str]] = set()
        for box in self.boxes:
            label = (isinstance(box, Output), box.name)
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
        known = (*upstream.progressing, *fallen(upstream.box.marked(upstream.index)))
        if attribute in known or (upstream.progressing and attribute not in upstream.schema.names):
            return box
    return next((lost for p in box.inputs if (lost := lost_progress(p, attribute)) is not None), None)
