"""A box that nobody reads is not run: nothing it would give ends in an output.

Inputs stay: they are read and counted, whoever takes their tuples. So do boxes whose late tuples are kept, because
these can be read after the run.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Box, Output, Port, View
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.plan.plan import Plan


def prune_boxes(plan: Plan) -> Plan:
    read: set[str] = set()
    kept: list[Box] = []
    viewed = _viewed(plan.network)
    for box in reversed(plan.network.boxes):
        if isinstance(box, Output | Source) or box.name in read or (box.keeps_late and box.name not in viewed):
            kept.append(box)
            read.update(port.box.name for port in box.inputs)
    alive = {id(box) for box in kept}
    pruned = tuple(box.name for box in plan.network.boxes if id(box) not in alive)
    if not pruned:
        return plan
    return replace(plan, network=replace(plan.network, boxes=tuple(reversed(kept))), pruned=pruned)


def _viewed(network: Network) -> set[str]:
    """The boxes that only views read which nobody has asked for: they are not run for their late tuples alone."""
    found: set[str] = set()
    for box in reversed(network.boxes):
        ports = [Port(box, index) for index in range(len(box.ports))]
        readers = [arc.consumer for port in ports for arc in network.consumers(port)]
        # An output may have the name of a box.
        if readers and all(isinstance(r, View) or (r.name in found and not isinstance(r, Output)) for r in readers):
            found.add(box.name)
    return found
