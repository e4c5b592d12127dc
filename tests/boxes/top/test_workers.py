"""Top at work: what is sent, what is kept, and what leaves when."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.top.workers import TUPLES, TopEntryOp, TopOp
from penstock.operators import gathering
from penstock.operators.state.chunks import MERGE_CHUNKS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
Row = tuple[int, str | None, int | None]


class Bench:
    """A Top box with both its workers."""

    def __init__(self, n: int = 2, **options: Any) -> None:
        self.box = box_of(source(SCHEMA).top(n, by="v", **{"size": 10, "groups": "k", **options}))
        self.needed = (frozenset(self.box.schema(0).names),)
        self.slots = MemorySlots()
        self.operator = TopOp(self.box, self.slots, self.needed)
        self._seq = 0

    def sent(self, rows: list[Row]) -> pa.Table:
        """What an entry makes of tuples."""
        columns = list(zip(*rows, strict=True))
        table = pa.table(
            [pa.array(c, t) for c, t in zip(columns, (pa.int64(), pa.string(), pa.int64()), strict=True)], list(SCHEMA)
        )
        table = table.append_column(SEQ, pa.array(range(self._seq, self._seq + len(rows)), pa.int64()))
        self._seq += len(rows)
        entry = TopEntryOp(self.box, self.needed)
        entry.process(0, table)
        ((part, tuples),) = entry.flush()
        assert part == TUPLES
        return tuples

    def batch(self, rows: list[Row], mark: int) -> list[tuple[Any, ...]]:
        """Let tuples arrive, and then a mark; what leaves, without `ARRIVED`."""
        if rows:
            self.operator.receive(TUPLES, stamped(self.sent(rows)))
        marks = [Marks({"ts": mark}, ended=mark == END)]
        tables = [table for _, table in self.operator.punctuate(marks, 0)]
        assert all(ARRIVED in table.column_names for table in tables)
        return [tuple(row.values()) for table in tables for row in table.drop_columns([ARRIVED]).to_pylist()]


def test_an_entry_sends_no_more_than_can_be_among_the_best() -> None:
    sent = Bench().sent([(1, "a", 5), (2, "a", 9), (3, "a", 7), (4, "b", 1), (11, "a", 1), (5, "a", None)])
    assert sent.select(list(SCHEMA)).to_pylist() == [
        {"ts": 2, "k": "a", "v": 9},
        {"ts": 3, "k": "a", "v": 7},
        {"ts": 4, "k": "b", "v": 1},
        {"ts": 11, "k": "a", "v": 1},
    ]


def test_an_entry_reduces_what_it_has_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "REDUCE_ROWS", 3)
    bench = Bench(n=1)
    entry = TopEntryOp(bench.box, bench.needed)
    for seq, value in enumerate([3, 1, 4, 1, 5, 9, 2, 6]):
        row = {"ts": [seq], "k": ["a"], "v": [value], SEQ: [seq]}
        entry.process(0, pa.table(row))
    ((_, tuples),) = entry.flush()
    assert tuples["v"].to_pylist() == [9]


def test_windows_leave_when_the_mark_has_reached_their_end() -> None:
    """Two of each window and group; a window that is open says nothing.

    ts      1  3  5  7  9 | 11
    a       4     8     6
    b          2     .
    """
    bench = Bench()
    assert bench.batch([(1, "a", 4), (3, "b", 2), (5, "a", 8), (7, "b", None)], 9) == []
    assert bench.slots.rows() == 4
    assert bench.operator.needs([Marks({"ts": 9})]) == [(0, "ts", 10)]
    assert bench.operator.open_windows([Marks({"ts": 9})]) == 1
    left = bench.batch([(9, "a", 6), (11, "a", 1)], 10)
    assert sorted(left) == [(0, 1, 3, "b", 2), (0, 1, 5, "a", 8), (0, 2, 7, "b", None), (0, 2, 9, "a", 6)]
    assert bench.slots.rows() == 1
    assert bench.batch([], END) == [(10, 1, 11, "a", 1)]
    assert bench.slots.rows() == 0


def test_the_smallest_can_be_wanted_and_what_has_no_value_comes_last() -> None:
    bench = Bench(n=3, ascending=True, groups=())
    left = bench.batch([(1, "a", None), (2, "a", 5), (3, "b", 2), (4, "b", 9)], END)
    assert left == [(0, 1, 3, "b", 2), (0, 2, 2, "a", 5), (0, 3, 4, "b", 9)]
    assert Bench(n=9, groups=()).batch([(1, "a", None), (2, "b", 5)], END) == [(0, 1, 2, "b", 5), (0, 2, 1, "a", None)]


def test_of_equal_ones_the_earlier_is_better_and_then_the_first_to_arrive() -> None:
    bench = Bench(n=3, groups=())
    bench.batch([(5, "first", 7), (4, "earlier", 7)], BEGINNING)
    left = bench.batch([(5, "second", 7), (4, "too", 7)], END)
    assert [row[3] for row in left] == ["earlier", "too", "first"]


def test_windows_that_overlap_share_what_is_kept() -> None:
    """Windows of 4 every 2: the best of a pane is among the best of both its windows."""
    bench = Bench(n=1, size=4, advance=2, groups=())
    left = bench.batch([(0, "a", 1), (2, "b", 9), (4, "c", 3), (6, "d", 4)], 6)
    assert left == [(-2, 1, 0, "a", 1), (0, 1, 2, "b", 9), (2, 1, 2, "b", 9)]
    assert bench.batch([], END) == [(4, 1, 6, "d", 4), (6, 1, 6, "d", 4)]


def test_what_lies_between_windows_is_in_none() -> None:
    bench = Bench(size=2, advance=10, groups=())
    assert bench.batch([(1, "a", 1), (5, "b", 9), (-5, "c", 9), (10, "d", 2)], END) == [
        (0, 1, 1, "a", 1),
        (10, 1, 10, "d", 2),
    ]


def test_state_is_bounded_by_the_best_of_each_pane_and_group() -> None:
    bench = Bench(n=2, groups=())
    for value in range(10 * MERGE_CHUNKS):
        bench.batch([(1, "a", value)], BEGINNING)
        assert bench.slots.count(0, TUPLES) < MERGE_CHUNKS
        assert bench.slots.rows() < MERGE_CHUNKS + 2
    assert [row[4] for row in bench.batch([], END)] == [10 * MERGE_CHUNKS - 1, 10 * MERGE_CHUNKS - 2]
    assert bench.operator.released == 10 * MERGE_CHUNKS
