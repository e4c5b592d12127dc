"""Assume: who is out of order, what is remembered of each group, and what the order says of progress."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.assume.holder import LARGEST, VALUE, AssumeOp
from penstock.boxes.assume.verb import assume
from penstock.operators.forward import ForwardOp
from penstock.operators.groups import GROUP_SLOTS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
COLUMNS = frozenset(SCHEMA)


class Bench:
    """One bucket of the box, fed batch by batch."""

    def __init__(self, order: Any) -> None:
        self.box = box_of(assume(source(SCHEMA), order))
        self.slots = MemorySlots()
        self.arrived = 0

    def batch(self, *rows: tuple[str | None, int | None], mark: int = BEGINNING, ended: bool = False) -> Any:
        """(values that pass, values that are late) of one batch, by a fresh operator."""
        operator = AssumeOp(self.box, self.slots)
        if rows:
            entry = ForwardOp(self.box, [COLUMNS, COLUMNS])
            seq = range(self.arrived, self.arrived + len(rows))
            columns = [list(seq), [k for k, _ in rows], [v for _, v in rows], list(seq)]
            kinds = [pa.int64(), pa.string(), pa.int64(), pa.int64()]
            arrays = [pa.array(c, t) for c, t in zip(columns, kinds, strict=True)]
            entry.process(0, pa.table(arrays, [*SCHEMA, SEQ]))
            self.arrived += len(rows)
            for part, tuples in entry.flush():
                operator.receive(part, stamped(tuples, self.arrived))
        marks = [Marks({"ts": mark}, ended=ended)]
        leaving = dict(operator.punctuate(marks, 0))
        self.marks: Marks = operator.output_marks(marks)
        assert operator.released == len(rows)
        assert all(ARRIVED in table.column_names for table in leaving.values())
        return tuple(leaving[port]["v"].to_pylist() if port in leaving else [] for port in (0, 1))

    def held(self) -> dict[str | None, list[int]]:
        found: dict[str | None, list[int]] = {}
        for slot in self.slots.numbers():
            (chunk,) = self.slots.held[slot][LARGEST]
            for row in chunk.to_pylist():
                found.setdefault(row.get("k"), []).append(row[VALUE])
        return found


def test_the_slack_plus_one_largest_values_decide() -> None:
    bench = Bench(pk.order("v", slack=1))
    assert bench.batch(("a", 5), ("a", 7), ("b", 6)) == ([5, 7, 6], [])
    assert bench.held() == {None: [6, 7]}
    # Below 6 there are two larger ones, more than the slack of one.
    assert bench.batch(("a", 5), ("a", 6), ("a", 9), ("a", 6), ("a", 8)) == ([6, 9, 8], [5, 6])
    assert bench.held() == {None: [8, 9]}


def test_groups_are_judged_each_on_its_own_and_null_is_a_group() -> None:
    bench = Bench(pk.order("v", by="k"))
    assert bench.batch(("a", 5), ("b", 1), (None, 3), ("a", 4), (None, 2), ("b", 1)) == ([5, 1, 3, 1], [4, 2])
    assert bench.held() == {"a": [5], "b": [1], None: [3]}
    assert bench.batch(("c", 0), (None, 3), ("b", 0)) == ([0, 3], [0])
    assert bench.held() == {"a": [5], "b": [1], None: [3], "c": [0]}


def test_a_tuple_without_the_attribute_is_never_in_order() -> None:
    bench = Bench(pk.order("v", slack=9))
    assert bench.batch(("a", None), ("a", 1)) == ([1], [None])
    assert bench.batch(("a", None)) == ([], [None])
    assert bench.held() == {None: [1]}


def test_the_order_states_progress_where_there_are_no_groups() -> None:
    bench = Bench(pk.order("v", slack=1))
    assert bench.box.progressing(0) == ("ts", "v")
    assert bench.box.progressing(1) == ()
    bench.batch(("a", 5), mark=2)
    assert bench.marks == Marks({"ts": 2, "v": BEGINNING})
    bench.batch(("a", 9))
    assert bench.marks.of("v") == 5
    bench.batch()
    assert bench.marks.of("v") == 5
    bench.batch(("a", 7), ended=True, mark=END)
    assert bench.marks == Marks({"ts": END, "v": END}, ended=True)


def test_what_the_input_states_of_the_attribute_counts_too() -> None:
    bench = Bench(pk.order("ts", slack=1))
    bench.batch(("a", 0), ("a", 0), ("a", 0), mark=0)
    assert bench.marks.of("ts") == 1
    bench.batch(mark=10)
    assert bench.marks.of("ts") == 10


def test_with_groups_only_the_input_states_progress() -> None:
    bench = Bench(pk.order("v", by="k"))
    assert bench.box.progressing(0) == ("ts",)
    bench.batch(("a", 5), mark=3)
    assert bench.marks == Marks({"ts": 3})


def test_only_the_slots_of_groups_that_arrive_are_read() -> None:
    bench = Bench(pk.order("v", slack=2, by="k"))
    bench.batch(*((f"host{n}", n) for n in range(1000)))
    assert len(bench.slots.numbers()) == GROUP_SLOTS
    bench.slots.reads = 0
    bench.batch(("host7", 1), ("host7", 9))
    assert bench.slots.reads == 1
    assert bench.slots.rows() == 1002


@pytest.mark.parametrize("slack", [0, 3])
def test_as_much_is_held_as_the_slack_needs(slack: int) -> None:
    bench = Bench(pk.order("v", slack=slack, by="k"))
    seen = {"a": 0, "b": 0}
    for number, group in enumerate("aababbbaab"):
        bench.batch((group, number))
        seen[group] += 1
        assert {k: len(v) for k, v in bench.held().items()} == {k: min(slack + 1, n) for k, n in seen.items() if n}
