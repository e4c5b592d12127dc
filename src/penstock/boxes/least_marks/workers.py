"""LeastMarks: what every group has reached behind a box that brings streams together (oop.md A.1.1).

Keeps, for every stream, the marks of those groups that are ahead of the stream itself: of all others the mark of the
stream says as much. A mark leaves when the smallest over the streams has moved, and the stream behind does not say so
already. Any stream that moves can move any group, so a batch with news reads all groups of its bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks, all_ended
from penstock.algebra.ticks import BEGINNING, END, bounds, from_ticks, to_ticks
from penstock.boxes.least_marks.box import LeastMarks
from penstock.operators.arrays import Numbers, shifted
from penstock.operators.groups import group_slots, number, parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.ledger import LEDGER_SLOT, Ledger

MARKS = "marks"
BRANCH = "#branch"
VALUE = "#value"


class ProgressOp:
    """Takes tuples, and gives none."""

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        return ()


class LeastMarksEntry:
    """Sends marks of groups, under the names that these have behind, with `VALUE` in ticks."""

    def __init__(self, box: LeastMarks) -> None:
        self._box = box
        self._gathered: dict[int, list[pa.Table]] = {}

    def process(self, slot: int, tuples: pa.Table) -> None:
        branch = self._box.branches[self._box.branch_at(slot)]
        # A mark that an expression has no value for says nothing.
        said = tuples.filter(pc.is_valid(tuples.column(branch.on)))
        values = shifted(np.asarray(to_ticks(said.column(branch.on)).to_numpy(), np.int64), branch.shift)
        columns = [*(said.column(name) for name in branch.groups), pa.array(values)]
        self._gathered.setdefault(slot, []).append(pa.table(columns, names=[*self._box.groups, VALUE]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered, self._gathered = self._gathered, {}
        for slot, tables in gathered.items():
            # Names of parts are those of inputs.
            yield str(slot), pa.concat_tables(tables)


class LeastMarksOp(Holder):
    """What a group has reached is a column of numbers: one for every branch."""

    def __init__(self, box: LeastMarks, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        fields = [box.marks.field(name) for name in box.groups]
        self._schema = pa.schema([*fields, pa.field(VALUE, pa.int64()), pa.field(BRANCH, pa.int64())])
        self._ledger = Ledger(slots, part=MARKS, key="reached")
        """What the streams had reached."""
        self._before = self._known()
        self._arrived: list[pa.Table] = []

    def receive(self, part: str, tuples: pa.Table) -> None:
        branch = pa.repeat(pa.scalar(self._box.branch_at(self._box.slot_of(part)), pa.int64()), tuples.num_rows)
        columns = [tuples.column(name) for name in (*self._box.groups, VALUE)]
        self._arrived.append(pa.table([*columns, branch], schema=self._schema))

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        said = pa.concat_tables([self._schema.empty_table(), *self._arrived])
        self._arrived = []
        before = self._before
        after = np.maximum(before, self._reached(marks))
        if all_ended(marks):
            for slot in self._slots.numbers():
                self._slots.drop(slot)
            return
        if not said.num_rows and np.array_equal(before, after):
            return
        slots = [slot for slot in self._slots.numbers() if slot != LEDGER_SLOT]
        chunks = [chunk for slot in slots for chunk in self._slots.chunks(slot, MARKS)]
        stored = pa.concat_tables([self._schema.empty_table(), *chunks])
        groups, places = number([stored, said], list(self._box.groups))
        own = np.full((len(before), groups.count), BEGINNING, np.int64)
        _learn(own, stored, places[0])
        least = np.maximum(own, before[:, None]).min(axis=0)
        _learn(own, said, places[1])
        now_least = np.maximum(own, after[:, None]).min(axis=0)
        self._keep(groups.keys, own, after, {*group_slots(said, self._box.groups).tolist()}, slots)
        # The mark of the stream behind is the smallest of all streams: it need not be said of groups.
        moved = now_least > np.maximum(least, after.min())
        if moved.any():
            yield 0, self._marks(groups.keys.filter(pa.array(moved)), now_least[moved], now)

    def _reached(self, marks: Sequence[Marks]) -> Numbers:
        """What every stream has reached, in the ticks of what leaves."""
        found = []
        for branch, stated in zip(self._box.branches, marks, strict=False):
            mark = stated.of(branch.on)
            moved = mark if mark in (BEGINNING, END) else min(max(mark + branch.shift, BEGINNING), END - 1)
            found.append(moved)
        return np.array(found, np.int64)

    def _keep(self, keys: pa.Table, own: Numbers, after: Numbers, said: set[int], slots: Sequence[int]) -> None:
        branches, places = np.nonzero(own > after[:, None])
        ahead = keys.take(pa.array(places))
        columns = [*ahead.columns, pa.array(own[branches, places]), pa.array(branches.astype(np.int64))]
        rows = pa.table(columns, schema=self._schema)
        held = dict(parted(rows, group_slots(rows, self._box.groups)))
        for slot in {*slots, *held}:
            if slot not in held:
                self._slots.drop(slot)
            elif slot in said or held[slot].num_rows != sum(c.num_rows for c in self._slots.chunks(slot, MARKS)):
                self._slots.replace(slot, MARKS, held[slot])
        self._ledger.write(after.tolist())

    def _marks(self, keys: pa.Table, marks: Numbers, now: int) -> pa.Table:
        low, high = bounds(self._box.on_type)
        values = from_ticks(pa.array(np.clip(marks, low, high)), self._box.on_type)
        rows = pa.table([*keys.columns, values], schema=self._box.marks)
        return rows.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), rows.num_rows))

    def _known(self) -> Numbers:
        known = self._ledger.read()
        return np.full(len(self._box.branches), BEGINNING, np.int64) if known is None else np.array(known, np.int64)


def _learn(own: Numbers, marks: pa.Table, groups: Numbers) -> None:
    np.maximum.at(own, (marks.column(BRANCH).to_numpy(), groups), marks.column(VALUE).to_numpy())
