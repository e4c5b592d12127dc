"""Late tuples and broken records are kept, whatever else becomes of them, so that they can be read afterwards."""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Output, Port
from penstock.connectors.targets.kept_results import Results
from penstock.plan.plan import Plan


def late_output(box: str) -> str:
    """The name of the output that keeps the late tuples of an input or a box."""
    return f"{box}!late"


def errors_output(box: str) -> str:
    """The name of the output that keeps what an input or a box has refused."""
    return f"{box}!errors"


def keeps_rejects(output: Output) -> bool:
    """Whether an output is one of these."""
    return any(output.name == of(output.inputs[0].box.name) for of in (late_output, errors_output))


def keep_rejects(plan: Plan) -> Plan:
    network = plan.network
    kept = []
    for box in network.boxes:
        late = box.late_port()
        if late is not None and box.keeps_late:
            kept.append(Output(late_output(box.name), (Port(box, late),), Results()))
        errors = box.errors_port()
        if errors is not None and box.keeps_errors:
            kept.append(Output(errors_output(box.name), (Port(box, errors),), Results()))
    return replace(plan, network=replace(network, boxes=(*network.boxes, *kept)))
