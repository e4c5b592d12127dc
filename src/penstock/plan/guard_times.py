"""A map that computes what boxes behind it take for times refuses tuples whose time is out of range.

An input refuses such tuples itself; a map can make new ones, `ts + 9000000000000000000`, and a window that would end
beyond the last tick never closes. Numbers that nobody takes for times may be as large as they like.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.algebra.box import Box, Port
from penstock.plan.plan import Plan


def guard_times(plan: Plan) -> Plan:
    times = _times(plan.network.boxes)
    if all(box.guarded(times.get(box.name, ())) is box for box in plan.network.boxes):
        return plan
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[port.name] for port in box.inputs)) if box.inputs else box
        new = new.guarded(times.get(box.name, ()))
        boxes.append(new)
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _times(boxes: Collection[Box]) -> dict[str, set[str]]:
    """The attributes of every port, by its name, that a box downstream takes for a time."""
    found: dict[str, set[str]] = {}
    for box in reversed(list(boxes)):
        behind = {name for i in range(len(box.ports)) for name in found.get(Port(box, i).name, ())}
        for slot, port in enumerate(box.inputs):
            time = box.time_of(slot)
            found.setdefault(port.name, set()).update(box.made_of(slot, behind), () if time is None else (time,))
    return found
