"""What an aggregate with early results reads, writes and remembers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.operators.scripted import box_of, stamped

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING
from penstock.boxes.aggregate.speculative.holder import SAID
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "int64", "v": "double"}


class Driven:
    """An aggregate, batch by batch."""

    def __init__(self, outputs: dict[str, str], kind: str = "int64", **windows: Any) -> None:
        stream = pk.Network("net").source("in", pk.memory([], schema={**SCHEMA, "ts": kind}))
        self.box = box_of(stream.aggregate(outputs, on="ts", by="k", emit="speculative", **windows))
        self.slots = MemorySlots()

    def batch(self, rows: list[tuple[Any, ...]], mark: int = BEGINNING) -> list[tuple[Any, ...]]:
        holder, entry = self.box.holder(self.slots, ()), self.box.entry(())
        if rows:
            schema = self.box.inputs[0].schema
            columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), schema.types, strict=True)]
            entry.process(0, pa.table(columns, schema=schema))
        for part, tuples in entry.flush():
            holder.receive(part, stamped(tuples))
        names = self.box.schema(0).names
        left = [table for _, table in holder.punctuate([Marks({"ts": mark})], 0)]
        return [tuple(row.values()) for table in left for row in table.select(names).to_pylist()]

    def said(self) -> dict[int, int]:
        """How many rows lie in each slot of what was said."""
        parts = {slot: held.get(SAID, []) for slot, held in self.slots.held.items()}
        return {slot: sum(c.num_rows for c in chunks) for slot, chunks in parts.items() if chunks}


def test_only_panes_of_touched_windows_are_read_and_written() -> None:
    driven = Driven({"n": "count(*)"}, size=10)
    driven.batch([(10 * window, key, 0.0) for window in range(50) for key in range(20)])
    before = {slot: {part: list(c) for part, c in held.items()} for slot, held in driven.slots.held.items()}
    driven.slots.reads = 0
    assert [row[1] for row in driven.batch([(255, 7, 0.0)])] == ["adjust", "insert"]
    changed = [slot for slot, held in driven.slots.held.items() if held != before[slot]]
    assert changed == [25]
    assert driven.slots.reads < 10


def test_panes_that_overlapping_windows_share_change_all_of_these() -> None:
    driven = Driven({"n": "count(*)"}, size=6, advance=2)
    driven.batch([(0, 1, 0.0), (4, 2, 0.0)])
    found = driven.batch([(5, 1, 0.0)])
    assert [(row[1], row[2], row[-1]) for row in found] == [
        ("adjust", 0, 1),
        ("insert", 0, 2),
        ("insert", 2, 1),
        ("insert", 4, 1),
    ]


def test_what_was_said_is_kept_once_for_each_group_however_often_it_changes() -> None:
    driven = Driven({"n": "count(*)"}, size=10)
    for batch in range(40):
        driven.batch([(batch % 10, batch % 3, 0.0)])
        assert driven.said().keys() == {0}
        assert driven.said()[0] <= 3 + 8
    driven.batch([(11, 1, 0.0)], mark=10)
    assert driven.said() == {1: 1}
    driven.batch([], mark=20)
    assert driven.slots.rows() == 0


def test_what_is_withdrawn_is_what_was_said_bit_by_bit() -> None:
    """Sums of floating numbers depend on the order of panes and chunks."""
    driven, last = Driven({"total": "sum(v)"}, size=100, advance=100), None
    for number in range(30):
        found = driven.batch([(number, 1, 10.0 ** (number % 17)), (99 - number, 1, 0.1)])
        if last is not None:
            assert found[0] == (0, "adjust", 0, 0, 100, *last)
        last = found[-1][5:]


def test_values_that_are_not_numbers_are_the_same_again() -> None:
    driven = Driven({"top": "max(v)", "low": "min(v)"}, size=10)
    assert len(driven.batch([(1, 1, float("nan")), (1, 2, None)])) == 2
    assert driven.batch([(2, 1, float("nan")), (2, 2, None)]) == []


def test_an_end_that_the_type_has_no_value_for_is_infinity() -> None:
    driven = Driven({"n": "count(*)"}, "date32", size="7 days")
    latest = pa.array([2**31 - 2], pa.int32()).cast(pa.date32())
    holder, entry = driven.box.holder(driven.slots, ()), driven.box.entry(())
    entry.process(0, pa.table([latest, pa.array([1]), pa.array([0.0])], names=list(SCHEMA)))
    for part, tuples in entry.flush():
        holder.receive(part, stamped(tuples))
    ((_, element),) = holder.punctuate([Marks({"ts": BEGINNING})], 0)
    assert element.column("ve").null_count == 1
    assert element.column("vs").null_count == 0
