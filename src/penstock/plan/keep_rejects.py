"""Late tuples and broken records are kept, whatever else becomes of them, so that they can be read afterwards."""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Box, Output, Port, Source
from penstock.boxes.map.box import Map
from penstock.connectors.results import Results
from penstock.plan.plan import Plan


def late_output(box: str) -> str:
    """The name of the output that keeps the late tuples of an input or a box."""
    return f"{box}!late"


def errors_output(box: str) -> str:
    """The name of the output that keeps what an input or a box has refused."""
    return f"{box}!errors"


def keeps_late(box: Box) -> bool:
    """Whether the late tuples of a box are kept, whoever reads them."""
    return box.late_port() is not None and getattr(box, "late", "route") == "route"


def keeps_errors(box: Box) -> bool:
    """Whether what a box refuses is kept: that of every input, and of maps that look at the times they compute."""
    return isinstance(box, Source) or (isinstance(box, Map) and bool(box.times))


def keep_rejects(plan: Plan) -> Plan:
    network = plan.network
    kept = []
    for box in network.boxes:
        late = box.late_port()
        if late is not None and keeps_late(box):
            kept.append(Output(late_output(box.name), (Port(box, late),), Results()))
        errors = box.errors_port()
        if errors is not None and keeps_errors(box):
            kept.append(Output(errors_output(box.name), (Port(box, errors),), Results()))
    return replace(plan, network=replace(network, boxes=(*network.boxes, *kept)))
