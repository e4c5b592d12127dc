"""Which columns of an input may come as codes of a dictionary: texts that are nothing but the key of a group.

A Parquet file holds texts that repeat as numbers into a dictionary. To make texts of them, and to look each of them up
again, takes longer than everything else that counting does. So where all that becomes of a column is that tuples are
grouped by it, it stays as it is up to the box; through marks of groups, too, and from the intake to the stage.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.algebra.box import Port, Stateful
from penstock.algebra.source import Source
from penstock.boxes.group_marks.box import GroupMarks
from penstock.boxes.union.box import Union
from penstock.plan.plan import Plan


def coded_columns(plan: Plan, source: Source) -> frozenset[str]:
    """The columns of an input that all who take its tuples can take as codes."""
    if any(track.policy.where is not None for track in source.tracks):
        return frozenset()  # a condition may be about any column
    texts = frozenset(field.name for field in source.delivered if pa.types.is_string(field.type))
    return (texts - {track.attribute for track in source.tracks}) & coded_behind(plan, Port(source))


def coded_behind(plan: Plan, port: Port) -> frozenset[str]:
    """The columns of texts that all behind a port can take as codes."""
    found: frozenset[str] | None = None
    for arc in plan.network.consumers(port):
        box = arc.consumer
        own = (
            coded_behind(plan, Port(box))
            if isinstance(box, Union)
            else box.coded & coded_behind(plan, Port(box))
            if isinstance(box, GroupMarks)
            else box.coded
            if isinstance(box, Stateful)
            else None
        )
        found = (own if found is None else found & own) if own is not None else frozenset()
        if not found:
            break
    return found or frozenset()
