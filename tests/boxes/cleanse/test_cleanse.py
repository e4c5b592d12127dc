"""Cleanse and Merge: what waits, what the mark lets go of, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.bsort.holder import TUPLES
from penstock.boxes.cleanse.holder import CleanseOp
from penstock.operators.forward import ForwardOp
from penstock.operators.state.chunks import MERGE_CHUNKS
from penstock.operators.state.slots_by_time import MOST_SEGMENTS, SlotsByTime
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string"}
Row = tuple[int, str | None]


class Bench:
    """One bucket of the box, fed batch by batch; each batch has an operator of its own, as in a run."""

    def __init__(self, stream: pk.Stream) -> None:
        self.box = box_of(stream)
        self.slots = MemorySlots()
        self.columns = self.box.schema(0).names
        self.number = 0

    def batch(self, *inputs: Sequence[tuple[Any, ...]], mark: int | tuple[int, ...], ended: bool = False) -> Any:
        needed = [frozenset(self.columns)]
        operator, entry = CleanseOp(self.box, self.slots, needed), ForwardOp(self.box, needed)
        self.number += 1
        for slot, rows in enumerate(inputs):
            if rows:
                columns = [*zip(*rows, strict=True), range(100 * self.number, 100 * self.number + len(rows))]
                kinds = [*self.box.schema(0).types, pa.int64()]
                arrays = [pa.array(c, t) for c, t in zip(columns, kinds, strict=True)]
                entry.process(slot, pa.table(arrays, [*self.columns, SEQ]))
        for part, tuples in entry.flush():
            operator.receive(part, stamped(tuples, self.number))
        given = mark if isinstance(mark, tuple) else (mark,) * len(self.box.inputs)
        together = zip(self.box.inputs, given, strict=True)
        marks = [Marks(dict.fromkeys(port.progressing, m), ended=ended) for port, m in together]
        tables = [table for _, table in operator.punctuate(marks, 0)]
        self.stated, self.released = operator.output_marks(marks), operator.released
        self.needs = operator.needs(marks)
        self.leaving = tables[0] if tables else None
        return [tuple(row.values())[: len(self.columns)] for table in tables for row in table.to_pylist()]

    def waiting(self) -> list[Any]:
        chunks = [c for parts in self.slots.held.values() for c in parts.get(TUPLES, [])]
        return sorted(value for chunk in chunks for value in chunk[self.columns[0]].to_pylist())


def one() -> Bench:
    return Bench(source(SCHEMA).cleanse())


def two() -> Bench:
    net = pk.Network("net")
    return Bench(pk.merge(*(net.source(name, pk.memory([], schema=SCHEMA)) for name in ("left", "right"))))


def test_tuples_leave_in_order_when_the_mark_has_reached_them() -> None:
    bench = one()
    assert bench.batch([(8, "a"), (3, "b"), (9, "c"), (3, "d")], mark=7) == [(3, "b"), (3, "d")]
    assert bench.waiting() == [8, 9]
    assert bench.batch([(7, "e")], mark=8) == [(7, "e"), (8, "a")]
    assert bench.leaving[SEQ].to_pylist() == [0, 1]
    assert bench.leaving[ARRIVED].to_pylist() == [2, 1]
    assert bench.batch([(8, "f")], mark=END, ended=True) == [(8, "f"), (9, "c")]
    assert (bench.waiting(), bench.released) == ([], 2)


def test_exactly_what_no_mark_has_reached_waits() -> None:
    bench, all_ticks, rng = one(), [], np.random.default_rng(2)
    for mark in (BEGINNING, -3000, -3000, 0, 5, 1024, 1025, 90_000, 10**15):
        rows = [(int(t), "x") for t in rng.integers(min(max(mark, -5000), 190_000), 200_000, 20)]
        all_ticks += [t for t, _ in rows]
        bench.batch(rows, mark=mark)
        assert bench.waiting() == sorted(t for t in all_ticks if t > mark)


def test_before_any_mark_all_wait() -> None:
    bench = one()
    assert bench.batch([(-(2**63), "a"), (2**63 - 1, "b")], mark=BEGINNING) == []
    assert bench.batch(mark=END) == [(-(2**63), "a"), (2**63 - 1, "b")]


def test_ties_of_a_batch_leave_in_order_of_input_then_of_arrival() -> None:
    bench = two()
    assert bench.batch([(5, "l1")], [(5, "r1")], mark=4) == []
    assert bench.batch([(5, "l2")], [(5, "r2"), (4, "r0")], mark=4) == [(4, "r0")]
    assert bench.batch([], [(5, "r3")], mark=(9, 6)) == [(5, "l1"), (5, "l2"), (5, "r1"), (5, "r2"), (5, "r3")]


def test_simultaneous_tuples_are_not_held_back() -> None:
    """One at the mark of all inputs leaves at once; its ties leave when they come, of whichever input."""
    bench = two()
    assert bench.batch([(5, "l1"), (6, "l2")], [(5, "r1")], mark=(6, 5)) == [(5, "l1"), (5, "r1")]
    assert bench.waiting() == [6]
    assert bench.batch([], [(5, "r2")], mark=(6, 5)) == [(5, "r2")]
    assert bench.batch([(6, "l3")], [(6, "r3")], mark=(6, 6)) == [(6, "l2"), (6, "l3"), (6, "r3")]
    assert bench.waiting() == []


def test_it_waits_for_the_mark_to_reach_the_smallest_tuple() -> None:
    bench = two()
    bench.batch([(5, "l1"), (9, "l2")], [], mark=(9, 4))
    assert bench.needs == [(0, "ts", 5), (1, "ts", 5)]
    bench.batch([], [], mark=(9, 9))
    assert bench.needs == []


def test_the_slowest_input_decides() -> None:
    bench = two()
    assert bench.batch([(5, "l")], [(3, "r")], mark=(100, BEGINNING)) == []
    assert bench.stated.of("ts") == BEGINNING
    assert bench.batch(mark=(100, 4)) == [(3, "r")]
    assert bench.stated.of("ts") == 4
    assert bench.batch(mark=(100, 50)) == [(5, "l")]


def test_ties_of_segments_of_different_lengths_leave_as_they_came() -> None:
    """The first batch reaches far and has long segments, the second short ones: arrival still decides."""
    bench = one()
    bench.batch([(50, "first"), (900_000, "far")], mark=0)
    bench.batch([(50, "second")], mark=0)
    assert bench.batch([(50, "third")], mark=50) == [(50, "first"), (50, "second"), (50, "third")]


def test_waiting_tuples_are_not_rewritten() -> None:
    bench = one()
    bench.batch([(5000, "a")], mark=0)
    (slot,) = [s for s, parts in bench.slots.held.items() if TUPLES in parts]
    (first,) = bench.slots.held[slot][TUPLES]
    bench.slots.reads = 0
    for number in range(MERGE_CHUNKS - 2):
        bench.batch([(5000, "b"), (number, "now")], mark=number + 1)
    assert bench.slots.held[slot][TUPLES][0] is first
    assert bench.slots.reads == MERGE_CHUNKS - 2  # only the ledger
    bench.batch([(5000, "c")], mark=10)
    assert len(bench.slots.held[slot][TUPLES]) == 1


def test_a_mark_that_stands_still_touches_nothing() -> None:
    bench = one()
    bench.batch([(5, "a"), (9, "b")], mark=7)
    bench.slots.reads = 0
    assert bench.batch(mark=7) == []
    assert bench.slots.reads == 1  # the ledger


def test_groups_of_different_buckets_share_one_order_of_departure() -> None:
    bench = Bench(source(SCHEMA).cleanse(by="k"))
    assert bench.batch([(7, "a"), (3, "b"), (5, "a")], mark=END) == [(3, "b"), (5, "a"), (7, "a")]
    assert bench.leaving[SEQ].to_pylist() == [3, 5, 7]


def test_other_attributes_are_held_back_by_what_waits() -> None:
    stream = source(SCHEMA).map(ts="ts", minute="ts / 60", k="k")
    bench = Bench(stream.cleanse(on="ts"))
    assert bench.box.progressing(0) == ("ts", "minute")
    bench.batch([(120, 2, "a"), (700, 11, "b")], mark=600)
    assert bench.stated == Marks({"ts": 600, "minute": 11})
    bench.batch(mark=END, ended=True)
    assert bench.stated == Marks({"ts": END, "minute": END}, ended=True)


@pytest.mark.parametrize(
    ("kind", "ticks"),
    [
        (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
        (pa.timestamp("s"), [-(2**63), 2**63 - 1, 0]),
        (pa.timestamp("us"), [0, 60_000_000, 59_999_999, -1]),
        (pa.timestamp("ns"), [0, 10**18]),
        (pa.date32(), [-(2**31), 2**31 - 1, 0, 1]),
        (pa.date64(), [0, 86_400_000]),
        (pa.int64(), list(range(0, 1024 * 200, 1000))),
    ],
)
def test_a_slot_covers_what_is_in_it(kind: pa.DataType, ticks: list[int]) -> None:
    slots = SlotsByTime(kind)
    found = slots.slots_of(np.array(ticks, np.int64)).tolist()
    for tick, slot in zip(ticks, found, strict=True):
        low, high = slots.span(slot)
        assert low <= tick < high
    assert len(set(found)) <= MOST_SEGMENTS
    assert slots.slots_of(np.array([ticks[0]])).tolist() == slots.at_level(np.array([ticks[0]]), 0).tolist()
