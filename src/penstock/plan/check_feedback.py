"""An input that shall tell its writers what is of no use must be read in such a way that this can be said."""

from __future__ import annotations

from penstock.algebra.box import Output, Port
from penstock.algebra.marks import Marks
from penstock.errors import QueryError
from penstock.plan.plan import Plan
from penstock.progress.usefulness import floors_of_inputs


def check_feedback(plan: Plan) -> Plan:
    network = plan.network
    telling = [source for source in network.sources if source.connector.tells]
    if not telling:
        return plan
    # As if all who give feedback had come somewhere.
    marks = {box.name: Marks(dict.fromkeys(Port(box).progressing, 0)) for box in network.boxes if box.gives_feedback}
    heeding = [box for box in network.boxes if isinstance(box, Output) and box.target.heeds]
    said = floors_of_inputs(network, marks, {o.name: dict.fromkeys(o.inputs[0].progressing, 0) for o in heeding})
    for source in telling:
        if source.name not in said:
            raise QueryError(
                "feedback=True, but any tuple of the input may be of use",
                network=network.name,
                box=source.name,
                expected="an input that nobody reads but merges with feedback=True, through boxes that leave the time "
                "of its tuples as it is",
                hint="leave feedback= out, or read the stream in one way only",
            )
    return plan
