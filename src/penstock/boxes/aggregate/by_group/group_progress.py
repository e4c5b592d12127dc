"""How far every group has come, by what tells it: low-water marks, the order of arrival, or the count of tuples.

What a group has *reached* is the smallest tick that may still come in it. Each kind keeps its own table of what it must
remember of groups; the origins of windows that start with a group's first value are another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.order import Order
from penstock.algebra.ticks import BEGINNING, END, to_ticks, unfit
from penstock.boxes.aggregate.by_group.box import GroupwiseAggregate
from penstock.boxes.aggregate.group_windows import places
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.bounded_sort import largest, late
from penstock.operators.groups import Groups, number

VALUE = "#value"
COUNT = "#count"
ORIGIN = "#origin"
FIXED = "#fixed"


class GroupProgress(ABC):
    """What the groups of one batch have reached."""

    part: ClassVar[str] = ""
    """The part of the state with the groups' table; empty where there is none."""
    reached: Numbers
    """By group."""

    @abstractmethod
    def take(self, tuples: pa.Table, groups: Numbers) -> tuple[Numbers, Mask]:
        """Tuples arrive, in this order: the tick of each, and which of them are out of order."""

    def reach(self, mark: int) -> None:
        """Learn the low-water mark of the stream, and what else the batch says of groups."""
        return

    def kept(self) -> pa.Table:
        """The groups' table, to be kept."""
        return pa.table({})


class MarkProgress(GroupProgress):
    """All groups have reached the low-water mark."""

    def __init__(self, box: GroupwiseAggregate, groups: Groups, mark: int) -> None:
        self._on = box.on
        self.reached = np.full(groups.count, mark, np.int64)

    def take(self, tuples: pa.Table, groups: Numbers) -> tuple[Numbers, Mask]:
        return to_ticks(tuples.column(self._on)).to_numpy(), np.zeros(len(groups), bool)

    def reach(self, mark: int) -> None:
        self.reached[:] = mark


class MarkedProgress(GroupProgress):
    """A group has reached the low-water mark of the stream, or its own if that is further.

    Keeps the marks of groups that are ahead of the stream.
    """

    part: ClassVar[str] = "marks"

    def __init__(
        self, box: GroupwiseAggregate, groups: Groups, stored: pa.Table | None, said: pa.Table | None, mark: int
    ) -> None:
        self._on = box.on
        fields = [box.inputs[0].schema.field(name) for name in box.paced]
        nothing = pa.schema([*fields, pa.field(VALUE, pa.int64())]).empty_table()
        stored, said = (table if table is not None else nothing for table in (stored, said))
        self._owners, (self._owner_of, known, fresh) = number([groups.keys, stored, said], box.paced)
        before = np.full(self._owners.count, BEGINNING, np.int64)
        before[known] = stored.column(VALUE).to_numpy()
        self._marks = before.copy()
        np.maximum.at(self._marks, fresh, said.column(VALUE).to_numpy())
        self._stream = mark
        self.reached = np.maximum(before[self._owner_of], mark)

    def take(self, tuples: pa.Table, groups: Numbers) -> tuple[Numbers, Mask]:
        # Whoever is below the mark of its group was late already where the marks are made.
        return to_ticks(tuples.column(self._on)).to_numpy(), np.zeros(len(groups), bool)

    def reach(self, mark: int) -> None:
        self._stream = mark
        self.reached = np.maximum(self._marks[self._owner_of], mark)

    def kept(self) -> pa.Table:
        ahead = np.flatnonzero(self._marks > self._stream)
        return pa.table(dict(self._owners.columns(ahead)) | {VALUE: self._marks[ahead]})


