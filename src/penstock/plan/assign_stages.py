"""As few stages as the keys allow: an Aggregate joins the stage of its input when the buckets there fit its groups.

Every flow of tuples has a place and a partition: the keys by which it was sent to its bucket, or None where nothing is
known. Tuples of one group are in one bucket if the partition's keys are among the group's. A flow that is not there
yet is exchanged by the group's keys; the global group has no keys and lives in bucket 0.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Aggregate, Box, Filter, Map, Port, Source, Union
from penstock.errors import InternalError
from penstock.plan.plan import INTAKE, Plan

Partition = tuple[str, ...] | None
Flow = tuple[int, Partition]


def assign_stages(plan: Plan) -> Plan:
    stages: dict[str, int] = {}
    flows: dict[str, frozenset[Flow]] = {}
    for box in plan.network.boxes:
        if isinstance(box, Aggregate):
            stages[box.name] = _stage(box, flows[box.inputs[0].name])
        for index in range(len(box.ports)):
            flows[Port(box, index).name] = _flows(box, flows, stages)
    return replace(plan, stage_of=stages, stages=max(stages.values(), default=INTAKE))


def _flows(box: Box, flows: dict[str, frozenset[Flow]], stages: dict[str, int]) -> frozenset[Flow]:
    match box:
        case Source():
            return frozenset({(INTAKE, None)})
        case Aggregate():
            return frozenset({(stages[box.name], box.by)})
        case Filter():
            return flows[box.inputs[0].name]
        case Map():
            return frozenset((place, _renamed(box, keys)) for place, keys in flows[box.inputs[0].name])
        case Union():
            return frozenset().union(*(flows[p.name] for p in box.inputs))
    raise InternalError(f"no rule for the flows of a {box.kind}", box=box.name)


def _renamed(box: Map, keys: Partition) -> Partition:
    if keys is None:
        return None
    names = {e.columns[0]: out for out, e in box.outputs if e.column is not None}
    return tuple(names[k] for k in keys) if all(k in names for k in keys) else None


def _stage(box: Aggregate, flows: frozenset[Flow]) -> int:
    last = max(place for place, _ in flows)
    if last == INTAKE:
        return INTAKE + 1
    partitions = {keys for place, keys in flows if place == last}
    if len(partitions) == 1:
        (keys,) = partitions
        alone = all(place == last for place, _ in flows)
        # Flows from earlier places are exchanged by exactly the group's keys, so those already here must match exactly.
        if keys is not None and (set(keys) <= set(box.by) if alone else keys == box.by):
            return last
    return last + 1
