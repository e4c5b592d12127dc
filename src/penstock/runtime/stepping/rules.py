"""Which box runs next: the depth-first rules of ets.md 3 and 4.

```
 execute the current box, then:
   Forward     if it has output:            the box that takes it
   Encore      else, if it has more input:  the same box again
   Backtrack   else:                        the box that feeds the empty buffer, and the same rules for that one
   ETS         at a source that is empty:   it states how far it must be, if somebody waits for that and would go on
```

Outputs take what reaches them at once, so the box before an output goes on with Encore. When backtracking ends nowhere,
whatever else can move is next: boxes near the outputs first, then sources in their order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.algebra.box import Box, Port
from penstock.progress.propagation import propagate
from penstock.runtime.stepping.idle_waiting import IdleWaiting
from penstock.runtime.stepping.nodes import Holding, Node
from penstock.runtime.stepping.source import SourceNode
from penstock.runtime.stepping.step import BACKTRACK, CLOCK, ENCORE, FORWARD, ON_DEMAND
from penstock.runtime.stepping.wiring import Wiring

Choice = tuple[Node | SourceNode, str]
"""Who is next, and by which rule."""


@dataclass(frozen=True)
class Rules:
    """Next operator selection over a network."""

    wiring: Wiring

    def choose(self, current: Node | SourceNode | None, produced: Collection[str]) -> Choice | None:
        """Who runs after `current`, which has put something into the buffers `produced`."""
        if current is not None:
            found = self._next(current, ENCORE, produced, set())
            if found is not None:
                return found
        downstream_first = list(reversed(self.wiring.nodes.values()))
        for node in downstream_first:
            if isinstance(node, Holding) and node.due(self.wiring.now):
                return node, CLOCK
        for node in downstream_first:
            fed = [buffer.arc.port.box.name for buffer in node.inputs if buffer.elements]
            if node.more() and any(name in self.wiring.nodes for name in fed):
                return node, FORWARD
        for source in self.wiring.sources.values():
            found = self._forward(source.box, ())
            if found is not None:
                return found
        # Nothing moves by itself; but the clock may have moved for somebody who waits.
        waiting = [node for node in downstream_first if node.unmet()]
        return next((found for node in waiting if (found := self._back(node, set())) is not None), None)

    def _next(self, node: Node | SourceNode, again: str, produced: Collection[str], seen: set[str]) -> Choice | None:
        """The rules for a box that has just run (it runs `again` as Encore) or that was backtracked to."""
        forward = self._forward(node.box, produced)
        if forward is not None:
            return forward
        if isinstance(node, SourceNode):
            return (node, ON_DEMAND) if self._would_help(node) else None
        return (node, again) if node.more() else self._back(node, seen)

    def _forward(self, box: Box, produced: Collection[str]) -> Choice | None:
        """A box that takes what this one has given. One that can only wait is tried if it got something just now."""
        for index in range(len(box.ports)):
            for buffer in self.wiring.buffers(Port(box, index)):
                consumer = self.wiring.nodes[buffer.arc.consumer.name]
                if buffer.elements and (consumer.more() or buffer.label in produced):
                    return consumer, FORWARD
        return None

    def _back(self, node: Node, seen: set[str]) -> Choice | None:
        """Along the buffers that hold a box up; `seen` are the boxes that were tried."""
        for slot in node.blocked():
            name = node.inputs[slot].arc.port.box.name
            if name in seen:
                continue
            seen.add(name)
            before = self.wiring.sources.get(name) or self.wiring.nodes[name]
            found = self._next(before, BACKTRACK, (), seen)
            if found is not None:
                return found
        return None

    def _would_help(self, source: SourceNode) -> bool:
        """Whether somebody waits for this source, and would go on with what it and all others could state now."""
        now = self.wiring.now
        if source.could_state(now) is None:
            return False
        could = {name: node.could_state(now) or node.marks() for name, node in self.wiring.sources.items()}
        marks = propagate(self.wiring.network, could)
        for node in self.wiring.nodes.values():
            inputs = node.box.inputs
            met = [marks[inputs[slot].name].reached(attribute, tick) for slot, attribute, tick in node.unmet()]
            # A merge or join goes on when all inputs have come so far; windows close by any of theirs.
            goes_on = all(met) if isinstance(node, IdleWaiting) else any(met)
            if met and goes_on and self.wiring.reaches(source.box, node.box):
                return True
        return False
