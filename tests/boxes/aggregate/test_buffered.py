"""BufferedAggregate: tuples are kept while a window needs them, and windows are computed when they are complete."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END
from penstock.boxes.aggregate.buffered.box import BufferedAggregate
from penstock.boxes.aggregate.buffered.workers import TUPLES, BufferedAggregateOp, BufferEntryOp
from penstock.operators.state.chunks import GATHER_CHUNKS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
Row = tuple[int, str | None, int | None]


def make(outputs: Any, **window: Any) -> tuple[BufferedAggregate, BufferedAggregateOp, MemorySlots]:
    plain = box_of(source(SCHEMA).aggregate(outputs, on="ts", **window))
    box = BufferedAggregate(**{f.name: getattr(plain, f.name) for f in fields(plain)})
    slots = MemorySlots()
    return box, BufferedAggregateOp(box, slots), slots


def feed(box: BufferedAggregate, operator: BufferedAggregateOp, *rows: Row, arrived: int = 0) -> None:
    entry = BufferEntryOp(box, [frozenset(box.schema(0).names)])
    columns = zip(zip(*rows, strict=True), (pa.int64(), pa.string(), pa.int64()), strict=True)
    tuples = pa.table([pa.array(c, t) for c, t in columns], list(SCHEMA))
    entry.process(0, tuples.append_column(SEQ, pa.array(range(len(rows)))))
    for part, sent in entry.flush():
        operator.receive(part, stamped(sent, arrived))


def close(operator: BufferedAggregateOp, mark: int) -> list[tuple[Any, ...]]:
    tables = [table.drop_columns([ARRIVED]) for _, table in operator.punctuate([Marks({"ts": mark})], now=0)]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def test_tuples_stay_until_their_last_window_has_closed() -> None:
    """
    size 6, advance 2      -4    -2     0     2     4     6     8
      tuples                            1     3  4
      window -4                  [-----1--)
      window -2                        [1-----3--)
      window 0, 2, 4             all of them, then 3 and 4, then 4
    """
    box, operator, slots = make({"n": "count(*)"}, size=6, advance=2)
    feed(box, operator, (1, "x", 0), (3, "x", 0), (4, "x", 0))
    assert close(operator, 1) == []
    assert slots.rows() == 3
    assert close(operator, 4) == [(-4, 1), (-2, 2)]
    assert (slots.rows(), operator.released) == (3, 0)
    assert close(operator, 6) == [(0, 3)]
    assert (slots.rows(), operator.released) == (2, 1)
    assert close(operator, 6) == []
    assert close(operator, 8) == [(2, 2)]
    assert (slots.rows(), operator.released) == (1, 2)
    assert close(operator, END) == [(4, 1)]
    assert (slots.rows(), operator.released) == (0, 3)


def test_only_the_columns_that_aggregates_need_are_sent() -> None:
    box, _, _ = make({"n": "count(*)"}, size=6, advance=2, by="k")
    entry = BufferEntryOp(box, [frozenset(box.schema(0).names)])
    tuples = pa.table({"ts": [1], "k": ["x"], "v": [9], SEQ: [0], "extra": ["no"]})
    entry.process(0, tuples)
    ((part, sent),) = entry.flush()
    assert (part, sent.column_names) == (TUPLES, ["ts", "k"])
    assert list(entry.flush()) == []


@pytest.mark.parametrize(("size", "advance"), [(6, 4), (7, 3), (5, 1), (10, 9)])
def test_windows_of_groups_hold_what_a_count_of_the_tuples_says(size: int, advance: int) -> None:
    rows: list[Row] = [(t, "xy"[t % 2] if t % 5 else None, t * t % 7) for t in range(-15, 20)]
    outputs = {"n": "count(*)", "mid": "quantile_disc(v, 0.5)", "kinds": "count(DISTINCT v)"}
    box, operator, slots = make(outputs, size=size, advance=advance, by="k")
    found = []
    for at in range(0, len(rows), 4):
        feed(box, operator, *rows[at : at + 4])
        found += close(operator, rows[at][0])
    found += close(operator, END)
    expected = []
    for window in range(-20 // advance - size, 20 // advance + 1):
        for key in ("x", "y", None):
            held = sorted(v for t, k, v in rows if k == key and window * advance <= t < window * advance + size)
            if held:
                expected.append((window * advance, key, len(held), held[(len(held) - 1) // 2], len(set(held))))
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    assert (slots.rows(), operator.released) == (0, len(rows))


def test_functions_get_the_tuples_in_order_of_arrival() -> None:
    texts = pk.window_function(lambda: "", lambda text, row: text + row["k"], lambda text: text, returns="string")
    box, operator, _ = make({"text": texts}, size=4, advance=2)
    feed(box, operator, (1, "c", 0), (1, "a", 0))
    assert close(operator, 0) == []
    feed(box, operator, (1, "b", 0), (0, "z", 0))
    assert close(operator, END) == [(-2, "zcab"), (0, "zcab")]


def test_results_carry_the_arrival_of_their_oldest_tuple() -> None:
    box, operator, _ = make({"n": "count(*)"}, size=4, advance=2)
    feed(box, operator, (0, "x", 0), arrived=7)
    feed(box, operator, (2, "x", 0), arrived=3)
    assert close(operator, 1) == []
    ((_, results),) = operator.punctuate([Marks({"ts": END})], now=99)
    assert [(r["ts"], r[ARRIVED]) for r in results.to_pylist()] == [(-2, 7), (0, 3), (2, 3)]


def test_it_says_what_it_waits_for() -> None:
    box, operator, _ = make({"n": "count(*)"}, size=6, advance=2)
    assert operator.needs([Marks({"ts": 0})]) == []
    feed(box, operator, (3, "x", 0))
    marks = [Marks({"ts": 3})]
    assert list(operator.punctuate(marks, now=0)) == []
    assert operator.needs(marks) == [(0, "ts", 4)]
    assert operator.open_windows(marks) == 3
    marks = [Marks({"ts": 6})]
    list(operator.punctuate(marks, now=0))
    assert operator.needs(marks) == [(0, "ts", 8)]
    assert operator.open_windows(marks) == 1


def test_small_chunks_are_gathered() -> None:
    box, operator, slots = make({"n": "count(*)"}, size=200, advance=100)
    for number in range(GATHER_CHUNKS + 5):
        feed(box, operator, (number, "x", 0))
        close(operator, number)
    assert slots.count(0, TUPLES) < GATHER_CHUNKS
    assert close(operator, END) == [(-100, GATHER_CHUNKS + 5), (0, GATHER_CHUNKS + 5)]
