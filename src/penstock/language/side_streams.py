"""Side streams of inputs and boxes: what came too late for them, and what they have refused."""

from __future__ import annotations

from penstock.algebra.box import Box, Port
from penstock.errors import QueryError


def late_port(box: Box, network: str) -> Port:
    """Where tuples leave that came too late for a box."""
    box = _judged(box)
    port = box.late_port()
    if port is None:
        raise QueryError(
            f"nothing comes too late for a {box.kind}",
            network=network,
            box=box.name,
            expected="an input, or a box with assuming= or timeout=",
            hint="the late tuples of a join with assuming= are those of the boxes before it: "
            "result.late('<name>.left') and result.late('<name>.right')"
            if box.kind == "join"
            else None,
        )
    return Port(box, port)


def errors_port(box: Box, network: str) -> Port:
    """Where records leave that a box has refused."""
    box = _judged(box)
    port = box.errors_port()
    if port is None:
        raise QueryError(
            f"the {box.kind} '{box.name}' refuses nothing",
            network=network,
            box=box.name,
            expected="an input, or a map that computes a time that may be out of range",
            hint="call errors() on what net.source(...) returned",
        )
    return Port(box, port)


def _judged(box: Box) -> Box:
    """The input, where a box judges in its place; else the box itself."""
    return box if box.speaks_for is None else box.inputs[0].box
