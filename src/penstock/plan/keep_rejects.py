"""Late tuples and broken records are kept, whatever else becomes of them, so that they can be read afterwards."""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Output, Port
from penstock.connectors.targets import Results
from penstock.plan.plan import Plan


def late_output(source: str) -> str:
    """The name of the output that keeps the late tuples of an input."""
    return f"{source}!late"


def errors_output(source: str) -> str:
    """The name of the output that keeps the broken records of an input."""
    return f"{source}!errors"


def keep_rejects(plan: Plan) -> Plan:
    network = plan.network
    kept = []
    for source in network.sources:
        if source.late == "route":
            kept.append(Output(late_output(source.name), (Port(source, source.LATE),), Results()))
        kept.append(Output(errors_output(source.name), (Port(source, source.ERRORS),), Results()))
    return replace(plan, network=replace(network, boxes=(*network.boxes, *kept)))
