"""Windows that open or close group by group: what leaves when, who is late, and what state every batch leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from tests.operators.scripted import box_of, source, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.state.chunks import GATHER_CHUNKS
from penstock.plan.compile import compile_network
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
SECOND = 1_000_000


class Box:
    """A box under test: every batch has an operator of its own, and they share the state."""

    def __init__(self, outputs: Any = None, **arguments: Any) -> None:
        self.box = box_of(source(SCHEMA).aggregate(outputs or {"n": "count(*)"}, **arguments))
        self.needed = tuple(frozenset(self.box.schema(port).names) for port in range(len(self.box.ports)))
        self.slots = MemorySlots()
        self.operator: Any = None
        self.released = 0
        self.late: list[tuple[Any, ...]] = []

    def batch(self, *rows: tuple[int | None, str | None, int], mark: int = BEGINNING, now: int = 0) -> list[Any]:
        """One batch: rows in order of arrival, the low-water mark, the clock in seconds. What leaves by port 0."""
        self.operator = self.box.holder(self.slots, self.needed)
        self.marks = [Marks({"ts": mark}, ended=mark == END)]
        if rows:
            kinds = (pa.int64(), pa.string(), pa.int64())
            columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), kinds, strict=True)]
            tuples = pa.table([*columns, np.arange(len(rows))], names=[*SCHEMA, SEQ])
            low = self.box.entry(self.needed)
            # Trains come in an order that says nothing of arrival.
            low.process(0, tuples.slice(len(rows) // 2))
            low.process(0, tuples.slice(0, len(rows) // 2))
            for part, table in low.flush():
                self.operator.receive(part, stamped(table, now * SECOND))
        left: list[Any] = []
        for port, table in self.operator.punctuate(self.marks, now * SECOND):
            names = [name for name in table.column_names if not name.startswith("#")]
            found = [tuple(row.values()) for row in table.select(names).to_pylist()]
            left += found if port == 0 else []
            self.late += found if port == 1 else []
        self.released += self.operator.released
        return sorted(left, key=lambda row: (row[0], str(row)))

    def held(self) -> dict[str, int]:
        """Rows of every part of the state."""
        counts: dict[str, int] = {}
        for parts in self.slots.held.values():
            for part, chunks in parts.items():
                counts[part] = counts.get(part, 0) + sum(chunk.num_rows for chunk in chunks)
        return {part: rows for part, rows in counts.items() if rows}

    def stated(self) -> Any:
        return self.operator.output_marks(self.marks)


# assuming=pk.order(...)


def test_a_window_leaves_when_slack_and_one_tuples_of_its_group_are_beyond_it() -> None:
    box = Box(size=10, by="k", assuming=pk.order("ts", 1, "k"))
    assert box.batch((1, "x", 0), (12, "x", 0), (25, "y", 0)) == []
    assert box.held() == {"partial": 3, "order": 3}
    # One tuple beyond is not enough for x, and those of y say nothing about it.
    assert box.batch((9, "x", 0), (26, "y", 0), (27, "y", 0)) == []
    assert box.batch((11, "x", 0)) == [(0, "x", 2)]
    # Of every group the slack + 1 largest values; of x the pane of 10, of y that of 20.
    assert box.held() == {"partial": 2, "order": 4}
    assert box.late == []
    assert box.batch(mark=END) == [(10, "x", 2), (20, "y", 3)]
    assert box.held() == {}
    assert box.released == 7


def test_a_tuple_with_more_than_slack_larger_ones_before_it_is_late() -> None:
    box = Box(size=10, by="k", assuming=pk.order("ts", 1, "k"))
    box.batch((5, "x", 1), (6, "x", 2), (4, "x", 3), (7, "x", 4), (4, "y", 5), (5, "x", 6))
    # 4 has two larger ones before it, and so has the second 5, although one of them came after the 4.
    assert box.late == [(4, "x", 3), (5, "x", 6)]
    box.batch((5, "x", 7), (6, "x", 8))
    assert box.late[2:] == [(5, "x", 7)]
    assert box.batch(mark=END) == [(0, "x", 4), (0, "y", 1)]
    assert box.released + len(box.late) == 8


def test_a_tuple_without_a_value_is_late() -> None:
    box = Box(size=10, assuming=pk.order("ts"))
    assert box.batch((1, "x", 1), (None, "x", 2), (2, "x", 3)) == []
    assert box.late == [(None, "x", 2)]
    assert box.batch(mark=END) == [(0, 2)]


def test_the_frontier_of_a_coarser_order_closes_the_windows_of_all_its_groups() -> None:
    box = Box(size=10, by="k", assuming=pk.order("ts"))
    assert box.batch((1, "x", 0), (2, "y", 0)) == []
    assert box.batch((10, "z", 0)) == [(0, "x", 1), (0, "y", 1)]
    assert box.held() == {"partial": 1, "order": 1}
    box.batch((9, "y", 0))
    assert box.late == [(9, "y", 0)]


def test_the_low_water_mark_closes_nothing_where_order_is_assumed() -> None:
    box = Box(size=10, assuming=pk.order("ts", 2))
    assert box.batch((1, "x", 0), mark=50) == []
    assert box.batch(mark=END) == [(0, 1)]


def test_an_end_without_tuples_finds_an_order_of_which_no_group_is_left() -> None:
    box = Box(size=1, advance=5, by="k", assuming=pk.order("ts"))
    assert box.batch((5, "a", 0)) == []
    # The second tuple closes the window of the first, and lies in a gap itself: what is kept is its value alone.
    assert box.batch((9, "a", 0)) == [(5, "a", 1)]
    assert box.held() == {"order": 1}
    assert box.batch(mark=END) == []
    assert box.held() == {}


def test_what_is_stated_of_an_assumed_order() -> None:
    box = Box(size=10, advance=5, assuming=pk.order("ts", 1))
    box.batch((12, "x", 0))
    # Nothing is known of what follows; then the frontier is 12: windows from 5 on are open.
    assert box.stated() == Marks({"ts": BEGINNING})
    assert box.batch((31, "x", 0)) == []
    assert box.stated() == Marks({"ts": 5})
    assert box.batch((33, "x", 0)) == [(5, 1), (10, 1)]
    assert box.stated() == Marks({"ts": 25})
    # The input's own mark is as good, but what is held may still leave.
    box.batch(mark=90)
    assert box.stated() == Marks({"ts": 25})
    box.batch(mark=END)
    assert box.stated() == Marks({"ts": END})


# on=pk.TUPLE_NUMBER


def test_a_window_of_tuples_leaves_when_it_is_full() -> None:
    box = Box({"n": "count(*)", "s": "sum(v)"}, on=pk.TUPLE_NUMBER, size=3, advance=2, by="k")
    assert box.batch((9, "x", 1), (3, "x", 2), (7, "y", 10)) == []
    # Panes of one tuple: those of open windows alone are held, and the count of every group.
    assert box.held() == {"partial": 3, "counts": 2}
    assert box.batch((1, "x", 3), (2, "x", 4)) == [(1, "x", 3, 6)]
    assert box.held() == {"partial": 3, "counts": 2}
    assert box.batch((0, "x", 5)) == [(3, "x", 3, 12)]
    assert box.held() == {"partial": 2, "counts": 2}
    assert box.batch(mark=END) == []
    assert box.held() == {}
    assert box.released == 6


def test_windows_of_tuples_that_are_not_full_leave_at_the_end_if_asked_to() -> None:
    box = Box(on=pk.TUPLE_NUMBER, size=3, by="k", partial=True)
    assert box.batch((0, "x", 0), (0, "x", 0), (0, "x", 0), (0, "x", 0), (0, "y", 0)) == [(1, "x", 3)]
    assert box.batch(mark=END) == [(1, "y", 1), (4, "x", 1)]


def test_windows_of_tuples_with_gaps_let_go_of_what_is_in_a_gap() -> None:
    box = Box({"s": "sum(v)"}, on=pk.TUPLE_NUMBER, size=1, advance=3)
    assert box.batch(*[(0, "x", n) for n in range(1, 6)]) == [(1, 1), (4, 4)]
    assert box.held() == {"counts": 1}
    assert box.released == 5
    assert box.stated() == Marks({"Tup#": 7})


def test_what_is_stated_of_tuple_numbers() -> None:
    box = Box(on=pk.TUPLE_NUMBER, size=3, advance=2)
    box.batch()
    assert box.stated() == Marks({"Tup#": 1})
    box.batch((0, "x", 0), (0, "x", 0), (0, "x", 0))
    assert box.stated() == Marks({"Tup#": 3})
    by_groups = Box(on=pk.TUPLE_NUMBER, size=3, by="k")
    by_groups.batch((0, "x", 0))
    assert by_groups.stated() is None


# origin="first"


def test_the_origin_moves_until_no_smaller_value_can_come() -> None:
    box = Box(size=10, origin="first", by="k")
    assert box.batch((17, "x", 0), (19, "x", 0), (24, "x", 0), (40, "y", 0)) == []
    # Windows could still start anywhere, so every value is apart.
    assert box.held() == {"partial": 4, "origins": 2}
    assert box.batch((13, "x", 0), mark=12) == []
    # [13, 23) has three, [23, 33) one.
    assert box.batch(mark=23) == [(13, "x", 3)]
    assert box.batch((43, "x", 0), mark=33) == [(23, "x", 1)]
    assert box.held() == {"partial": 2, "origins": 2}
    assert box.batch(mark=END) == [(40, "y", 1), (43, "x", 1)]
    assert box.held() == {}


def test_once_the_origin_is_settled_values_become_panes() -> None:
    box = Box(size=10, advance=5, origin="first")
    box.batch((3, "x", 0), (4, "x", 0), (9, "x", 0), mark=2)
    assert box.held() == {"partial": 3, "origins": 1}
    box.batch((5, "x", 0), (8, "x", 0), mark=3)
    # [3, 8) and [8, 13)
    assert box.held() == {"partial": 2, "origins": 1}
    # No window starts before the origin; 8 starts one although 3 does too.
    assert box.batch(mark=END) == [(3, 5), (8, 2)]


def test_what_is_stated_of_windows_from_the_first_value() -> None:
    box = Box(size=10, advance=4, origin="first")
    box.batch(mark=3)
    # The first value may be 3, and starts the first window.
    assert box.stated() == Marks({"ts": 3})
    box.batch((9, "x", 0), (7, "x", 0), mark=5)
    assert box.stated() == Marks({"ts": 5})
    box.batch(mark=7)
    assert box.stated() == Marks({"ts": 7})
    assert box.batch(mark=18) == [(7, 2)]
    # [11, 21), [15, 25) ... are open; what is held does not matter.
    assert box.stated() == Marks({"ts": 11})
    box.batch(mark=40)
    assert box.stated() == Marks({"ts": 31})
    by_groups = Box(size=10, advance=4, origin="first", by="k")
    by_groups.batch((7, "x", 0), mark=30)
    # The windows of another group may start anywhere.
    assert by_groups.stated() == Marks({"ts": 21})


# advance="predicate"


def test_a_predicate_opens_a_window_at_each_value_of_a_group() -> None:
    box = Box({"n": "count(*)", "s": "sum(v)"}, size=10, advance="v = 0", by="k")
    assert box.batch((5, "x", 1), (3, "x", 0), (3, "x", 0), (7, "y", 2), mark=0) == []
    # The window [3, 13) of x. All values may still get a window of their own, so all are kept.
    assert box.held() == {"partial": 3, "openings": 1}
    assert box.operator.open_windows(box.marks) == 1
    assert box.stated() == Marks({"ts": 0})
    assert box.batch((9, "x", 0), (12, "x", 3), mark=8) == []
    # y's 7 can be in no window any more; x's are in [3, 13) and [9, 19).
    assert box.held() == {"partial": 4, "openings": 2}
    assert box.stated() == Marks({"ts": 3})
    assert box.batch(mark=13) == [(3, "x", 5, 4)]
    assert box.held() == {"partial": 2, "openings": 1}
    assert box.stated() == Marks({"ts": 9})
    assert box.batch(mark=END) == [(9, "x", 2, 3)]
    assert box.held() == {}
    assert box.released == 6


def test_a_predicate_opens_windows_of_tuples() -> None:
    box = Box({"s": "sum(v)"}, on=pk.TUPLE_NUMBER, size=3, advance="v > 10")
    assert box.batch((0, "x", 1), (0, "x", 20), (0, "x", 30)) == []
    # The first tuple is in no window, and none that opens later can hold it.
    assert box.held() == {"partial": 2, "openings": 2, "counts": 1}
    assert box.batch((0, "x", 2)) == [(2, 52)]
    assert box.stated() == Marks({"Tup#": 3})
    assert box.batch((0, "x", 3)) == [(3, 35)]
    assert box.stated() == Marks({"Tup#": 6})
    assert box.held() == {"counts": 1}


# timeout=


def test_a_window_that_has_waited_too_long_leaves_and_what_follows_is_late() -> None:
    box = Box(size=10, by="k", timeout="5 seconds")
    assert box.batch((1, "x", 0), (2, "y", 0), now=100) == []
    assert box.operator.wake() == 105 * SECOND + 1
    assert box.batch((3, "x", 0), now=105) == []
    assert box.batch((4, "y", 0), (14, "y", 0), now=106) == [(0, "x", 2), (0, "y", 1)]
    assert box.late == [(4, "y", 0)]
    # The pane of 10, and which windows are gone: until the mark passes their ends.
    assert box.held() == {"partial": 1, "gone": 2}
    assert box.operator.wake() == 111 * SECOND + 1
    assert box.operator.open_windows(box.marks) == 1
    assert box.batch((5, "x", 0), mark=10, now=107) == []
    assert box.late == [(4, "y", 0), (5, "x", 0)]
    assert box.batch(mark=20, now=107) == [(10, "y", 1)]
    assert box.held() == {}
    assert box.operator.wake() is None


def test_a_tuple_counts_in_the_windows_that_are_still_open() -> None:
    box = Box(size=10, advance=5, timeout="5 seconds")
    assert box.batch((3, "x", 0), now=0) == []
    assert box.batch(now=6) == [(-5, 1), (0, 1)]
    # 7 is in [0, 10), which is gone, and in [5, 15).
    assert box.batch((4, "x", 0), (7, "x", 0), now=7) == []
    assert box.late == [(4, "x", 0)]
    assert box.operator.open_windows(box.marks) == 1
    assert box.batch(mark=END, now=8) == [(5, 1)]


def test_the_clock_passes_before_tuples_come_even_in_one_batch() -> None:
    box = Box(size=10, timeout="5 seconds")
    box.batch((1, "x", 0), now=0)
    assert box.batch((2, "x", 0), now=9, mark=END) == [(0, 1)]
    assert box.late == [(2, "x", 0)]


def test_an_origin_stays_once_a_window_has_timed_out() -> None:
    box = Box(size=10, origin="first", timeout="5 seconds")
    box.batch((20, "x", 0), now=0)
    assert box.batch(now=6) == [(20, 1)]
    box.batch((15, "x", 0), (31, "x", 0), now=7)
    assert box.late == [(15, "x", 0)]
    assert box.batch(mark=END, now=7) == [(30, 1)]


def test_windows_of_tuples_time_out_before_they_are_full() -> None:
    box = Box(on=pk.TUPLE_NUMBER, size=3, timeout="5 seconds")
    box.batch((0, "x", 0), now=0)
    assert box.batch(now=6) == [(1, 1)]
    assert box.stated() == Marks({"Tup#": 4})
    assert box.batch((0, "x", 1), (0, "x", 2), (0, "x", 3), now=7) == []
    assert box.late == [(0, "x", 1), (0, "x", 2)]
    assert box.batch((0, "x", 4), (0, "x", 5), now=7) == [(4, 3)]


def test_results_know_when_their_first_tuple_arrived() -> None:
    box = Box(size=10, timeout="1 hour")
    box.batch((3, "x", 0), now=10)
    box.batch((1, "x", 0), now=20)
    operator = box.box.holder(box.slots, box.needed)
    ((_, table),) = operator.punctuate([Marks({"ts": END}, ended=True)], 30 * SECOND)
    assert table.column(ARRIVED).to_pylist() == [10 * SECOND]


# What it waits for


def test_windows_that_the_mark_closes_need_it_to_pass_the_end_of_the_first() -> None:
    for arguments in ({"origin": "first"}, {"timeout": "1 hour"}, {"advance": "v = 0"}):
        box = Box(size=10, **arguments)
        box.batch((11, "x", 0), (14, "x", 0))
        assert box.operator.needs(box.marks) == ((0, "ts", 20 if "timeout" in arguments else 21),)
        box.batch(mark=END)
        assert box.operator.needs(box.marks) == ()


def test_windows_that_arrival_closes_need_no_mark() -> None:
    for arguments in ({"assuming": pk.order("ts")}, {"on": pk.TUPLE_NUMBER}):
        box = Box(size=10, **arguments)
        box.batch((11, "x", 0))
        assert box.operator.needs(box.marks) == ()


# State


def test_slots_of_groups_that_nothing_happens_to_are_not_read() -> None:
    box = Box({"m": "median(v)"}, size=10, by="k", timeout="1 hour")
    box.batch(*[(1, f"g{n}", 0) for n in range(200)], mark=0)
    box.slots.reads = 0
    box.batch(mark=9)
    # The ledger alone says that nothing is due.
    assert box.slots.reads == 1
    box.slots.reads = 0
    box.batch((2, "g7", 0), mark=9)
    # The parts of one slot, of more than fifty.
    assert box.slots.reads <= 8
    assert len(box.batch(mark=10)) == 200


def test_held_values_gather_few_chunks() -> None:
    box = Box({"m": "median(v)"}, size=1000, assuming=pk.order("ts"))
    for n in range(70):
        box.batch((n, "x", n))
        assert box.slots.count(0, "h0") < GATHER_CHUNKS
    assert box.held() == {"partial": 1, "order": 1, "h0": 70}
    assert box.batch((1000, "x", 0)) == [(0, 34.5)]
    assert box.held() == {"partial": 1, "order": 1, "h0": 1}


def test_of_values_that_repeat_one_is_held() -> None:
    box = Box({"d": "count(DISTINCT v)"}, size=1000, by="k", assuming=pk.order("ts", by="k"))
    for n in range(10):
        box.batch((n, "x", n % 2), (n, "y", 7), (n, "y", 7))
        assert box.held()["h0"] == (2 if n == 0 else 3)
    assert box.batch(mark=END) == [(0, "x", 2), (0, "y", 1)]


def test_groups_with_marks_of_their_own_close_apart() -> None:
    net = pk.Network("net")
    rows = pk.memory([], schema={"ts": "int64", "k": "string", "v": "int64"})
    packets = net.source("in", rows, progress=pk.ordered(by="k"))
    packets.aggregate({"n": "count(*)"}, size=10, by=["k", "v"], name="counts").output("o")
    box: Any = next(b for b in compile_network(net.network).network.boxes if b.name == "counts")
    slots = MemorySlots()

    def step(tuples: list[tuple[int, str, int]], marks: list[tuple[str, int]], mark: int) -> list[tuple[Any, ...]]:
        needed = (frozenset(box.schema(0).names),)
        low, operator = box.entry(needed), box.holder(slots, needed)
        if tuples:
            low.process(0, pa.table([list(c) for c in zip(*tuples, strict=True)], names=["ts", "k", "v"]))
        if marks:
            low.process(1, pa.table([list(c) for c in zip(*marks, strict=True)], names=["k", "ts"]))
        for part, table in low.flush():
            operator.receive(part, stamped(table))
        found = [t for _, t in operator.punctuate([Marks({"ts": mark}), Marks()], now=0)]
        return sorted(tuple(row.values())[:4] for table in found for row in table.to_pylist())

    assert step([(1, "a", 0), (2, "a", 1), (3, "b", 0)], [("a", 2), ("b", 3)], 2) == []
    assert step([(12, "a", 0)], [("a", 12)], 3) == [(0, "a", 0, 1), (0, "a", 1, 1)]
    # One row of each group that waits, and the marks that were ahead of the stream when their slots were written.
    assert slots.rows() == 2 + 2
    assert step([], [], 3) == []
    assert step([], [("b", 10)], 10) == [(0, "b", 0, 1)]
    assert slots.rows() == 1 + 1
    assert step([], [], 20) == [(10, "a", 0, 1)]
    assert slots.rows() == 0
    assert step([], [("a", 15)], 25) == []
    assert slots.rows() == 0
