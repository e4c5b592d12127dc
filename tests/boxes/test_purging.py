"""What boxes hold of tuples that are of no use any more is let go of; what they still give stays the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.boxes.test_rooms import declarations, imported
from tests.operators.scripted import box_of, stamped

import penstock as pk
from penstock.algebra.box import Box, Stateful
from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.aggregate.joint_holder import JointAggregateOp
from penstock.operators.protocol import Holder
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string"}
Tuples = Sequence[tuple[int, str]]
TEN: Tuples = [(ts, "ab"[ts % 2]) for ts in range(10)]


class Bench:
    """One bucket of a box that is made of two streams; each batch has workers of its own, as in a run."""

    def __init__(self, build: Callable[[pk.Stream, pk.Stream], pk.Stream]) -> None:
        net = pk.Network("net")
        left, right = (net.source(name, pk.memory([], schema=SCHEMA)) for name in "lr")
        self.box = box_of(build(left, right))
        self.slots = MemorySlots()
        self.needed = tuple(frozenset(self.box.schema(port).names) for port in range(len(self.box.ports)))
        self.purged = 0
        self.arrivals = 0

    def batch(self, *inputs: Tuples, marks: Sequence[int] = (), floors: Sequence[Floors] = ()) -> list[Any]:
        """What leaves."""
        holder, entry = self.box.holder(self.slots, self.needed), self.box.entry(self.needed)
        for slot, rows in enumerate(inputs):
            if rows:
                entry.process(slot, self._table(rows, slot))
        for part, tuples in entry.flush():
            holder.receive(part, stamped(tuples))
        if floors:
            self.purged = holder.purge(floors)
        reached = [*marks, *[BEGINNING] * (len(self.box.inputs) - len(marks))]
        stated = [
            Marks(dict.fromkeys(port.progressing, mark), ended=mark == END)
            for mark, port in zip(reached, self.box.inputs, strict=True)
        ]
        tables = [t.drop_columns([ARRIVED, *({SEQ} & {*t.column_names})]) for _, t in holder.punctuate(stated, now=0)]
        self.waits, self.open = list(holder.needs(stated)), holder.open_windows(stated)
        self.ways = holder.ways(stated)
        return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=str)

    def _table(self, rows: Tuples, slot: int) -> pa.Table:
        ticks, keys = zip(*rows, strict=True)
        self.arrivals += len(rows)
        seq = pa.array(range(self.arrivals - len(rows), self.arrivals), pa.int64())
        schema = self.box.inputs[slot].schema
        columns = {"ts": pa.array(ticks, pa.int64()), "k": pa.array(keys, pa.string())}
        by_name = {name: columns[name.rpartition("_")[2]] for name in schema.names}
        return pa.table({**by_name, SEQ: seq})


def counted(stream: pk.Stream, **options: Any) -> pk.Stream:
    return stream.aggregate({"n": "count(*)"}, on="ts", **options)


def called(stream: pk.Stream) -> pk.Stream:
    """Windows of 4 every 2, by a function that must see no window before 6."""

    def last(window: Any) -> tuple[int]:
        assert min(window["ts"]) >= 6
        return (max(window["ts"]),)

    function = pk.window_function(final=last, returns={"last": "int64"}, columns="ts")
    return stream.aggregate(function, on="ts", size=4, advance=2)


def joined(left: pk.Stream, right: pk.Stream, **options: Any) -> pk.Stream:
    return left.join(right, "l.k = r.k", on="ts", band=(2, 4), **options)


ONE = [{"ts": 6}]


@pytest.mark.parametrize(
    ("build", "floors", "purged", "left"),
    [
        pytest.param(lambda a, b: counted(a, size=2), ONE, 6, 2, id="aggregate: panes"),
        pytest.param(lambda a, b: counted(a, size=2, by="k"), ONE, 6, 4, id="aggregate of groups"),
        pytest.param(lambda a, b: counted(a, size=4, advance=2), ONE, 6, 2, id="aggregate: windows that overlap"),
        pytest.param(lambda a, b: called(a), ONE, 6, 4 + 2, id="aggregate: whole tuples beside partial rows"),
        pytest.param(lambda a, b: a.top(1, by="ts", on="ts", size=2), ONE, 3, 2, id="top: the best of panes"),
        pytest.param(lambda a, b: a.cleanse(on="ts"), [{"ts": 5}], 5, 5, id="cleanse"),
        pytest.param(lambda a, b: pk.merge(a, b, on="ts"), [{"ts": 5}, {"ts": 5}], 10, 10, id="merge"),
        pytest.param(lambda a, b: a.dedupe(on="ts", by="k"), [{"ts": 5}], 5, 5, id="dedupe"),
        pytest.param(lambda a, b: joined(a, b), [{"ts": 7}, {"ts": 5}], 7 + 5, 3 + 5, id="join: each side by its own"),
        pytest.param(lambda a, b: joined(a, b), [{"ts": 7}, {}], 7, 3 + 10, id="join: one side"),
        pytest.param(
            lambda a, b: a.resample(b, {"n": "count(*)"}, size=2, on=("ts", "ts")),
            [{"ts": 7}, {"ts": 5}],
            7 + 5,
            3 + 5,
            id="resample",
        ),
        pytest.param(
            lambda a, b: a.resample(b, {"n": "count(*)"}, size=2, on=("ts", "ts"), by="k"),
            [{"ts": 7}, {"ts": 5}],
            5,
            3 + 5,
            id="resample of groups: left tuples are in every bucket, and count in none",
        ),
    ],
)
def test_state_shrinks(
    build: Callable[[pk.Stream, pk.Stream], pk.Stream], floors: Sequence[Floors], purged: int, left: int
) -> None:
    bench = Bench(build)
    both = [TEN] * len(bench.box.inputs)
    bench.batch(*both)
    before = bench.slots.rows()
    bench.batch(floors=[NO_FLOORS] * len(both))
    assert (bench.purged, bench.slots.rows()) == (0, before)
    bench.batch(floors=floors)
    assert (bench.purged, bench.slots.rows()) == (purged, left)
    bench.batch(floors=floors)
    assert (bench.purged, bench.slots.rows()) == (0, left)
    bench.batch(floors=[dict.fromkeys(floor, END) for floor in floors])
    assert bench.slots.rows() == (0 if all(floors) else 10)


def test_windows_that_begin_before_the_floor_are_not_computed() -> None:
    #  0 1 2 3 4 5 6 7 8 9
    #          [-----)           begins before 6, though it has tuples from 6 on
    #              [-----)
    bench = Bench(lambda a, b: called(a))
    bench.batch(TEN)
    bench.batch(floors=ONE)
    assert (bench.open, bench.waits) == (2, [(0, "ts", 10)])
    assert bench.batch(marks=[20], floors=ONE) == [(6, 9), (8, 9)]


def test_a_buffered_aggregate_forgets_tuples_by_their_last_window() -> None:
    bench = Bench(lambda a, b: counted(a, size=4, advance=2))
    bench.box = bench.box.in_order()
    bench.batch(TEN)
    bench.batch(floors=ONE)
    assert (bench.purged, bench.slots.rows()) == (6, 4)
    assert bench.batch(marks=[20], floors=ONE) == [(6, 4), (8, 2)]


def test_an_aggregate_of_pairs_forgets_panes_and_what_it_notes_of_them() -> None:
    bench = Bench(lambda a, b: joined(a, b).aggregate({"n": "count(*)"}, on="l_ts", by="r_ts", size=2))
    assert isinstance(bench.box.holder(bench.slots, bench.needed), JointAggregateOp)
    bench.batch(TEN)
    bench.batch(floors=[{"l_ts": 6}])
    assert (bench.purged, bench.slots.rows(), bench.open) == (6, 4, 2)
    assert bench.waits == [(0, "l_ts", 8)]
    assert [sorted(way.values()) for way in bench.ways] == [[7, 8]]
    assert bench.batch(marks=[20]) == [(6, 6, 1), (6, 7, 1), (8, 8, 1), (8, 9, 1)]


def test_tuples_that_are_of_no_use_do_not_leave_alone() -> None:
    bench = Bench(lambda a, b: joined(a, b, how="left"))
    bench.batch(TEN)
    bench.batch(floors=[{"ts": 7}, {"ts": 5}])
    assert bench.batch([], [(8, "b")], marks=[END, END]) == [(7, "b", 8, "b"), (8, "a", None, None), (9, "b", 8, "b")]


def test_a_sort_lets_go_of_the_rest_in_its_order() -> None:
    bench = Bench(lambda a, b: a.cleanse(on="ts"))
    bench.batch(TEN[::-1])
    bench.batch(floors=[{"ts": 5}])
    assert bench.waits == [(0, "ts", 5)]
    assert bench.batch(marks=[7]) == [(5, "b"), (6, "a"), (7, "b")]


def test_what_is_of_use_is_still_known_to_be_a_duplicate() -> None:
    bench = Bench(lambda a, b: a.dedupe(on="ts", by="k"))
    bench.batch(TEN)
    bench.batch(floors=[{"ts": 5}])
    assert bench.batch([(5, "b"), (5, "a"), (9, "b")]) == [(5, "a")]


KEEP = {
    "BSort": "a tuple leaves because others come",
    "LowLevel": "an entry leaves because others come",
    "Assume": "what came says who is late",
    "GroupMarks": "what came says how far its group is",
    "LeastMarks": "it holds marks, not tuples",
    "GroupwiseAggregate": "tuples open windows, or say how far their group is",
    "AsFacts": "events may still be revised",
    "Legal": "events may still be revised",
    "OpenClose": "events may still be revised",
    "TemporalJoin": "events may still be revised",
}
"""Boxes whose results are not a matter of time alone, and why."""
DROP_BY_THEMSELVES = ("LMerge",)
"""They hold nothing that is below their own floor."""


@pytest.mark.parametrize("box", [b for b in declarations() if issubclass(b, Stateful)], ids=lambda box: box.__name__)
def test_a_box_that_holds_state_purges_it_or_says_why_not(box: type[Box]) -> None:
    has_rule = box.useful_from is not Box.useful_from
    assert has_rule is (box.__name__ not in KEEP)
    holders = [getattr(importlib.import_module(module), name) for module, name in imported(box, "holder")]
    purges = has_rule and box.__name__ not in DROP_BY_THEMSELVES
    assert all((holder.purge is not Holder.purge) is purges for holder in holders)
