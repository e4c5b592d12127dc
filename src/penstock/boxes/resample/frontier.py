"""How far each group of a stream has come, deduced from what has arrived (aurora.md 5.2.2, order specifications).

The frontier of a group is the (slack + 1)-th largest value seen in it: what follows in order is not below it. To know
it, and who is out of order, the `slack` + 1 largest values of a group are kept; not those that the low-water mark has
passed, since nothing that follows is below that anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.bounded_sort import bounded_sort, largest, late
from penstock.operators.groups import GROUP_SLOTS, group_slots, number, parted
from penstock.operators.protocol import Slots
from penstock.operators.state.ledger import Ledger

ALL: Final = "#all"
VALUE: Final = "#value"
LARGEST: Final = "largest"
MARK: Final = "mark"


def group_keys(tuples: pa.Table, by: Sequence[str]) -> pa.Table:
    """The columns that make a group; where there are none, one that is the same for all tuples."""
    return tuples.select(by) if by else pa.table({ALL: pa.repeat(pa.scalar(0, pa.int8()), tuples.num_rows)})


def number_groups(keys: pa.Table) -> tuple[Numbers, pa.Table]:
    """The number of every row's group, and the groups, numbered from 0 in ascending order; NULLs come last.

    >>> numbers, groups = number_groups(pa.table({"k": ["b", "a", None, "b"]}))
    >>> numbers.tolist(), groups["k"].to_pylist()
    ([1, 0, 2, 1], ['a', 'b', None])
    """
    found, (numbers,) = number([keys], keys.column_names)
    if found.count < 2:
        return numbers, found.keys
    # Names may differ in case only, which the kernel would not tell apart.
    names = [f"k{i}" for i in range(keys.num_columns)]
    rows = found.keys.rename_columns(names).append_column("row", pa.array(np.arange(found.count)))
    ascending = kernel.run(f"SELECT row FROM rows ORDER BY {', '.join(f'{k} NULLS LAST' for k in names)}", rows=rows)
    order = ascending.column("row").to_numpy()
    rank = np.empty(found.count, np.int64)
    rank[order] = np.arange(found.count)
    return rank[numbers], found.keys.take(pa.array(order))


@dataclass(frozen=True)
class Frontiers:
    """The frontiers of all groups before and after the arrivals of a batch, and how they moved in between."""

    groups: pa.Table
    before: Numbers
    """By group; BEGINNING where it is not known."""
    after: Numbers
    steps: Numbers
    """Frontiers as they followed each other, group by group: place in `levels`, plus `len(levels)` + 1 per group."""
    levels: Numbers
    """All values that `steps` takes, ascending."""
    moments: Numbers
    """For each of `steps`, the arrival number that made it; BEGINNING for earlier batches."""
    mark: int = BEGINNING
    """The low-water mark before the arrivals."""

    def find(self, keys: pa.Table) -> tuple[Numbers, pa.Table, Numbers]:
        """The groups of rows: their numbers, the groups themselves, and the place of each of those here, or -1."""
        known = self.groups.num_rows
        numbers, groups = number_groups(pa.concat_tables([self.groups, keys]))
        place = np.full(groups.num_rows, -1, np.int64)
        place[numbers[:known]] = np.arange(known)
        return numbers[known:], groups, place

    def of(self, keys: pa.Table) -> Numbers:
        """The frontier of every row's group."""
        if not self.groups.num_rows:
            return np.full(keys.num_rows, BEGINNING)
        numbers, _, places = self.find(keys)
        return at_place(self.after, places)[numbers]

    def passed(self, places: Numbers, ticks: Numbers) -> Numbers:
        """The arrival number that moved the frontier of a group at some place above a tick; END if none has yet.

        BEGINNING if that was before these arrivals, or if the low-water mark had passed the tick by then.
        """
        wide = len(self.levels) + 1
        at = np.searchsorted(self.steps, places * wide + np.searchsorted(self.levels, ticks, side="right"))
        found = np.full(len(places), END, np.int64)
        there = np.flatnonzero((places >= 0) & (at < len(self.steps)))
        there = there[self.steps[at[there]] // wide == places[there]]
        found[there] = self.moments[at[there]]
        return np.where(ticks < self.mark, BEGINNING, found)


def at_place(values: Numbers, places: Numbers) -> Numbers:
    """The value at each place; BEGINNING where it is -1."""
    return np.append(values, BEGINNING)[places]


def unknown(keys: pa.Schema) -> Frontiers:
    """No frontiers, of groups with these columns."""
    none = np.zeros(0, np.int64)
    return Frontiers(keys.empty_table(), none, none, none, none, none)


class FrontierStore:
    """The largest values of all groups, in slots that the groups share."""

    def __init__(self, slots: Slots, slack: int, slot_of: Callable[[int], int]) -> None:
        self._slots = slots
        self._slack = slack
        self._slot_of = slot_of
        """The number, among the slots of the box, of the i-th slot of this store."""

    def arrive(self, keys: pa.Table, ticks: Numbers, seq: Numbers, mark: int) -> tuple[Frontiers, Mask]:
        """Let tuples of these groups arrive, in this order: how the frontiers move, and which tuples are out of order.

        `mark` is the low-water mark after them.
        """
        held = [c for i in range(GROUP_SLOTS) for c in self._slots.chunks(self._slot_of(i), LARGEST)]
        # What was kept comes first and ascending, so none of it is out of order.
        everything = pa.concat_tables([*held, keys.append_column(VALUE, pa.array(ticks))])
        known = everything.num_rows - keys.num_rows
        groups, names = number_groups(everything.select(keys.column_names))
        values = everything.column(VALUE).to_numpy()
        kept = largest(groups, values, self._slack + 1)
        slots = group_slots(keys, keys.column_names)
        self._keep(everything.take(pa.array(kept[values[kept] > mark])), keys.column_names, slots, mark)
        arrivals = np.append(np.full(known, BEGINNING), seq)
        frontiers = self._moved(groups, names, values, arrivals)
        return replace(frontiers, mark=self._advance(mark)), late(groups, values, self._slack)[known:]

    def _advance(self, mark: int) -> int:
        """The low-water mark of the batch before."""
        ledger = Ledger(self._slots, self._slot_of(GROUP_SLOTS), LARGEST, MARK)
        known = ledger.read()
        before = BEGINNING if known is None else int(known)
        if mark > before:
            ledger.write(mark)
        return before

    def _keep(self, kept: pa.Table, by: Sequence[str], touched: Numbers, mark: int) -> None:
        """Rewrite the slots of the groups that have arrived; all of them when nothing can follow."""
        slots = range(GROUP_SLOTS) if mark == END else np.unique(touched).tolist()
        rows = dict(parted(kept, group_slots(kept, by)))
        for slot in slots:
            if slot in rows:
                self._slots.replace(self._slot_of(slot), LARGEST, rows[slot])
            else:
                self._slots.drop(self._slot_of(slot))

    def _moved(self, groups: Numbers, names: pa.Table, values: Numbers, arrivals: Numbers) -> Frontiers:
        pushed = bounded_sort(groups, values, self._slack)
        gone = pushed.rows[pushed.leaves]
        levels, dense = np.unique(values[gone], return_inverse=True)
        wide = len(levels) + 1
        # The frontier is the largest value that has left the buffer. Groups ascend, so one running maximum serves all.
        steps = np.maximum.accumulate(groups[gone] * wide + dense.astype(np.int64))
        moments = arrivals[pushed.triggers]

        def last(until: int) -> Numbers:
            found, of = np.full(names.num_rows, BEGINNING, np.int64), moments <= until
            # Of several values for one group the last one stays.
            found[groups[gone][of]] = levels[steps[of] % wide]
            return found

        return Frontiers(names, last(BEGINNING), last(END), steps, levels, moments)
