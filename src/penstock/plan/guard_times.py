"""A map that computes what boxes behind it take for times refuses tuples whose time is out of range.

An input refuses such tuples itself; a map can make new ones, `ts + 9000000000000000000`, and a window that would end
beyond the last tick never closes. Numbers that nobody takes for times may be as large as they like.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.algebra.box import Box, Port, Stateful
from penstock.boxes.join.box import Join
from penstock.boxes.map.box import Map
from penstock.boxes.table_join.box import TableJoin
from penstock.plan.plan import Plan


def guard_times(plan: Plan) -> Plan:
    times = _times(plan.network.boxes)
    guarded = {
        box.name: tuple(name for name, _ in box.outputs if name in box.risky & times.get(box.name, set()))
        for box in plan.network.boxes
        if isinstance(box, Map)
    }
    if not any(guarded.values()):
        return plan
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[port.name] for port in box.inputs)) if box.inputs else box
        new = replace(new, times=guarded[box.name]) if isinstance(new, Map) else new
        boxes.append(new)
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _times(boxes: Collection[Box]) -> dict[str, set[str]]:
    """The attributes of every port, by its name, that a box downstream takes for a time."""
    found: dict[str, set[str]] = {}
    for box in reversed(list(boxes)):
        behind = {name for i in range(len(box.ports)) for name in found.get(Port(box, i).name, ())}
        for slot, port in enumerate(box.inputs):
            found.setdefault(port.name, set()).update(_before(box, slot, behind), _own(box, slot))
    return found


def _own(box: Box, slot: int) -> set[str]:
    """What a box itself takes for the time of an input."""
    if not isinstance(box, Stateful):
        return set()
    on = getattr(box, "on", None) or getattr(getattr(box, "order", None), "on", None)
    return {on[slot] if isinstance(on, tuple) else on} if on is not None else set()


def _before(box: Box, slot: int, behind: Collection[str]) -> set[str]:
    """The attributes of an input that attributes of what leaves a box are, or are computed from."""
    match box:
        case Map():
            return {column for name, e in box.outputs if name in behind for column in e.columns}
        case Join():
            return {column for name, side, column in box.columns if side == slot and name in behind}
        case TableJoin():
            return {name for name in box.inputs[slot].schema.names if box.name_of(name) in behind}
    return {name for name in box.inputs[slot].schema.names if name in behind}
