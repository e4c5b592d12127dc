"""The low level of an aggregate: what leaves it when, what it holds, and how far its punctuation may go."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.operators.scripted import box_of, source, stamped

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.boxes.aggregate.low_level.direct_table import DirectTable
from penstock.boxes.aggregate.low_level.holder import LowLevelOp
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


class Bench:
    """A low level over batches: each is a new operator over the same slots, as in a running network."""

    def __init__(self, **arguments: Any) -> None:
        window = {"size": 10, "by": "k", **arguments}
        self.box = box_of(source(SCHEMA).aggregate({"s": "sum(v)"}, on="ts", **window)).inputs[0].box
        self.slots = MemorySlots()
        self.released = 0

    def batch(self, rows: list[tuple[int, str, int]], mark: int, arrived: int = 0) -> list[tuple[int, str, int]]:
        self.op = LowLevelOp(self.box, self.slots)
        if rows:
            low = SubAggregateOp(self.box)
            columns = zip(*rows, strict=True)
            kinds = (pa.int64(), pa.string(), pa.int64())
            low.process(0, pa.table([pa.array(c, t) for c, t in zip(columns, kinds, strict=True)], list(SCHEMA)))
            for part, partials in low.flush():
                self.op.receive(part, stamped(partials, arrived))
        self.marks = [Marks({"ts": mark})]
        left = [table for port, table in self.op.punctuate(self.marks, now=0) if port == 0]
        self.released += self.op.released
        self.arrived = [t for table in left for t in table.column(ARRIVED).to_pylist()]
        rows = [row for table in left for row in table.to_pylist()]
        (value,) = self.box.aggregation.partial_schema.names
        return [(row["ts"], row["k"], int(row[value])) for row in rows]

    @property
    def held(self) -> int:
        return DirectTable(self.box, self.slots).entries.number

    @property
    def mark(self) -> int:
        return self.op.output_marks(self.marks).of("ts")


def test_a_group_and_window_is_updated_in_its_place_across_batches() -> None:
    low = Bench(flush="at-once", table=1000)
    assert low.batch([(1, "x", 1), (2, "y", 2)], 2) == []
    assert low.batch([(3, "x", 4), (9, "x", 8)], 9) == []
    assert low.held == 2
    assert sorted(low.batch([(12, "x", 16)], 12)) == [(0, "x", 13), (0, "y", 2)]
    assert low.held == 1
    assert low.released == 4


def test_a_collision_ejects_the_occupant() -> None:
    low = Bench(flush="lazy", table=1)
    assert low.batch([(1, "x", 1)], 1) == []
    assert low.batch([(2, "y", 2)], 2) == [(0, "x", 1)]
    assert low.batch([(11, "y", 4)], 11) == [(0, "y", 2)]
    assert low.held == 1
    assert low.batch([], END) == [(10, "y", 4)]
    assert (low.held, low.released) == (0, 3)


def test_punctuation_stays_at_the_oldest_window_that_is_held() -> None:
    low = Bench(flush="lazy", table=1000, delay=2)
    low.batch([(1, "x", 1)], 1)
    assert low.mark == 0
    assert low.batch([(13, "y", 1)], 13) == []
    assert low.mark == 0
    # The next tuple of the group takes the place, and nothing old is left.
    assert low.batch([(25, "x", 1)], 25) == [(0, "x", 1)]
    assert low.mark == 10
    assert low.batch([], 39) == []
    assert low.mark == 10
    assert low.batch([], 40) == [(10, "y", 1)]
    assert low.mark == 20
    assert low.batch([], END) == [(20, "x", 1)]
    assert low.mark == END


def test_before_anything_is_known_nothing_leaves() -> None:
    low = Bench(flush="slow", table=10, every=1)
    assert low.batch([(1, "x", 1)], BEGINNING) == []
    assert low.mark == BEGINNING
    assert low.op.needs(low.marks) == [(0, "ts", 30)]


def test_slow_flush_lets_old_entries_go_as_tuples_arrive() -> None:
    low = Bench(flush="slow", table=1000, every=2, delay=5)
    names = [f"g{i}" for i in range(6)]
    low.batch([(i, name, 1) for i, name in enumerate(names)], 5)
    # Of groups of their own, so that there are no collisions.
    left = low.batch([(12, "a", 1), (13, "b", 1), (14, "c", 1)], 14)
    assert len(left) == 1
    assert low.held == 5 + 3
    assert low.mark == 0
    left += low.batch([(15, "a", 1)], 15)
    assert len(left) == 2
    left += low.batch([(16, "a", 1)] * 8, 16)
    assert sorted(left) == sorted((0, name, 1) for name in names)
    assert low.mark == 10


def test_in_order_everything_old_leaves_before_a_new_entry_is_ejected() -> None:
    slow, ordered = Bench(flush="slow", table=2, every=1000), Bench(flush="in-order", table=2, every=1000)
    # Two groups with places of their own, and a third that collides with one of them.
    groups = {place(low, name): name for low in (slow,) for name in "abcdefgh"}
    first, second = groups[0], groups[1]
    third = next(name for name in "abcdefgh" if place(slow, name) == 0 and name != first)
    for low in (slow, ordered):
        assert low.batch([(1, first, 1), (2, second, 2)], 2) == []
        assert low.batch([(11, first, 4)], 11) == [(0, first, 1)]
    assert slow.batch([(12, third, 8)], 12) == [(10, first, 4)]
    assert ordered.batch([(12, third, 8)], 12) == [(0, second, 2), (10, first, 4)]
    assert (slow.mark, ordered.mark) == (0, 10)


def place(low: Bench, name: str) -> int:
    rows = pa.table({"k": [name]})
    return int(DirectTable(low.box, MemorySlots())._hashed(rows)[0])


def test_the_oldest_arrival_goes_along() -> None:
    low = Bench(flush="at-once", table=10)
    low.batch([(1, "x", 1)], 1, arrived=7)
    low.batch([(2, "x", 1)], 2, arrived=9)
    low.batch([], 10)
    assert low.arrived == [7]


def test_what_is_needed_is_the_mark_at_which_the_oldest_window_must_leave() -> None:
    for flush, tick in (("at-once", 10), ("slow", 30), ("lazy", 30), ("in-order", 20)):
        low = Bench(flush=flush, table=1000)
        low.batch([(1, "x", 1), (13, "y", 1)], 1)
        assert low.op.needs(low.marks) == [(0, "ts", tick)]
        low.batch([], tick)
        assert low.mark >= 10
        low.batch([], END)
        assert low.op.needs(low.marks) == ()


def test_sliding_windows_are_held_as_panes() -> None:
    # size 4, advance 2: the pane [2, 4) is needed by the window that ends at 4, and by the one that ends at 6.
    low = Bench(flush="lazy", table=1000, delay=1, size=4, advance=2)
    assert low.batch([(3, "x", 1), (5, "x", 2)], 5) == [(2, "x", 1)]
    assert low.batch([], 7) == []
    assert low.batch([], 8) == [(4, "x", 2)]


def test_the_table_never_holds_more_than_its_entries() -> None:
    for flush in ("at-once", "slow", "lazy", "in-order"):
        low = Bench(flush=flush, table=7)
        for at in range(0, 60, 3):
            low.batch([(at + i % 3, f"g{(at * 5 + i) % 23}", 1) for i in range(20)], at)
            assert low.held <= 7
        low.batch([], END)
        assert low.held == 0
        assert low.slots.rows() == 0
        assert low.released == 400
