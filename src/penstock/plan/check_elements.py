"""Behind a temporal input stands a box that refuses elements which adjust no event.

```
 input ──────> where ──>            input ──> legal ──> where ──>
   └─ errors ──────────>              │         └─ errors ──┐
                                      └─ errors ────────────┴──>
```

Inserts alone adjust nothing, so an input of these needs no such box, unless each event may be there once only. Nor does
one whose readers all find illegal elements themselves. What a box refuses in the place of an input, here or where opens
and closes become elements, is part of the error stream of the input.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Box, Port
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.boxes.legal.box import Legal
from penstock.boxes.open_close.box import OpenClose
from penstock.boxes.union.box import Union
from penstock.plan.plan import Plan


def check_elements(plan: Plan) -> Plan:
    checked = {source.name for source in plan.network.sources if _must_be_checked(source, plan.network)}
    if not checked and not any(isinstance(box, OpenClose) for box in plan.network.boxes):
        return plan
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[port.name] for port in box.inputs)) if box.inputs else box
        boxes.append(new)
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
        if isinstance(box, Source) and box.name in checked:
            legal = Legal(f"{box.name}.legal", (Port(box),), box.name, box.properties(0).unique)
            boxes.append(legal)
            made[box.name] = Port(legal)
            _unite(box, Port(legal, Legal.ERRORS), boxes, made)
        elif isinstance(new, OpenClose):
            _unite(new.inputs[0].box, Port(new, OpenClose.ERRORS), boxes, made)
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _unite(source: Box, refused: Port, boxes: list[Box], made: dict[str, Port]) -> None:
    """Let what a box has refused in the place of an input be part of the input's error stream."""
    errors = Port(source, Source.ERRORS)
    both = Union(f"{source.name}!refused", (errors, refused))
    boxes.append(both)
    made[errors.name] = Port(both)


def _must_be_checked(source: Source, network: Network) -> bool:
    promised = source.elements
    if promised is None or (promised.insert_only and not promised.unique):
        return False
    readers = [arc.consumer for arc in network.consumers(Port(source))]
    return any(not reader.checks_elements for reader in readers)