class OrderProgress(GroupProgress):
    """A group has reached its frontier, the (slack + 1)-th largest value of its order group: what is below is late.

    Keeps the `slack` + 1 largest values of each order group. A tuple without a value is never in order.
    """

    part: ClassVar[str] = "order"

    def __init__(self, box: GroupwiseAggregate, order: Order, groups: Groups, stored: pa.Table | None) -> None:
        self._on, self._by, self._slack = box.on, order.by, order.slack
        fields = [box.inputs[0].schema.field(name) for name in self._by]
        stored = stored if stored is not None else pa.schema([*fields, pa.field(VALUE, pa.int64())]).empty_table()
        self._orders, (self._order_of, known) = number([groups.keys, stored], self._by)
        if not self._by:
            self._order_of = np.zeros(groups.count, np.int64)
        self._keep(known, stored.column(VALUE).to_numpy())

    def take(self, tuples: pa.Table, groups: Numbers) -> tuple[Numbers, Mask]:
        column = tuples.column(self._on)
        useless = unfit(column)
        aside: Mask = np.zeros(len(column), bool) if useless is None else useless.to_numpy().copy()
        ticks = pc.fill_null(to_ticks(column, wrap=True), 0).to_numpy()
        # What was kept comes first and ascending, so none of it is out of order.
        orders = np.append(self._kept_orders, self._order_of[groups[~aside]])
        values = np.append(self._kept_values, ticks[~aside])
        aside[~aside] = late(orders, values, self._slack)[len(self._kept_orders) :]
        chosen = largest(orders, values, self._slack + 1)
        self._keep(orders[chosen], values[chosen])
        return ticks, aside

    def kept(self) -> pa.Table:
        return pa.table(dict(self._orders.columns(self._kept_orders)) | {VALUE: self._kept_values})

    def _keep(self, orders: Numbers, values: Numbers) -> None:
        self._kept_orders, self._kept_values = orders, values
        counts = np.bincount(orders, minlength=self._orders.count)
        least = np.full(self._orders.count, END, np.int64)
        np.minimum.at(least, orders, values)
        frontiers = np.where(counts > self._slack, least, BEGINNING)
        self.reached = frontiers[self._order_of]


class CountProgress(GroupProgress):
    """A group has reached the number of its next tuple; ticks are tuple numbers. Keeps the count of each group."""

    part: ClassVar[str] = "counts"

    def __init__(self, groups: Groups, stored: pa.Table | None, numbers: Numbers) -> None:
        self._groups = groups
        self._counts = np.zeros(groups.count, np.int64)
        if stored is not None:
            self._counts[numbers] = stored.column(COUNT).to_numpy()
        self.reached = self._counts + 1

    def take(self, tuples: pa.Table, groups: Numbers) -> tuple[Numbers, Mask]:
        ticks = places(groups, self._counts + 1)
        self._counts = self._counts + np.bincount(groups, minlength=len(self._counts))
        self.reached = self._counts + 1
        return ticks, np.zeros(len(groups), bool)

    def kept(self) -> pa.Table:
        return _with_keys(self._groups.keys, {COUNT: self._counts})


class Origins:
    """The first value of every group: where its windows start. Kept of every group for good.

    While smaller values may still come an origin moves; once a window has left, it stays.
    """

    part: ClassVar[str] = "origins"

    def __init__(self, groups: Groups, stored: pa.Table | None, numbers: Numbers) -> None:
        self._groups = groups
        self.values = np.full(groups.count, END, np.int64)
        self._fixed = np.zeros(groups.count, bool)
        if stored is not None:
            self.values[numbers] = stored.column(ORIGIN).to_numpy()
            self._fixed[numbers] = stored.column(FIXED).to_numpy()

    def take(self, groups: Numbers, ticks: Numbers, in_order: Mask) -> Mask:
        """Learn values; which tuples lie before the first window of a group that cannot move any more."""
        before = in_order & self._fixed[groups] & (ticks < self.values[groups])
        moves = in_order & ~before
        np.minimum.at(self.values, groups[moves], ticks[moves])
        return before

    def fix(self, groups: Numbers) -> None:
        self._fixed[groups] = True

    def settled(self, reached: Numbers) -> Mask:
        """Of which groups the origin cannot move any more."""
        return self._fixed | (reached >= self.values)

    def kept(self) -> pa.Table:
        known = self.values != END
        keys = self._groups.keys.filter(pa.array(known)) if self._groups.keys.num_columns else self._groups.keys
        return _with_keys(keys, {ORIGIN: self.values[known], FIXED: self._fixed[known]})


def _with_keys(keys: pa.Table, values: dict[str, Numbers | Mask]) -> pa.Table:
    return pa.table(dict(zip(keys.column_names, keys.columns, strict=True)) | values)
