"""As few stages as the keys allow: a stateful box joins the stage of its input when the buckets there fit its keys.

Every flow of tuples has a place and a partition: the keys by which it was sent to its bucket, or None where nothing is
known. Tuples of one key are in one bucket if the partition's columns are among the key's. A flow that is not there yet
is exchanged by the box's keys; a box without keys lives in bucket 0.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Box, Port, Stateful, Stateless
from penstock.plan.plan import INTAKE, Plan

Partition = tuple[str, ...] | None
Flow = tuple[int, Partition]


def assign_stages(plan: Plan) -> Plan:
    stages: dict[str, int] = {}
    flows: dict[str, frozenset[Flow]] = {}
    for box in plan.network.boxes:
        if isinstance(box, Stateful):
            stages[box.name] = _stage(box, [flows[p.name] for p in box.inputs])
        for index in range(len(box.ports)):
            flows[Port(box, index).name] = _flows(box, flows, stages)
    return replace(plan, stage_of=stages, stages=max(stages.values(), default=INTAKE))


def _flows(box: Box, flows: dict[str, frozenset[Flow]], stages: dict[str, int]) -> frozenset[Flow]:
    if isinstance(box, Stateful):
        return frozenset({(stages[box.name], box.partition)})
    if isinstance(box, Stateless):
        coming = [flow for port in box.inputs for flow in flows[port.name]]
        return frozenset((place, None if keys is None else box.spread(keys)) for place, keys in coming)
    return frozenset({(INTAKE, None)})


def _stage(box: Stateful, inputs: list[frozenset[Flow]]) -> int:
    last = max(place for flows in inputs for place, _ in flows)
    if last == INTAKE:
        return INTAKE + 1
    here = [(slot, keys) for slot, flows in enumerate(inputs) for place, keys in flows if place == last]
    # Flows of other inputs, and from earlier places, are sent by exactly the box's keys: then those that are here
    # already must match exactly. A flow that comes alone may be spread by any part of the keys.
    alone = len(here) == sum(len(flows) for flows in inputs) == 1

    def fits(slot: int, keys: Partition) -> bool:
        wanted = box.keys(slot)
        return keys is not None and wanted is not None and (set(keys) <= set(wanted) if alone else keys == wanted)

    return last if all(fits(slot, keys) for slot, keys in here) else last + 1
