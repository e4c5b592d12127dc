"""Which operators do the work of which box."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.algebra.aggregate import Aggregate
from penstock.algebra.box import Box, Filter, Map, Stateful, Union
from penstock.errors import InternalError
from penstock.operators.aggregate import AggregateOp
from penstock.operators.base import Entry, Holder, Operator, Slots
from penstock.operators.filter import FilterOp
from penstock.operators.map import MapOp
from penstock.operators.subaggregate import SubAggregateOp
from penstock.operators.union import UnionOp


def operator(box: Box, needed: Collection[str]) -> Operator:
    """The operator of a stateless box, of whose output only some columns are needed."""
    match box:
        case Filter():
            return FilterOp(box)
        case Map():
            return MapOp(box, needed)
        case Union():
            return UnionOp(box, needed)
    raise InternalError(f"there is no operator for a {box.kind}", box=box.name)


def entry(box: Stateful, needed: Sequence[frozenset[str]]) -> Entry:
    """What a stateful box does where the tuples are; `needed` are the columns needed of each of its outputs."""
    match box:
        case Aggregate():
            return SubAggregateOp(box)
    raise InternalError(f"there is no entry for a {box.kind}", box=box.name)


def holder(box: Stateful, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
    """What a stateful box does at its stage."""
    match box:
        case Aggregate():
            return AggregateOp(box, slots)
    raise InternalError(f"there is no holder for a {box.kind}", box=box.name)
