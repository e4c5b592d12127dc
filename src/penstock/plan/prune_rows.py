"""Rows that all filters behind an input leave out need not be read.

What the filters ask of single columns is handed to the connector, which leaves out what it can: files and row groups
whose smallest and largest values show that no row of them passes. Only inputs that say themselves how far they have
come are told: elsewhere tuples say it, also those that nobody wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.algebra.box import Box, Port
from penstock.algebra.expressions.bounds import NOTHING, Bounds, either
from penstock.algebra.source import Source
from penstock.connectors.connector import NeededRows
from penstock.plan.plan import Plan
from penstock.progress.policies.punctuated import Punctuated


def prune_rows(plan: Plan) -> Plan:
    able = [source for source in plan.network.sources if _speaks_for_itself(source)]
    asked = _asked(plan.network.boxes) if able else {}
    told = {source.name: _told(source, asked[source.name]) for source in able}
    if all(told[source.name] is source for source in able):
        return plan
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[p.name] for p in box.inputs)) if box.inputs else told.get(box.name, box)
        boxes.append(new)
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _asked(boxes: Sequence[Box]) -> dict[str, Bounds | None]:
    """What all who read a stream ask of its tuples, taken together, by the name of its port; None if one of them may
    want any tuple."""
    readers: dict[str, list[Bounds | None]] = {}
    found: dict[str, Bounds | None] = {}
    for box in reversed(boxes):
        behind = [either(readers.get(Port(box, i).name, ())) for i in range(len(box.ports))]
        found.update({Port(box, i).name: asked for i, asked in enumerate(behind)})
        for slot, port in enumerate(box.inputs):
            readers.setdefault(port.name, []).insert(0, box.bounds_before(slot, behind))
    return found


def _told(source: Source, asked: Bounds | None) -> Source:
    """The input, if it can make use of what is asked of its tuples."""
    if asked is None or asked == NOTHING:
        return source
    connector = source.connector.needing(NeededRows(asked, tuple(track.attribute for track in source.tracks)))
    return source if connector is source.connector else replace(source, connector=connector)


def _speaks_for_itself(source: Source) -> bool:
    """Whether nothing but punctuation of its own says how far an input has come, and nobody waits for tuples of it."""
    policies = [track.policy for track in source.tracks]
    plain = all(isinstance(each, Punctuated) and each.where is None and each.idle is None for each in policies)
    return plain and not source.stamped and source.overdue is None
