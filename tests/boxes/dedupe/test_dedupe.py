"""Dedupe: the first passes at once, and is remembered exactly until the mark has passed it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.dedupe.workers import KEYS, DedupeEntryOp, DedupeOp
from penstock.operators import gathering
from penstock.operators.state.chunks import MERGE_CHUNKS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "double"}
Row = tuple[int, str | None, float | None]


def train(rows: list[Row], first: int) -> pa.Table:
    columns = [*zip(*rows, strict=True), range(first, first + len(rows))]
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.int64()]
    return pa.table([pa.array(c, t) for c, t in zip(columns, kinds, strict=True)], [*SCHEMA, SEQ])


class Bench:
    """One bucket of the box, fed batch by batch; each batch has an operator of its own, as in a run."""

    def __init__(self, **options: Any) -> None:
        self.box = box_of(source(SCHEMA).dedupe(**options))
        self.slots = MemorySlots()
        self.number = 0

    def batch(self, *rows: Row, mark: int = BEGINNING) -> list[Any]:
        operator = DedupeOp(self.box, self.slots)
        self.number += 1
        # Two tasks, and the trains of the second arrive first: only the numbers say what came first.
        for half, first in ((rows[len(rows) // 2 :], 200), (rows[: len(rows) // 2], 100)):
            entry = DedupeEntryOp(self.box, [frozenset(SCHEMA)])
            if half:
                entry.process(0, train(list(half), first))
            for part, tuples in entry.flush():
                operator.receive(part, stamped(tuples, self.number))
        tables = [table for _, table in operator.punctuate([Marks({"ts": mark})], 0)]
        self.released = operator.released
        assert operator.output_marks([Marks({"ts": mark})]) is None
        assert all({SEQ, ARRIVED} <= set(table.column_names) for table in tables)
        return [tuple(row.values())[:3] for table in tables for row in table.to_pylist()]

    def held(self) -> list[Any]:
        chunks = [c for parts in self.slots.held.values() for c in parts[KEYS]]
        return sorted(tuple(row.values()) for chunk in chunks for row in chunk.to_pylist())


def test_where_duplicates_are_few_the_holder_alone_looks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operators.groups.SAMPLED_ROWS", 1000)

    def sent(rows: list[Row]) -> int:
        entry = DedupeEntryOp(Bench(by="k").box, [frozenset(SCHEMA)])
        entry.process(0, train(rows, 0))
        return sum(tuples.num_rows for _, tuples in entry.flush())

    few: list[Row] = [(at - at % 50 // 49, "a", float(at)) for at in range(4000)]
    assert len({row[0] for row in few}) == 3920
    assert sent(few) == 4000
    assert sent([(at // 2, "a", 0.0) for at in range(4000)]) == 2000
    passed = Bench(by="k").batch(*few)
    assert sorted(row[0] for row in passed) == sorted({row[0] for row in few})


def test_the_first_to_arrive_passes_and_later_ones_do_not() -> None:
    bench = Bench(by="k")
    assert bench.batch((5, "a", 1.0), (5, "b", 2.0), (5, "a", 3.0), (6, "a", 4.0)) == [
        (5, "a", 1.0),
        (5, "b", 2.0),
        (6, "a", 4.0),
    ]
    assert bench.batch((6, "a", 0.0), (6, "b", 0.0), (5, "a", 0.0)) == [(6, "b", 0.0)]
    assert bench.held() == [(5, "a"), (5, "b"), (6, "a"), (6, "b")]


def test_exactly_the_keys_that_no_mark_has_passed_are_held() -> None:
    bench, seen, rng = Bench(by="k"), set(), np.random.default_rng(4)
    passed = released = 0
    for mark in (BEGINNING, -900, -900, 0, 1, 1024, 50_000, 50_001, END):
        low = min(max(mark, -1000), 60_000)
        rows = [(int(t), str(k), 0.0) for t, k in zip(rng.integers(low, 70_000, 30), rng.integers(0, 3, 30))]  # noqa: B905
        passed += len(bench.batch(*rows, *rows[:9], mark=mark))
        seen |= {(t, k) for t, k, _ in rows}
        released += bench.released
        assert bench.held() == sorted((t, k) for t, k in seen if t >= mark and mark != END)
        assert bench.slots.rows() == passed - released
    assert passed == released == len(seen)


def test_nulls_and_floating_points_agree_as_groups_do() -> None:
    bench = Bench(by=["k", "v"])
    nan = float("nan")
    assert len(bench.batch((5, None, nan), (5, None, nan), (5, None, None), (5, "a", 0.0), (5, "a", -0.0))) == 3
    assert bench.batch((5, None, nan), (5, None, None), (5, "a", -0.0), (5, "a", None)) == [(5, "a", None)]


def test_all_attributes_count_unless_some_are_named() -> None:
    assert Bench().box.identity == ("ts", "k", "v")
    assert Bench(by=["v", "ts"]).box.identity == ("ts", "v")
    bench = Bench(by=())
    assert bench.batch((5, "a", 1.0), (5, "b", 2.0)) == [(5, "a", 1.0)]


def test_the_entry_removes_the_duplicates_of_its_own_tuples(monkeypatch: Any) -> None:
    monkeypatch.setattr(gathering, "REDUCE_ROWS", 4)
    entry = DedupeEntryOp(Bench(by="k").box, [frozenset({"v"})])
    for number in range(5):
        entry.process(0, train([(1, "a", float(number)), (number, "b", 0.0)], 10 * number))
    ((part, tuples),) = entry.flush()
    assert part == "0"
    assert tuples.column_names == ["ts", "k", "v", SEQ]
    assert tuples[SEQ].to_pylist() == [0, 1, 11, 21, 31, 41]
    assert list(entry.flush()) == []


def test_only_segments_in_which_something_arrives_are_read() -> None:
    bench = Bench(by="k")
    bench.batch(*((t, "a", 0.0) for t in range(0, 40_000, 1000)), mark=0)
    bench.slots.reads = 0
    assert bench.batch((5_000, "a", 0.0), (5_000, "b", 0.0)) == [(5_000, "b", 0.0)]
    assert bench.slots.reads == 1
    assert bench.batch((5_000, "b", 0.0)) == []


def test_a_segment_gathers_few_chunks() -> None:
    bench = Bench(by="k")
    for number in range(3 * MERGE_CHUNKS):
        bench.batch((number, "a", 0.0))
    assert bench.slots.rows() == 3 * MERGE_CHUNKS
    assert all(len(parts[KEYS]) < MERGE_CHUNKS for parts in bench.slots.held.values())


def test_keys_found_in_segments_of_any_length() -> None:
    bench = Bench(by="k")
    bench.batch((5, "a", 0.0), (10**12, "a", 0.0))
    assert bench.batch((5, "a", 0.0), (6, "a", 0.0)) == [(6, "a", 0.0)]
    assert bench.batch((6, "a", 0.0), (10**12, "a", 0.0)) == []
    assert len({slot % 64 for slot in bench.slots.numbers()}) == 2
