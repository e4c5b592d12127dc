"""Aggregate over the results of a join, closed by joint punctuation too (oop.md 7).

Its window is on the one time of the pairs, and a column of `by` is the other: the group of window `[a, a + size)` and
value v is complete when the window attribute alone has reached `a + size`, or when the pair (b, c) of joint punctuation
has `a + size <= b` and `v < c`. What a group has reached is therefore the greater of two marks, and groups fall into
three classes: those that v < c already held for, those for which it holds now, and the others. Each class is closed as
Aggregate closes all; a row goes when the last of its windows has.

Of every pane the smallest and largest v of its rows are noted, so that panes in which nothing can close are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.joint_punctuation import JointUse, Way, shortest
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.closing import PARTIAL
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.holder import AggregateOp
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.protocol import Departures, Slots
from penstock.operators.state.ledger import Ledger


@dataclass(frozen=True)
class Reached:
    """How far the input has come: on the window's attribute alone, and on the pair."""

    mark: int = BEGINNING
    joint: int = BEGINNING
    """Of the window's attribute, for groups below `below`."""
    below: int = BEGINNING

    def further(self, marks: Marks, on: str, use: JointUse) -> Reached:
        return Reached(
            max(self.mark, marks.of(on)),
            max(self.joint, marks.of(use.own)),
            max(self.below, marks.of(use.other)),
        )

    def of(self, value: int) -> int:
        """What a group with this value has reached."""
        return max(self.mark, self.joint) if value < self.below else self.mark


