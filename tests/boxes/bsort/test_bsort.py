"""BSort: what leaves when, in which order, and what stays in the buffers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.operators.scripted import box_of, source, stamped

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.bsort.holder import AT_THE_END, TUPLES, BSortOp
from penstock.operators.forward import ForwardOp
from penstock.operators.state.lowest_ticks import LowestTicks
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
COLUMNS = frozenset(SCHEMA)
Row = tuple[int, str | None, int | None]


class Bench:
    """One bucket of the box, fed batch by batch; each batch has an operator of its own, as in a run."""

    def __init__(self, *, needed: frozenset[str] = COLUMNS, **options: Any) -> None:
        self.box = box_of(source(SCHEMA).bsort(**options))
        self.slots = MemorySlots()
        self.needed = [needed]
        self.number = 0

    def batch(self, *rows: Row, mark: int = BEGINNING, ended: bool = False) -> pa.Table:
        operator = BSortOp(self.box, self.slots, self.needed)
        self.number += 1
        if rows:
            entry = ForwardOp(self.box, self.needed)
            columns = [*zip(*rows, strict=True), range(100 * self.number, 100 * self.number + len(rows))]
            kinds = [pa.int64(), pa.string(), pa.int64(), pa.int64()]
            entry.process(0, pa.table([pa.array(c, t) for c, t in zip(columns, kinds, strict=True)], [*SCHEMA, SEQ]))
            for part, tuples in entry.flush():
                operator.receive(part, stamped(tuples, self.number))
        marks = [Marks({"ts": mark}, ended=ended)]
        tables = [table for _, table in operator.punctuate(marks, 0)]
        self.stated = operator.output_marks(marks)
        self.released = operator.released
        return pa.concat_tables(tables) if tables else self.box.schema(0).empty_table()


def test_a_full_buffer_gives_up_its_smallest_the_earliest_of_equal_ones() -> None:
    bench = Bench(on="v", slack=2)
    leaving = bench.batch((1, "a", 5), (2, "b", 3), (3, "c", 3), (4, "d", 9))
    assert leaving["k"].to_pylist() == ["b", "c"]
    # They leave when the third and the fourth arrive.
    assert leaving[SEQ].to_pylist() == [102, 103]
    assert bench.slots.rows() == 2
    leaving = bench.batch((5, "e", 1))
    assert (leaving["k"].to_pylist(), leaving[SEQ].to_pylist()) == (["e"], [200])
    assert bench.released == 1


def test_the_end_lets_go_of_what_is_buffered_after_everything_else() -> None:
    bench = Bench(on="v", slack=2)
    bench.batch((1, "a", 5), (2, "b", 3))
    leaving = bench.batch((3, "c", 4), mark=END, ended=True)
    assert leaving["k"].to_pylist() == ["b", "c", "a"]
    assert leaving[SEQ].to_pylist() == [200, AT_THE_END, AT_THE_END + 1]
    assert bench.slots.rows() == 0
    assert bench.released == 3


def test_the_end_may_come_alone_and_without_progress() -> None:
    bench = Bench(on="v", slack=9)
    bench.batch((1, "a", 5), (2, "b", 3))
    assert bench.batch(ended=True)["k"].to_pylist() == ["b", "a"]
    assert bench.batch(ended=True).num_rows == 0


def test_null_is_smaller_than_any_value() -> None:
    bench = Bench(on="v", slack=1)
    assert bench.batch((1, "a", -(2**63)), (2, "b", None), (3, "c", 0))["k"].to_pylist() == ["a", "b"]
    bench = Bench(on="v", slack=1)
    assert bench.batch((1, "a", 0), (2, "b", None), (3, "c", 0))["k"].to_pylist() == ["b", "a"]


def test_each_group_has_a_buffer_of_its_own() -> None:
    bench = Bench(on="v", slack=1, by="k")
    leaving = bench.batch((1, "a", 5), (2, None, 9), (3, "a", 4), (4, None, 3), (5, "b", 1))
    assert leaving.select(["k", "v"]).to_pylist() == [{"k": "a", "v": 4}, {"k": None, "v": 3}]
    assert bench.slots.rows() == 3
    leaving = bench.batch(ended=True)
    assert leaving["v"].to_pylist() == [5, 1, 9]
    assert set(leaving[SEQ].to_pylist()) == {AT_THE_END}


def test_a_group_holds_no_more_than_the_slack() -> None:
    for slack in (0, 1, 3):
        bench, seen = Bench(on="v", slack=slack, by="k"), {"a": 0, "b": 0}
        for number, group in enumerate("aabaaabbab"):
            bench.batch((number, group, (number * 7) % 5))
            seen[group] += 1
            assert bench.slots.rows() == sum(min(slack, n) for n in seen.values())


def test_what_is_buffered_holds_progress_back() -> None:
    bench = Bench(on="v", slack=1)
    bench.batch((10, "a", 9), mark=10)
    assert bench.stated == Marks({"ts": 10})
    bench.batch((20, "b", 1), mark=20)
    # b has left, a is still there with ts 10.
    assert bench.stated.of("ts") == 10
    bench.batch((30, "c", 9), mark=30)
    assert bench.stated.of("ts") == 30
    bench.batch(mark=40)
    assert bench.stated.of("ts") == 30
    bench.batch(mark=END, ended=True)
    assert bench.stated == Marks({"ts": END}, ended=True)


def test_an_empty_buffer_holds_nothing_back() -> None:
    bench = Bench(slack=0)
    bench.batch((10, "a", 9), mark=10)
    assert bench.stated.of("ts") == 10
    assert bench.slots.rows() == 0


def test_tuples_keep_the_time_of_their_own_arrival() -> None:
    bench = Bench(on="v", slack=1)
    bench.batch((1, "a", 5))
    assert bench.batch((2, "b", 7), (3, "c", 1))[ARRIVED].to_pylist() == [1, 2]


def test_only_needed_columns_leave() -> None:
    bench = Bench(on="v", slack=0, needed=frozenset({"k"}))
    assert bench.batch((1, "a", 5)).column_names == ["k", ARRIVED, SEQ]


def test_groups_that_are_not_met_are_neither_read_nor_rewritten() -> None:
    bench = Bench(on="v", slack=2, by="k")
    bench.batch(*((n, f"host{n}", n) for n in range(90)))
    before = {slot: chunks[TUPLES] for slot, chunks in bench.slots.held.items() if TUPLES in chunks}
    bench.slots.reads = 0
    bench.batch((91, "host7", 1), mark=50)
    changed = [slot for slot, chunks in before.items() if bench.slots.held[slot][TUPLES] is not chunks]
    assert len(changed) == 1
    assert bench.slots.reads == 2  # the ledger and one slot
    assert bench.stated.of("ts") == 0


def test_the_ledger_is_no_row_and_survives() -> None:
    slots, ledger = MemorySlots(), LowestTicks()
    ledger.note(5, pa.table({"ts": [4, 2]}), ["ts"])
    ledger.note(5, pa.table({"ts": [3]}), ["ts"], added=True)
    ledger.note(-3, pa.table({"ts": [9]}), ["ts"])
    ledger.save(slots)
    assert slots.rows() == 0
    known = LowestTicks.load(slots)
    assert known == ledger
    assert known.least("ts") == 2
    known.note(5, pa.table({"ts": pa.array([None], pa.int64())}), ["ts"])
    assert known.least("ts") == 9
    assert LowestTicks.load(MemorySlots()).least("ts") == END
