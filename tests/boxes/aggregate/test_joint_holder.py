"""Groups of one window that joint punctuation closes before the window's attribute alone would.

```
 windows on r of size 2, groups by l        the pair (b, c): r has reached b for all pairs with l < c
```
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.operators.scripted import box_of, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.boxes.aggregate.joint_holder import JointAggregateOp
from penstock.testing.memory_slots import MemorySlots


class Bench:
    """A count on r_ts by l_ts over a join; every step takes tuples (l, r) and marks, and says what leaves."""

    def __init__(self, outputs: dict[str, str] | None = None, **window: Any) -> None:
        net = pk.Network("net")
        left, right = (net.source(n, pk.memory([], schema={"ts": "int64", "v": "int64"})) for n in ("a", "b"))
        pairs = left.join(right, on="ts", size=5)
        self.box = box_of(pairs.aggregate(outputs or {"n": "count(*)"}, on="r_ts", by="l_ts", **window))
        self.slots = MemorySlots()
        self.operator: Any = None

    def step(self, *pairs: tuple[int, int], mark: int = BEGINNING, joint: tuple[int, int] | None = None) -> list[Any]:
        self.operator = self.box.holder(self.slots, (frozenset(("r_ts", "l_ts", "n")),))
        assert isinstance(self.operator, JointAggregateOp)
        low = SubAggregateOp(self.box)
        if pairs:
            left, right = (pa.array(c, pa.int64()) for c in zip(*pairs, strict=True))
            low.process(0, pa.table({"l_ts": left, "r_ts": right, "l_v": right}))
        for part, rows in low.flush():
            self.operator.receive(part, stamped(rows))
        self.marks = Marks({"r_ts": mark})
        if joint is not None:
            self.marks = self.marks.with_joint(({"l_ts": joint[1]}, {"r_ts": joint[0]}))
        tables = [table.drop_columns([ARRIVED]) for _, table in self.operator.punctuate([self.marks], now=0)]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]

    @property
    def waits(self) -> tuple[int, int, list[Any]]:
        """Rows held, open windows, and what is waited for."""
        return self.slots.rows(), self.operator.open_windows([self.marks]), list(self.operator.needs([self.marks]))

    @property
    def ways(self) -> list[tuple[int, int]]:
        """Ticks of (r, l) that would let a group go."""
        return [(way[Mark("r_ts", "right")], way[Mark("l_ts", "left")]) for way in self.operator.ways([self.marks])]


def test_a_group_leaves_when_both_marks_have_passed_it_and_takes_its_state_along() -> None:
    bench = Bench(size=2)
    assert bench.step((0, 1), (3, 1), (3, 1), (0, 2)) == []
    assert bench.waits == (3, 2, [(0, "r_ts", 2)])
    assert bench.step(joint=(2, 0)) == []  # l may still be 0
    assert bench.step(joint=(2, -1)) == []  # punctuation that falls back changes nothing
    assert bench.step(joint=(2, 1)) == [(0, 0, 1)]
    assert (bench.operator.released, bench.slots.rows()) == (1, 2)
    assert bench.step(mark=2, joint=(2, 1)) == [(0, 3, 2)]
    assert bench.waits == (1, 1, [(0, "r_ts", 4)])
    assert bench.step(mark=4, joint=(4, 4)) == [(2, 0, 1)]
    assert bench.waits == (0, 0, [])


def test_a_group_that_comes_complete_leaves_at_once_and_others_stay() -> None:
    bench = Bench(size=2)
    assert bench.step((0, 1), (5, 1), joint=(2, 3)) == [(0, 0, 1)]
    assert bench.waits == (1, 1, [(0, "r_ts", 2)])


def test_overlapping_windows_leave_one_by_one_and_once() -> None:
    bench = Bench(size=4, advance=2)
    # Windows from -2, 0 and 2 on hold r = 1, 2, 3: those of l = 0 run ahead of those of l = 5.
    assert bench.step((0, 1), (0, 2), (5, 2)) == []
    assert bench.step(joint=(2, 1)) == [(-2, 0, 1)]
    assert bench.step(joint=(4, 1)) == [(0, 0, 2)]
    assert bench.step(joint=(4, 1), mark=2) == []
    # r = 1 has no other window; r = 2 is still in the one from 2 on, of both groups.
    assert bench.slots.rows() == 2
    assert bench.step(joint=(4, 6), mark=3) == [(0, 5, 1)]
    assert bench.step(joint=(4, 6), mark=4) == []
    assert bench.waits == (2, 1, [(0, "r_ts", 6)])
    assert sorted(bench.step(mark=END)) == [(2, 0, 1), (2, 5, 1)]
    assert bench.waits == (0, 0, [])


def test_values_that_cannot_be_decomposed_go_with_their_groups() -> None:
    bench = Bench({"d": "count(DISTINCT l_v)"}, size=10)
    assert bench.step((0, 1), (0, 1), (0, 2), (7, 3)) == []
    assert bench.step((0, 4), joint=(10, 7)) == [(0, 0, 3)]
    assert bench.step(mark=10) == [(0, 7, 1)]
    assert bench.slots.rows() == 0


def test_panes_in_which_nothing_can_close_are_not_read() -> None:
    bench = Bench(size=1)
    bench.step(*((x, r) for x in (0, 100) for r in range(20)), (100, 50))
    bench.slots.reads = 0
    assert bench.step(joint=(3, 1)) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
    # The ledger once, and three panes: once to close them, once to let go.
    assert bench.slots.reads == 7


def test_without_joint_marks_it_closes_as_an_aggregate_does() -> None:
    bench = Bench(size=2)
    assert bench.step((0, 1), (9, 1), mark=1) == []
    assert sorted(bench.step(mark=2)) == [(0, 0, 1), (0, 9, 1)]


def test_what_would_let_the_next_group_go_is_said_of_both_times() -> None:
    bench = Bench(size=2)
    bench.step((7, 1), (9, 1), (3, 4), (5, 8))
    # The group (r 8, l 5) needs more of both than (r 4, l 3) does.
    assert bench.ways == [(2, 8), (6, 4)]
    assert bench.step(joint=(6, 4)) == [(4, 3, 1)]
    assert bench.ways == [(2, 8), (10, 6)]
    assert bench.step(joint=(10, 10)) == [(0, 7, 1), (0, 9, 1), (8, 5, 1)]
    assert bench.ways == []


def test_with_overlapping_windows_those_that_are_passed_and_the_others_are_asked_for() -> None:
    bench = Bench(size=4, advance=2)
    bench.step((0, 3), (5, 3), (8, 3))
    assert bench.ways == [(4, 1)]
    assert bench.step(joint=(4, 1)) == [(0, 0, 1)]
    # l = 0 waits for its next window, l = 5 for l to pass it.
    assert bench.ways == [(4, 6), (6, 1)]


def test_a_group_without_the_other_time_waits_for_the_window_alone() -> None:
    bench = Bench(size=2)
    bench.step((None, 1))  # type: ignore[arg-type]
    assert (bench.ways, bench.waits) == ([], (1, 1, [(0, "r_ts", 2)]))
