"""Only the columns that somebody needs are read, computed and carried."""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Port, Stateful
from penstock.algebra.hidden import SEQ
from penstock.algebra.source import Source
from penstock.plan.plan import Plan


def prune_columns(plan: Plan) -> Plan:
    needed: dict[str, frozenset[str]] = {}
    for box in reversed(plan.network.boxes):
        ports = [Port(box, i) for i in range(len(box.ports))]
        outputs = [needed.get(p.name, frozenset()) for p in ports]
        needed.update({p.name: columns for p, columns in zip(ports, outputs, strict=True)})
        if isinstance(box, Source):
            # Lateness and progress are judged on them, whoever needs them downstream.
            needed[box.name] = needed[box.name] | {track.attribute for track in box.tracks}
        # Stateless boxes pass arrival order on; those that keep state ask for it where they are defined on it.
        order = {SEQ} if not isinstance(box, Stateful) and any(SEQ in columns for columns in outputs) else set()
        for port, columns in zip(box.inputs, box.required(outputs), strict=True):
            needed[port.name] = needed.get(port.name, frozenset()) | columns | order
    return replace(plan, columns=needed)
