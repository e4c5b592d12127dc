"""A network on the drawing board: arcs can be moved, and boxes put in.

Boxes are frozen and name their inputs, so moving one means building all boxes behind it anew. A draft does that once,
when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.algebra.box import Box, Output, Port
from penstock.algebra.network import Network
from penstock.boxes.filter.box import Filter
from penstock.plan.plan import fresh_name


@dataclass(eq=False)
class Node:
    """A box in a draft; the inputs of the box itself do not count."""

    box: Box
    inputs: list[End]
    account: str
    """The box of the user's network that its work is told of."""
    copy_of: str = ""
    """The filter that it does some work of in advance, if it is one that was put in."""

    @property
    def name(self) -> str:
        return self.box.name


@dataclass(frozen=True, eq=False)
class End:
    """Where an arc of a draft begins."""

    node: Node
    port: int = 0


@dataclass
class Draft:
    """Boxes in the order in which tuples meet them."""

    network: Network
    nodes: list[Node] = field(default_factory=list)

    @staticmethod
    def of(network: Network) -> Draft:
        draft, made = Draft(network), dict[int, Node]()
        for box in network.boxes:
            node = Node(box, [End(made[id(port.box)], port.index) for port in box.inputs], box.name)
            draft.nodes.append(node)
            made[id(box)] = node
        return draft

    def copied(self) -> Draft:
        """A draft of its own, of the same boxes."""
        made = {id(n): Node(n.box, [], n.account, n.copy_of) for n in self.nodes}
        for node in self.nodes:
            made[id(node)].inputs = [End(made[id(end.node)], end.port) for end in node.inputs]
        return Draft(self.network, list(made.values()))

    def node(self, name: str) -> Node | None:
        """The box of a name; outputs, which may have the name of a box, are none."""
        return next((n for n in self.nodes if n.name == name and not isinstance(n.box, Output)), None)

    def arcs(self) -> Iterator[tuple[End, Node, int]]:
        """Every arc: where it begins, who takes it, and as which input."""
        for node in self.nodes:
            for slot, end in enumerate(node.inputs):
                yield end, node, slot

    def readers(self, node: Node) -> list[tuple[Node, int]]:
        """Who takes what leaves a box, by whatever port."""
        return [(taker, slot) for end, taker, slot in self.arcs() if end.node is node]

    def only_reader(self, node: Node) -> tuple[Node, int] | None:
        """Who takes what leaves a box, if there is just one."""
        readers = self.readers(node)
        return readers[0] if len(readers) == 1 else None

    def filter(self, name: str) -> Node | None:
        """The filter of a name, if it lets tuples pass or drops them."""
        node = self.node(name)
        return node if node is not None and is_where(node.box) else None

    def take_out(self, node: Node) -> None:
        """What a box with one input takes goes on to those behind it."""
        for end, taker, slot in list(self.arcs()):
            if end.node is node:
                taker.inputs[slot] = node.inputs[0]
        self.nodes.remove(node)

    def move_before(self, node: Node, taker: Node, slot: int = 0) -> None:
        """Take a box with one input out of its place, and put it on another arc."""
        self.take_out(node)
        node.inputs = [taker.inputs[slot]]
        self.nodes.insert(self.nodes.index(taker), node)
        taker.inputs[slot] = End(node)

    def put_before(self, taker: Node, slot: int, box: Box, account: str, copy_of: str = "") -> Node:
        """Put a box with one input on an arc."""
        node = Node(box, [taker.inputs[slot]], account, copy_of)
        self.nodes.insert(self.nodes.index(taker), node)
        taker.inputs[slot] = End(node)
        return node

    def fresh_name(self, name: str) -> str:
        ports = {Port(n.box, i).name for n in self.nodes for i in range(len(n.box.ports))}
        return fresh_name(name, ports | {n.name for n in self.nodes})

    def in_order(self) -> list[Node]:
        """All boxes, each behind those that it reads."""
        found: dict[int, Node] = {}

        def add(node: Node) -> None:
            if id(node) not in found:
                for end in node.inputs:
                    add(end.node)
                found[id(node)] = node

        for node in self.nodes:
            add(node)
        return list(found.values())

    def done(self) -> Network:
        """The network, built anew."""
        made: dict[int, Box] = {}
        for node in self.in_order():
            ports = tuple(Port(made[id(end.node)], end.port) for end in node.inputs)
            made[id(node)] = replace(node.box, inputs=ports) if ports else node.box
        return replace(self.network, boxes=tuple(made.values()))

    def accounts(self) -> Mapping[str, str]:
        """Whose work boxes with names of their own do, by name."""
        return {n.name: n.account for n in self.nodes if n.account != n.name and not isinstance(n.box, Output)}

    def shape(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """What tells it from others: every box, how it is told of, and what it reads."""
        return sorted(
            (n.name, n.box.describe(), tuple(f"{e.node.name}.{e.port}" for e in n.inputs)) for n in self.nodes
        )


Rewrite = Callable[[Draft, str], bool]
"""Changes a draft at the filter of a name; whether it could."""


def is_where(box: Box) -> bool:
    """Whether a box lets tuples pass or drops them, by one predicate."""
    return isinstance(box, Filter) and len(box.ports) == 1
