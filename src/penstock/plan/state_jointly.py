"""Joint punctuation is stated where somebody can use it: on the way from a join to an Aggregate that groups by one time
of the pairs and has its windows on the other; or to a table that keeps it for its readers. Elsewhere nobody computes
it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Box, Port
from penstock.plan.plan import Plan


def state_jointly(plan: Plan) -> Plan:
    network = plan.network
    users: list[Box] = [box for box in network.boxes if box.pair_use is not None]
    users += [output for output in network.outputs if output.target.states_pairs]
    ports: set[str] = set()
    for user in users:
        _add(user.inputs[0], ports)
    return replace(plan, network=replace(network, joint=frozenset(ports)))


def _add(port: Port, ports: set[str]) -> None:
    """The port, and those upstream that what it states is made of."""
    if port.name not in ports and all(port.shape.joint):
        ports.add(port.name)
        # A join makes its pair of the marks that its inputs state alone.
        for upstream in () if port.box.begins_pairs else port.box.inputs:
            _add(upstream, ports)
