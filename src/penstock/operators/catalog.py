"""Which operators do the work of which box."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from penstock.algebra.aggregate import Aggregate
from penstock.algebra.assume import Assume
from penstock.algebra.box import Box, Filter, Map, Stateful, Union
from penstock.algebra.bsort import BSort
from penstock.algebra.buffered import BufferedAggregate
from penstock.algebra.cleanse import Cleanse
from penstock.algebra.dedupe import Dedupe
from penstock.algebra.group_marks import GroupMarks
from penstock.algebra.groupwise import GroupwiseAggregate
from penstock.algebra.join import Join
from penstock.algebra.least_marks import LeastMarks, Progress
from penstock.algebra.lowlevel import LowLevel
from penstock.algebra.resample import Resample
from penstock.algebra.table_join import TableJoin
from penstock.errors import InternalError
from penstock.operators.aggregate import AggregateOp
from penstock.operators.assume import AssumeOp, ForwardOp
from penstock.operators.base import Entry, Holder, Operator, Slots
from penstock.operators.bsort import BSortOp
from penstock.operators.buffered import BufferedAggregateOp, BufferEntryOp
from penstock.operators.cleanse import CleanseOp
from penstock.operators.dedupe import DedupeEntryOp, DedupeOp
from penstock.operators.filter import FilterOp
from penstock.operators.group_marks import GroupMarksEntry, GroupMarksOp
from penstock.operators.groupwise import GroupwiseEntry, GroupwiseOp
from penstock.operators.join import JoinOp
from penstock.operators.join_entry import JoinEntryOp
from penstock.operators.joint_aggregate import JointAggregateOp
from penstock.operators.least_marks import LeastMarksEntry, LeastMarksOp, ProgressOp
from penstock.operators.lowlevel import LowLevelOp
from penstock.operators.map import MapOp
from penstock.operators.resample import ResampleEntryOp, ResampleOp
from penstock.operators.subaggregate import SubAggregateOp
from penstock.operators.table_join import ExistsOp, LookupOp
from penstock.operators.union import UnionOp


def operator(box: Box, needed: Collection[str], rows: pa.Table | None = None) -> Operator:
    """The operator of a stateless box, of whose output only some columns are needed; `rows` are those of its table."""
    match box:
        case TableJoin():
            return LookupOp(box, needed, rows) if box.paired else ExistsOp(box, rows)
        case Filter():
            return FilterOp(box)
        case Map():
            return MapOp(box, needed)
        case Union():
            return UnionOp(box, needed)
        case Progress():
            return ProgressOp()
    raise InternalError(f"there is no operator for a {box.kind}", box=box.name)


def entry(box: Stateful, needed: Sequence[frozenset[str]]) -> Entry:
    """What a stateful box does where the tuples are; `needed` are the columns needed of each of its outputs."""
    match box:
        case BufferedAggregate():
            return BufferEntryOp(box, needed)
        case Aggregate() | LowLevel():
            return SubAggregateOp(box)
        case GroupwiseAggregate():
            return GroupwiseEntry(box, needed)
        case GroupMarks():
            return GroupMarksEntry(box, needed)
        case LeastMarks():
            return LeastMarksEntry(box)
        case Assume() | BSort() | Cleanse():
            return ForwardOp(box, needed)
        case Dedupe():
            return DedupeEntryOp(box, needed)
        case Join():
            return JoinEntryOp(box, needed)
        case Resample():
            return ResampleEntryOp(box, needed)
    raise InternalError(f"there is no entry for a {box.kind}", box=box.name)


def holder(box: Stateful, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
    """What a stateful box does at its stage."""
    match box:
        case BufferedAggregate():
            return BufferedAggregateOp(box, slots)
        case Aggregate():
            return AggregateOp(box, slots) if box.joint is None else JointAggregateOp(box, slots, box.joint)
        case LowLevel():
            return LowLevelOp(box, slots)
        case GroupwiseAggregate():
            return GroupwiseOp(box, slots, needed)
        case GroupMarks():
            return GroupMarksOp(box, slots, needed)
        case LeastMarks():
            return LeastMarksOp(box, slots)
        case Assume():
            return AssumeOp(box, slots)
        case BSort():
            return BSortOp(box, slots, needed)
        case Cleanse():
            return CleanseOp(box, slots, needed)
        case Dedupe():
            return DedupeOp(box, slots)
        case Join():
            return JoinOp(box, slots, needed)
        case Resample():
            return ResampleOp(box, slots, needed)
    raise InternalError(f"there is no holder for a {box.kind}", box=box.name)
