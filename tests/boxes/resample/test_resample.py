"""Both halves of Resample: what is sent, when results leave, and exactly what is held in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.scripted import box_of

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.resample import workers as module
from penstock.boxes.resample.box import Resample
from penstock.boxes.resample.frontier import LARGEST
from penstock.boxes.resample.workers import ResampleEntryOp, ResampleOp
from penstock.testing.memory_slots import MemorySlots

LEFT = {"at": "int64", "w": "double"}
RIGHT = {"k": "string", "ts": "int64", "v": "int64", "note": "string"}

Right = tuple[str | None, int | None, int]


def box_for(outputs: dict[str, str], **options: Any) -> Resample:
    net = pk.Network("net")
    left = net.source("left", pk.memory([], schema=LEFT), on="at")
    right = net.source("right", pk.memory([], schema=RIGHT), on="ts")
    box: Resample = box_of(left.resample(right, outputs, **{"size": 10, "by": "k", **options}))
    return box


class Bench:
    """A holder at work: batch by batch, each on a new operator over the same slots, as a stage does it."""

    def __init__(self, outputs: dict[str, str] | None = None, **options: Any) -> None:
        self.box = box_for(outputs or {"sum": "sum(v)"}, **options)
        self.slots = MemorySlots()
        self.needed = [frozenset(self.box.schema(port).names) for port in range(len(self.box.ports))]
        self.released = 0
        self.late: list[tuple[Any, ...]] = []
        self.seq: list[int] = []
        self.arrived: list[int] = []

    def batch(
        self, left: list[int], right: list[Right], marks: tuple[int, int], *, arrived: int = 0
    ) -> list[tuple[Any, ...]]:
        """Left tuples arrive before right ones; then the marks of both sides are told."""
        entry, operator = ResampleEntryOp(self.box, self.needed), ResampleOp(self.box, self.slots, self.needed)
        if left:
            entry.process(0, numbered(pa.table({"at": left, "w": [float(t) for t in left]}), 0))
        if right:
            k, ts, v = zip(*right, strict=True)
            kinds = (pa.string(), pa.int64(), pa.int64(), pa.string())
            columns = [pa.array(c, t) for c, t in zip((k, ts, v, ["!"] * len(k)), kinds, strict=True)]
            entry.process(1, numbered(pa.table(columns, list(RIGHT)), 1000))
        for part, tuples in entry.flush():
            stamp = pa.repeat(pa.scalar(arrived, pa.int64()), tuples.num_rows)
            operator.receive(part, tuples.append_column(ARRIVED, stamp))
        known = [Marks({"at": marks[0]}), Marks({"ts": marks[1]})]
        found: list[tuple[Any, ...]] = []
        for port, table in operator.punctuate(known, now=0):
            assert ARRIVED in table.column_names
            rows = [tuple(row.values()) for row in table.select(self.box.schema(port).names).to_pylist()]
            if port == Resample.LATE:
                self.late += rows
            else:
                found += rows
                self.arrived += table[ARRIVED].to_pylist()
                self.seq += table[SEQ].to_pylist() if SEQ in table.column_names else []
        self.released += operator.released
        return found

    def held(self, part: str) -> list[int]:
        """The times of the tuples that are held of a side, sorted."""
        on = dict(zip(Resample.PARTS, self.box.on, strict=True))
        chunks = [c for parts in self.slots.held.values() for c in parts.get(part, [])]
        return sorted(t for c in chunks for t in c[on[part]].to_pylist())


def numbered(tuples: pa.Table, first: int) -> pa.Table:
    return tuples.append_column(SEQ, pa.array(np.arange(first, first + tuples.num_rows)))


def test_only_the_columns_that_are_needed_are_sent_and_held() -> None:
    box = box_for({"sum": "sum(v)"})
    entry = ResampleEntryOp(box, [frozenset(box.schema(0).names)])
    entry.process(0, numbered(pa.table({"at": [1], "w": [0.5]}), 0))
    entry.process(1, numbered(pa.table({"k": ["x"], "ts": [1], "v": [1], "note": ["n"]}), 0))
    assert {part: tuples.column_names for part, tuples in entry.flush()} == {"left": ["at"], "right": ["k", "ts", "v"]}
    assert list(entry.flush()) == []


def test_late_tuples_travel_whole_but_are_not_held_so() -> None:
    bench = Bench(assuming=pk.order("ts", by="k"))
    entry = ResampleEntryOp(bench.box, bench.needed)
    entry.process(1, numbered(pa.table({"k": ["x"], "ts": [1], "v": [1], "note": ["n"]}), 0))
    ((_, sent),) = entry.flush()
    assert sent.column_names == [*RIGHT, SEQ]
    bench.batch([], [("x", 5, 1)], (BEGINNING, BEGINNING))
    (chunk,) = (c for parts in bench.slots.held.values() for c in parts.get("right", []))
    assert sorted(chunk.column_names) == sorted(["k", "ts", "v", ARRIVED])


def test_a_result_leaves_once_when_the_right_mark_is_beyond_its_window() -> None:
    bench = Bench()
    assert bench.batch([100], [("x", 90, 1), ("x", 110, 2), ("y", 111, 4)], (100, 110)) == []
    # At 110 another tuple of the window may come; beyond, none.
    assert bench.batch([], [("x", 110, 8)], (100, 111)) == [("x", 100, 11)]
    assert bench.batch([], [], (100, 200)) == []
    assert bench.batch([], [], (END, END)) == []


@pytest.mark.parametrize(("time", "inside"), [(89, False), (90, True), (110, True), (111, False)])
def test_a_window_reaches_exactly_as_far_as_its_size_on_both_sides(time: int, inside: bool) -> None:
    bench = Bench()
    found = bench.batch([100], [("x", time, 1)], (END, END))
    assert found == ([("x", 100, 1)] if inside else [])


def test_a_size_of_nothing_takes_equal_times() -> None:
    bench = Bench(size=0)
    assert bench.batch([5, 6], [("x", 5, 1), ("x", 7, 2), ("y", 6, 3)], (END, END)) == [("x", 5, 1), ("y", 6, 3)]


def test_results_are_a_bag_and_leave_by_time_then_group() -> None:
    bench = Bench()
    found = bench.batch([7, 5, 7], [("y", 6, 1), (None, 6, 2), ("x", 6, 3)], (END, END))
    assert found == [
        ("x", 5, 3),
        ("y", 5, 1),
        (None, 5, 2),
        *[("x", 7, 3)] * 2,
        *[("y", 7, 1)] * 2,
        *[(None, 7, 2)] * 2,
    ]


def test_without_groups_there_is_one_window_around_a_tuple() -> None:
    bench = Bench({"n": "count(*)", "mid": "median(v)"}, by=())
    assert bench.batch([0, 50], [("x", 1, 4), ("y", -3, 6)], (END, END)) == [(0, 2, 5.0)]
    assert bench.released == 4


def test_exactly_what_is_still_needed_is_held() -> None:
    """Size 10. Heartbeats at 100 and 150; a right tuple in no window is let go of when none can come around it.

    ```
    ts    90  100 110     125     140  150  160
          [----H----]             [-----H----]
    right 91   105        125     141
    ```
    """
    bench = Bench()
    right = [("x", 91, 1), ("x", 105, 2), ("y", 125, 4), ("x", 141, 8)]
    assert bench.batch([100], right, (100, BEGINNING)) == []
    assert (bench.held("left"), bench.held("right")) == ([100], [91, 105, 125, 141])
    # The left stream moves on: 125 would be needed by heartbeats from 115 on, 91 and 105 are awaited by the first.
    bench.batch([], [], (136, BEGINNING))
    assert (bench.held("left"), bench.held("right")) == ([100], [91, 105, 141])
    assert bench.released == 1
    bench.batch([150], [], (150, 110))
    assert (bench.held("left"), bench.held("right")) == ([100, 150], [91, 105, 141])
    assert bench.batch([], [], (150, 111)) == [("x", 100, 3)]
    assert (bench.held("left"), bench.held("right")) == ([150], [141])
    # What comes for a window that is complete, or for none, is not even taken in.
    bench.batch([], [("y", 120, 1), ("y", 150, 1)], (170, 120))
    assert (bench.held("left"), bench.held("right")) == ([150], [141, 150])
    assert bench.batch([], [], (170, END)) == [("x", 150, 8), ("y", 150, 1)]
    assert (bench.held("left"), bench.held("right"), bench.slots.rows()) == ([], [], 0)
    assert bench.released == 6


def test_right_tuples_wait_for_left_ones_that_may_still_come() -> None:
    bench = Bench()
    bench.batch([], [("x", 5, 1), ("x", 30, 2)], (10, END))
    assert bench.held("right") == [5, 30]
    bench.batch([], [], (15, END))
    assert bench.held("right") == [5, 30]
    bench.batch([], [], (16, END))
    assert bench.held("right") == [30]
    # The window of a tuple that comes now is complete at once.
    assert bench.batch([20, 40], [], (40, END)) == [("x", 20, 2), ("x", 40, 2)]
    assert bench.held("left") == []


def test_nothing_is_lost_at_the_ends_of_the_scale() -> None:
    last, first = 2**63 - 2, -(2**63) + 1
    bench = Bench(size=100)
    found = bench.batch([first, last], [("x", first, 1), ("x", last, 2), ("x", last - 100, 4)], (last, last))
    assert found == [("x", first, 1)]
    assert bench.batch([], [], (END, END)) == [("x", last, 6)]


def test_a_tuple_without_a_time_is_near_nothing() -> None:
    bench = Bench(by=())
    assert bench.batch([5], [("x", None, 1), ("x", 5, 2)], (END, END)) == [(5, 2)]
    assert bench.released == 3


def test_the_oldest_contribution_dates_a_result() -> None:
    bench = Bench()
    bench.batch([], [("x", 3, 1), ("z", 900, 1)], (0, 0), arrived=100)
    bench.batch([4], [("y", 2, 1)], (4, 4), arrived=200)
    assert bench.batch([], [("x", 6, 1), ("y", 7, 1)], (4, END), arrived=300) == [("x", 4, 2), ("y", 4, 2)]
    assert bench.arrived == [100, 200]
    older = Bench()
    older.batch([4], [], (4, 0), arrived=50)
    assert older.batch([], [("x", 3, 1)], (4, END), arrived=60) == [("x", 4, 1)]
    assert older.arrived == [50]


def test_segments_that_nothing_happens_to_are_not_read() -> None:
    bench = Bench(size=1)
    bench.batch([], [("x", t, 1) for t in range(0, 100_000, 100)], (0, 0))
    parts = len(bench.slots.held)
    assert parts > 4
    bench.slots.reads = 0
    assert bench.batch([50_000], [], (50, END)) == [("x", 50_000, 1)]
    # The segment of the window for the result, and once more with the first one for what is not needed any more.
    assert bench.slots.reads <= 4
    assert len(bench.slots.held) == parts


# --- with an order specification --------------------------------------------------------------------------------------


def test_a_group_is_complete_when_its_own_tuples_show_it() -> None:
    """Slack 1: two tuples beyond the window must have come."""
    bench = Bench(assuming=pk.order("ts", slack=1, by="k"))
    none = (BEGINNING, BEGINNING)
    assert bench.batch([100], [("x", 95, 1), ("y", 99, 2), ("x", 111, 4)], none) == []
    assert bench.batch([], [("x", 110, 8), ("y", 111, 16), ("x", 112, 32)], none) == [("x", 100, 9)]
    assert bench.batch([], [("y", 300, 64)], none) == [("y", 100, 2)]
    assert bench.batch([], [("x", 400, 1), ("y", 400, 1)], none) == []
    # A group that is not known yet may still have tuples for it, so the left tuple stays.
    assert bench.held("left") == [100]
    assert bench.batch([], [("z", 109, 5)], none) == []
    assert bench.batch([], [], (BEGINNING, 111)) == [("z", 100, 5)]
    assert bench.held("left") == []
    assert bench.late == []


def test_tuples_further_out_of_order_than_the_slack_leave_whole_by_the_late_port() -> None:
    bench = Bench(assuming=pk.order("ts", slack=1, by="k"))
    right = [("x", 5, 1), ("x", 8, 2), ("x", 9, 3), ("x", 7, 4), ("y", 7, 5), ("x", None, 6), ("x", 8, 7)]
    bench.batch([6], right, (BEGINNING, BEGINNING))
    assert bench.late == [("x", 7, 4, "!"), ("x", None, 6, "!")]
    assert bench.batch([], [("x", 7, 8)], (BEGINNING, END)) == [("x", 6, 13), ("y", 6, 5)]
    assert bench.late[2:] == [("x", 7, 8, "!")]
    assert bench.released == 3
    assert bench.held("right") == [5, 7, 8, 8, 9]


def test_results_of_a_batch_leave_in_the_order_in_which_they_are_complete() -> None:
    """Arrivals are numbered 0, 1, ... on the left and 1000, 1001, ... on the right."""
    bench = Bench(assuming=pk.order("ts", by="k"))
    bench.batch([100], [("x", 100, 1), ("y", 101, 2), ("z", 90, 3)], (BEGINNING, BEGINNING))
    right = [("w", 100, 4), ("y", 111, 5), ("x", 150, 6), ("w", 200, 7)]
    found = bench.batch([100, 140], right, (BEGINNING, 112))
    assert found == [
        *[("y", 100, 2)] * 2,  # 1001: y at 111
        *[("x", 100, 1)] * 2,  # 1002: x at 150
        *[("w", 100, 4)] * 2,  # 1003: w at 200
        *[("z", 100, 3)] * 2,  # by the low-water mark, after all arrivals
    ]
    assert bench.seq == [1001, 1001, 1002, 1002, 1003, 1003, END, END]


def test_a_left_tuple_that_comes_after_its_window_is_complete_completes_it() -> None:
    bench = Bench(assuming=pk.order("ts", by="k"))
    bench.batch([], [("x", 100, 1), ("x", 120, 2)], (0, BEGINNING))
    assert bench.batch([7, 105], [("x", 130, 3)], (0, BEGINNING)) == [("x", 105, 1)]
    assert bench.seq == [1]
    assert bench.batch([], [("x", 140, 3)], (0, BEGINNING)) == []


def test_a_left_tuple_that_comes_after_the_low_water_mark_has_passed_its_window_completes_it() -> None:
    bench = Bench(assuming=pk.order("ts", by="k"))
    bench.batch([], [("x", 100, 1)], (0, 200))
    assert bench.batch([105, 95], [("x", 250, 2)], (0, 260)) == [("x", 105, 1), ("x", 95, 1)]
    assert bench.seq == [0, 1]


def test_right_tuples_of_a_group_that_is_complete_are_let_go_of_though_the_left_one_waits() -> None:
    bench = Bench(assuming=pk.order("ts", by="k"))
    bench.batch([100], [("x", 100, 1), ("y", 100, 2)], (120, BEGINNING))
    assert bench.held("right") == [100, 100]
    assert bench.batch([], [("x", 111, 4)], (120, BEGINNING)) == [("x", 100, 1)]
    assert (bench.held("left"), bench.held("right")) == ([100], [100, 111])
    bench.batch([], [], (122, BEGINNING))
    assert bench.held("right") == [100]


def test_what_the_low_water_mark_has_passed_is_not_remembered_of_the_order() -> None:
    bench = Bench(assuming=pk.order("ts", slack=2, by="k"))

    def remembered() -> int:
        return sum(c.num_rows for parts in bench.slots.held.values() for c in parts.get(LARGEST, []))

    bench.batch([], [("x", t, 1) for t in (1, 2, 3, 4)] + [("y", 2, 1)], (0, 0))
    assert remembered() == 4
    bench.batch([], [("x", 5, 1), ("y", 9, 1)], (0, 3))
    assert remembered() == 3
    bench.batch([], [], (0, END))
    assert remembered() == 0


# --- many results -----------------------------------------------------------------------------------------------------


def test_results_are_made_piece_by_piece_and_leave_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    left = rng.integers(0, 500, 200).tolist()
    right = [(str(k), int(t), int(v)) for k, t, v in rng.integers(0, (4, 500, 99), (300, 3))]
    whole = Bench({"n": "count(*)", "far": "sum(abs(l.at - ts))"}).batch(left, right, (END, END))
    monkeypatch.setattr(module, "RESULTS", 50)
    assert Bench({"n": "count(*)", "far": "sum(abs(l.at - ts))"}).batch(left, right, (END, END)) == whole
    near = {(k, a): [t for g, t, _ in right if g == k and abs(a - t) <= 10] for k in "0123" for a in left}
    assert sorted(whole) == sorted(
        (k, a, len(ts), sum(abs(a - t) for t in ts)) for k in "0123" for a in left if (ts := near[k, a])
    )
    assert [(a, k) for k, a, *_ in whole] == sorted((a, k) for k, a, *_ in whole)
