"""How progress spreads through a network: from the marks of inputs, and of what leaves stages, to those of all ports.

```
 marks known ──> the rule of every box, upstream first (Box.progress) ──> marks of all ports
```

A port keeps joint marks only where the plan has found somebody who uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.algebra.box import Box, Port
from penstock.algebra.marks import NO_PAIRS, Marks, Ticks
from penstock.algebra.network import Network
from penstock.algebra.source import Source


def propagate(network: Network, known: Mapping[str, Marks]) -> dict[str, Marks]:
    """The low-water marks of every port, from those already known (at least the sources'), by port name."""
    marks: dict[str, Marks] = dict(known)
    for box in network.boxes:
        advance(network, box, marks)
    return marks


def advance(network: Network, box: Box, marks: dict[str, Marks]) -> None:
    """Add the low-water marks of the ports of a box, where they are not known yet, from those of its inputs."""
    inputs = [marks[p.name] for p in box.inputs]
    for index in range(len(box.ports)):
        port = Port(box, index)
        known = marks.get(port.name)
        if known is None and isinstance(box, Source) and box.name in marks:
            # Of late tuples and broken records nothing is known but their end.
            marks[port.name] = Marks(ended=marks[box.name].ended)
        elif known is None:
            stated = box.progress(index, inputs)
            marks[port.name] = stated if port.name in network.joint else stated.alone
        elif isinstance(box, Source):
            # What its data states jointly is known already.
            marks[port.name] = known if port.name in network.joint else known.alone
        elif port.name in network.joint:
            marks[port.name] = known.with_joint(joint_marks(network, port, inputs))


def joint_marks(network: Network, port: Port, inputs: Sequence[Marks]) -> tuple[Ticks, Ticks]:
    """The joint marks that a port states, given the marks of its box's inputs; none where nobody uses them."""
    return port.box.progress(port.index, inputs).joint if port.name in network.joint else NO_PAIRS