@dataclass
class PaneValues:
    """What is noted of the panes."""

    reached: Reached = Reached()
    panes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The smallest and the largest value in each pane that holds anything."""

    @staticmethod
    def load(slots: Slots) -> PaneValues:
        known = Ledger(slots).read()
        if known is None:
            return PaneValues()
        return PaneValues(Reached(**known["reached"]), {int(p): (a, b) for p, (a, b) in known["panes"].items()})

    def save(self, slots: Slots) -> None:
        Ledger(slots).write(asdict(self))

    def add(self, panes: Numbers, values: Numbers) -> None:
        """Rows come to panes."""
        found, place = np.unique(panes, return_inverse=True)
        least, most = np.full(len(found), END, np.int64), np.full(len(found), BEGINNING, np.int64)
        np.minimum.at(least, place, values)
        np.maximum.at(most, place, values)
        for pane, low, high in zip(found.tolist(), least.tolist(), most.tolist(), strict=True):
            known = self.panes.get(pane, (END, BEGINNING))
            self.panes[pane] = min(low, known[0]), max(high, known[1])


class JointAggregateOp(AggregateOp):
    """As AggregateOp, but groups of one window may close at different times."""

    def __init__(self, box: Aggregate, slots: Slots, use: JointUse) -> None:
        super().__init__(box, slots)
        self._use = use
        self._ledger = PaneValues.load(slots)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        before = self._ledger.reached
        after = before.further(marks[0], self._box.on, self._use)
        arrived = self._take()
        if not arrived and after == before:
            return
        if after != before:
            due = [pane for pane in self._ledger.panes if self._due(pane, before, after)]
            results = list(self._classes(self._gathered(due, arrived), before, after))
            for pane in due:
                self._let_go(pane, after)
            arrived = {part: self._left(part, rows, after) for part, rows in arrived.items()}
            self._ledger.reached = after
            if results:
                yield 0, _by_start(results, self._box.on)
        self._keep(arrived)
        if PARTIAL in arrived and arrived[PARTIAL].num_rows:
            self._ledger.add(arrived[PARTIAL].column(PANE).to_numpy(), self._values(arrived[PARTIAL]))
        self._ledger.save(self._slots)

    def ways(self, marks: Sequence[Marks]) -> Sequence[Way]:
        return shortest(
            {self._use.own: self._box.window.start_of(first) + self._box.window.size, self._use.other: value + 1}
            for pane in self._ledger.panes
            for value in self._next(pane)
            if (first := self._first_open(pane, value)) <= self._box.window.last_of_pane(pane)
        )

    def _open(self, marks: Sequence[Marks]) -> list[tuple[int, int]]:
        """For every pane, the first and last window that waits for anything in it."""
        # What is said of them is of the window's attribute alone: that releases them in any case.
        # Who has come least far in a pane is whoever has the largest value.
        known = self._ledger.panes.items()
        spans = [(self._first_open(pane, most), self._box.window.last_of_pane(pane)) for pane, (_, most) in known]
        return [(first, last) for first, last in spans if first <= last]

    def _first_open(self, pane: int, value: int) -> int:
        """The first window of a pane that is open for groups with a value."""
        window, mark = self._box.window, self._ledger.reached.of(value)
        first = window.first_of_pane(pane)
        first = first if self._first_useful is None else max(first, self._first_useful)
        return first if mark == BEGINNING else max(first, window.last_closed(mark) + 1)

    def _next(self, pane: int) -> list[int]:
        """The values in a pane that joint punctuation comes to next: of those it has passed, and of the others."""
        (least, most), below = self._ledger.panes[pane], self._ledger.reached.below
        found = [least]
        if least < below <= most:
            values = np.concatenate([self._values(chunk) for chunk in self._slots.chunks(pane, PARTIAL)])
            found.append(int(values[values >= below].min()))
        return [value for value in found if value != END]

    def _due(self, pane: int, before: Reached, after: Reached) -> bool:
        """Whether any window closes in a pane; who has come furthest there is whoever has the smallest value."""
        window, (least, _) = self._box.window, self._ledger.panes[pane]
        first = window.first_of_pane(pane)
        if first <= window.last_closed(after.mark) > window.last_closed(before.mark):
            return True
        moved = (before.joint, before.below) != (after.joint, after.below)
        return moved and least < after.below and first <= window.last_closed(after.joint)

    def _classes(self, tables: dict[str, pa.Table], before: Reached, after: Reached) -> Iterator[pa.Table]:
        """The results of each class of groups: below what was stated before, below what is now, and the others."""
        window, values = self._box.window, {part: self._values(rows) for part, rows in tables.items()}
        for low, high in ((BEGINNING, before.below), (before.below, after.below), (after.below, None)):
            if high is not None and low >= high:
                continue
            of_class = {part: _between(rows, values[part], low, high) for part, rows in tables.items()}
            first, last = window.last_closed(before.of(low)) + 1, window.last_closed(after.of(low))
            found = self._closed(of_class, first, last) if first <= last else None
            if found is not None:
                yield found

    def _let_go(self, pane: int, after: Reached) -> None:
        """Let go of the rows of a pane whose last window has closed."""
        partial = pa.concat_tables(self._slots.chunks(pane, PARTIAL))
        kept = self._left(PARTIAL, partial, after)
        if not kept.num_rows:
            self._slots.drop(pane)
            del self._ledger.panes[pane]
            return
        if kept.num_rows == partial.num_rows:
            return
        self._slots.replace(pane, PARTIAL, kept.combine_chunks())
        for part in self._parts[1:]:
            if chunks := self._slots.chunks(pane, part):
                self._slots.replace(pane, part, self._left(part, pa.concat_tables(chunks), after).combine_chunks())
        values = self._values(kept)
        self._ledger.panes[pane] = int(values.min()), int(values.max())

    def _left(self, part: str, rows: pa.Table, after: Reached) -> pa.Table:
        """The rows that a window still needs; the tuples of the others are released."""
        window, values = self._box.window, self._values(rows)
        closed = [min(max(window.last_closed(after.of(v)), BEGINNING), END) for v in (BEGINNING, END)]
        last = np.where(values < after.below, np.int64(closed[0]), np.int64(closed[1]))
        needed: Mask = np.floor_divide(rows.column(PANE).to_numpy(), window.advance // window.pane) > last
        if part == PARTIAL:
            counts = rows.column(self._box.tuple_count).filter(pa.array(~needed))
            self.released += int(pc.sum(counts).as_py() or 0)
        return rows if needed.all() else rows.filter(pa.array(needed))

    def _panes(self) -> Sequence[int]:
        return list(self._ledger.panes)

    def _drop(self, panes: Iterable[int]) -> int:
        gone = super()._drop(dropped := list(panes))
        for pane in dropped:
            del self._ledger.panes[pane]
        if dropped:
            self._ledger.save(self._slots)
        return gone

    def _values(self, rows: pa.Table) -> Numbers:
        """The other time of rows; one without a value is never passed by joint punctuation."""
        ticks: Numbers = pc.fill_null(to_ticks(rows.column(self._use.column)), END).to_numpy()
        return ticks


def _between(rows: pa.Table, values: Numbers, low: int, high: int | None) -> pa.Table:
    chosen = values >= low if high is None else (values >= low) & (values < high)
    return rows if chosen.all() else rows.filter(pa.array(chosen))


def _by_start(results: list[pa.Table], on: str) -> pa.Table:
    """Results of several classes in order of their windows, as they leave everywhere."""
    return results[0] if len(results) == 1 else pa.concat_tables(results).sort_by(on)
