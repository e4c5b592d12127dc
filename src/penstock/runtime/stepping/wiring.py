"""A network laid out for stepping: a node for every box, a buffer on every arc, and what has left by the outputs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.algebra.box import Box, Output, Port, Stateful, Stateless
from penstock.algebra.hidden import SEQ
from penstock.algebra.network import Arc
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.aggregate.by_group.box import GroupwiseAggregate
from penstock.boxes.cleanse.box import Cleanse
from penstock.boxes.join.box import Join
from penstock.boxes.table_join.box import TableJoin
from penstock.boxes.table_join.known_rows import KnownRows
from penstock.boxes.union.box import Union
from penstock.errors import InternalError
from penstock.plan.plan import Plan
from penstock.progress.propagation import propagate
from penstock.runtime.stepping.elements import Buffer, Element
from penstock.runtime.stepping.idle_waiting import IdleWaiting, Merging
from penstock.runtime.stepping.nodes import Arriving, Holding, Node, Paced, Passing, Place
from penstock.runtime.stepping.source import SourceNode


class Wiring:
    """Where everything is."""

    def __init__(self, plan: Plan, *, relaxed: bool) -> None:
        self.network = plan.network
        self.now = 0
        """The clock, in microseconds since the epoch."""
        self.arrivals = 0
        """How many elements have arrived or been made: they are numbered by it where a box asks for arrival order."""
        self.left: dict[str, list[pa.Table]] = {output.name: [] for output in plan.network.outputs}
        """What has left by each output."""
        self.sources = {
            box.name: SourceNode(box, sequenced=SEQ in plan.columns.get(box.name, ())) for box in plan.network.sources
        }
        self.nodes: dict[str, Node] = {}
        """All other boxes but the outputs, upstream first."""
        self._plan = plan
        self._relaxed = relaxed
        stated = propagate(plan.network, {source.name: source.shape(0) for source in plan.network.sources})
        self._unknown = {port: marks.unknown() for port, marks in stated.items()}
        self._buffers: dict[str, list[Buffer]] = {}
        for box in plan.network.boxes:
            if box.inputs and not isinstance(box, Output):
                self.nodes[box.name] = self._node(box)

    def buffers(self, port: Port) -> list[Buffer]:
        """The buffers of the arcs that begin at a port; outputs have none."""
        return self._buffers.get(port.name, [])

    def lengths(self) -> dict[str, int]:
        """How many elements are in each buffer."""
        return {buffer.label: len(buffer.elements) for buffers in self._buffers.values() for buffer in buffers}

    def arrive(self, port: Port, element: Element) -> None:
        """An element comes in, and gets its number."""
        self.put(port, replace(element, stamp=self.number()))

    def put(self, port: Port, element: Element) -> list[str]:
        """An element appears at a port: every arc that begins there takes it. The labels of their buffers."""
        for buffer in self.buffers(port):
            buffer.put(element)
        if element.tuple is not None:
            for arc in self.network.consumers(port):
                if isinstance(arc.consumer, Output) and arc.slot != Output.MARKS:
                    self.left[arc.consumer.name].append(element.tuple.select(arc.consumer.schema(0).names))
        return [buffer.label for buffer in self.buffers(port)]

    def number(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def reaches(self, source: Box, box: Box) -> bool:
        """Whether a box gets what comes from a source."""
        return any(port.box is source or self.reaches(source, port.box) for port in box.inputs)

    def _node(self, box: Box) -> Node:
        inputs = [self._buffer(Arc(port, box, slot)) for slot, port in enumerate(box.inputs)]
        needed = [self._plan.columns.get(Port(box, index).name, frozenset()) for index in range(len(box.ports))]

        def on_the_way(slot: int) -> int:
            return self._on_the_way(box.inputs[slot])

        def passing(slot: int) -> int:
            return self._on_the_way(box.inputs[slot], Passing)

        def assured(slot: int) -> int:
            return self._assured(box.inputs[slot], str(inputs[slot].on))

        place = Place(self.network, needed, self._unknown, self.number, on_the_way, passing)
        if isinstance(box, Cleanse):
            return Merging(box, inputs, place, assured, self._relaxed)
        if isinstance(box, Join):
            return IdleWaiting(box, inputs, place, assured, self._relaxed)
        if isinstance(box, GroupwiseAggregate) and box.paced:
            return Paced(box, inputs, place)
        if isinstance(box, Stateful):
            return Holding(box, inputs, place)
        if not isinstance(box, Stateless):
            raise InternalError(f"nobody does the work of a {box.kind}", box=box.name)
        if isinstance(box, TableJoin):
            schema = box.loaded(needed[0])
            operator = box.operator(needed[0], KnownRows(box.table.read(schema).select(schema.names)))
        else:
            operator = box.operator(needed[0])
        kind = Arriving if isinstance(box, Union) and SEQ in needed[0] else Passing
        return kind(box, inputs, place, operator)

    def _buffer(self, arc: Arc) -> Buffer:
        box, label = arc.consumer, f"{arc.port.name} -> {arc.consumer.name}"
        if [port.name for port in box.inputs].count(arc.port.name) > 1:
            label += f"[{arc.slot}]"
        on = box.on[arc.slot] if isinstance(box, Join) else box.on if isinstance(box, Cleanse) else None
        buffer = Buffer(arc, label, on)
        self._buffers.setdefault(arc.port.name, []).append(buffer)
        return buffer

    def _assured(self, port: Port, on: str) -> int:
        """What a stream with latent timestamps has reached, if nothing of it is on its way: the clock."""
        latent = {name for name, node in self.sources.items() if node.box.timestamps == "latent" and not node.ended}
        if not latent or self._on_the_way(port) != END:
            return BEGINNING
        shapes = {name: node.box.shape(0) for name, node in self.sources.items()}
        known = {name: s.each(lambda _: self.now) if name in latent else s for name, s in shapes.items()}
        return propagate(self.network, known)[port.name].of(on)

    def _on_the_way(self, port: Port, through: type[Node] = Node) -> int:
        """The oldest stamp of what is in the buffers before a port, of boxes of a kind; `END` if there is nothing."""
        node = self.nodes.get(port.box.name)
        inputs = node.inputs if isinstance(node, through) else ()
        waiting = [element.stamp for buffer in inputs for element in buffer.elements]
        return min([*waiting, *(self._on_the_way(buffer.arc.port, through) for buffer in inputs)], default=END)


def input_names(box: Box) -> list[str]:
    """What the inputs of a box are called: by their streams, numbered where one comes in twice."""
    names = [port.name for port in box.inputs]
    return [f"{name}[{slot}]" if names.count(name) > 1 else name for slot, name in enumerate(names)]
