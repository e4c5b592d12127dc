"""Both halves of Aggregate: partial aggregates per pane, windows closed by punctuation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.scripted import box_of, source, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END
from penstock.boxes.aggregate.closing import PARTIAL, WHOLE
from penstock.boxes.aggregate.entry import PANE, SubAggregateOp, merged, pane_numbers
from penstock.boxes.aggregate.holder import MERGE_ROWS, AggregateOp
from penstock.operators.state.chunks import GATHER_CHUNKS, MERGE_CHUNKS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


def make(outputs: dict[str, Any], **window: Any) -> tuple[Any, AggregateOp, MemorySlots]:
    box = box_of(source(SCHEMA).aggregate(outputs, on="ts", **window))
    slots = MemorySlots()
    return box, AggregateOp(box, slots), slots


def train(*rows: tuple[int, str | None, int | None]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, (pa.int64(), pa.string(), pa.int64()), strict=True)], list(SCHEMA)
    )


def feed(box: Any, operator: AggregateOp, *rows: tuple[int, str | None, int | None]) -> None:
    low = SubAggregateOp(box)
    low.process(0, train(*rows).append_column(SEQ, pa.array(range(len(rows)))))
    for part, partials in low.flush():
        operator.receive(part, stamped(partials))


def close(operator: AggregateOp, mark: int) -> list[tuple[Any, ...]]:
    tables = [table.drop_columns([ARRIVED]) for _, table in operator.punctuate([Marks({"ts": mark})], now=0)]
    return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=str)


def test_the_low_half_reduces_a_train_to_one_row_per_pane_and_group() -> None:
    box, *_ = make({"n": "count(*)", "s": "sum(v)"}, size=10, by="k")
    low = SubAggregateOp(box)
    low.process(0, train((1, "x", 1), (2, "x", 2), (3, None, 3)))
    low.process(0, train((11, "x", 4), (-1, "x", 5)))
    ((part, partials),) = low.flush()
    assert part == PARTIAL
    rows = {(r[PANE], r["k"]): r[box.tuple_count] for r in partials.to_pylist()}
    assert rows == {(0, "x"): 2, (0, None): 1, (1, "x"): 1, (-1, "x"): 1}
    assert list(low.flush()) == []


def test_the_low_half_keeps_the_values_that_cannot_be_decomposed() -> None:
    box, *_ = make({"m": "median(v)", "d": "count(DISTINCT k)"}, size=10)
    low = SubAggregateOp(box)
    low.process(0, train((1, "x", 1), (2, "x", None), (3, "x", 3)))
    parts = dict(low.flush())
    sizes = {name: parts[name].num_rows for name in parts}
    # All tuples in one partial aggregate; the values that are not NULL; each distinct k once.
    assert sizes[PARTIAL] == 1
    assert sorted(size for name, size in sizes.items() if name != PARTIAL) == [1, 2]


def test_a_window_leaves_once_and_takes_its_state_along() -> None:
    box, operator, slots = make({"n": "count(*)"}, size=10, by="k")
    feed(box, operator, (1, "x", 0), (12, "x", 0))
    assert close(operator, 9) == []
    assert slots.numbers() == [0, 1]
    feed(box, operator, (9, "x", 0), (9, None, 0))
    assert close(operator, 10) == [(0, "x", 2), (0, None, 1)]
    assert slots.numbers() == [1]
    assert close(operator, 10) == []
    assert close(operator, END) == [(10, "x", 1)]
    assert slots.numbers() == []
    assert operator.released == 4


def test_a_window_closes_exactly_at_its_end() -> None:
    box, operator, _ = make({"n": "count(*)"}, size=10)
    feed(box, operator, (0, "x", 0))
    assert close(operator, 9) == []
    assert close(operator, 10) == [(0, 1)]


def test_punctuation_that_falls_back_changes_nothing() -> None:
    box, operator, slots = make({"n": "count(*)"}, size=10)
    feed(box, operator, (25, "x", 0))
    assert close(operator, 20) == []
    assert close(operator, 5) == []
    assert slots.get_mark() == 20
    assert close(operator, 30) == [(20, 1)]


def test_a_pane_stays_until_its_last_window_has_left() -> None:
    # size 4, advance 2: pane 1 ([2, 4)) is in the windows that start at 0 and at 2
    box, operator, slots = make({"n": "count(*)"}, size=4, advance=2)
    feed(box, operator, (3, "x", 0))
    assert operator.open_windows([Marks({"ts": -(2**63)})]) == 0
    assert close(operator, 3) == []
    assert operator.open_windows([Marks({"ts": 3})]) == 2
    assert close(operator, 4) == [(0, 1)]
    assert slots.numbers() == [1]
    assert operator.released == 0
    assert close(operator, 6) == [(2, 1)]
    assert slots.numbers() == []
    assert operator.released == 1


def test_tuples_in_a_gap_are_released_without_a_result() -> None:
    box, operator, slots = make({"n": "count(*)", "m": "median(v)"}, size=2, advance=10)
    feed(box, operator, (5, "x", 1), (10, "x", 2))
    assert close(operator, 6) == []
    assert close(operator, END) == [(10, 1, 2.0)]
    assert operator.released == 2
    assert slots.numbers() == []


def test_a_slot_is_merged_before_it_gathers_too_many_chunks() -> None:
    box, operator, slots = make({"s": "sum(v)", "m": "median(v)"}, size=100)
    for value in range(3 * MERGE_CHUNKS):
        feed(box, operator, (value, "x", value))
        assert close(operator, value) == []
        assert slots.count(0, PARTIAL) < MERGE_CHUNKS
    (chunk, *_) = slots.chunks(0, PARTIAL)
    assert chunk.num_rows == 1
    assert close(operator, 100) == [(0, sum(range(24)), 11.5)]
    assert operator.released == 24


def test_many_groups_are_held_at_most_twice_between_merges() -> None:
    box, operator, slots = make({"n": "count(*)"}, size=100, by="k")
    groups = [f"group {number}" for number in range(MERGE_ROWS + 100)]
    held = []
    for batch in range(5):
        # The third brings only a few: merging them would not be worth it.
        feed(box, operator, *((batch, k, 0) for k in (groups[:10] if batch == 2 else groups)))
        assert close(operator, batch) == []
        held.append(slots.rows())
    least = len(groups)
    assert held == [least, least, least + 10, least, least]
    assert {n for _, _, n in close(operator, 100)} == {4, 5}


def test_partial_aggregates_are_grouped_only_where_groups_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operators.groups.SAMPLED_ROWS", 1000)
    box, _, _ = make({"n": "count(*)"}, size=10, by="k")

    def partials(rows: int, groups: int) -> pa.Table:
        keys = [str(row % groups) for row in range(rows)]
        return pa.table(
            {PANE: pa.array([0] * rows), "k": keys, "p0": pa.array([1] * rows), ARRIVED: pa.array([7] * rows)}
        )

    different, halved = partials(4000, 4000), partials(4000, 2000)
    assert merged(box, different) is different
    assert sorted(merged(box, halved)["p0"].to_pylist()) == [2] * 2000
    # Where there are few, it is not worth looking.
    assert merged(box, partials(999, 998)).num_rows == 998


def test_values_that_merging_makes_no_fewer_are_merged_seldom() -> None:
    whole = pk.window_function(final=lambda window: window["v"].tolist(), returns="list<int64>", columns="v")
    box, operator, slots = make({"m": "median(v)", "d": "count(DISTINCT v)", "vs": whole}, size=100)
    values = [value % 3 for value in range(GATHER_CHUNKS + 5)]
    for value in values:
        feed(box, operator, (1, "x", value))
        close(operator, 0)
        assert slots.count(0, WHOLE) < GATHER_CHUNKS
    assert sum(chunk.num_rows for chunk in slots.chunks(0, WHOLE)) == len(values)
    assert sum(chunk.num_rows for chunk in slots.chunks(0, "h1")) < MERGE_CHUNKS + 3
    # Those of equal times in order of arrival, through all merging.
    assert close(operator, 100) == [(0, 1.0, 3, values)]


def test_slots_of_windows_that_stay_open_are_not_read() -> None:
    box, operator, slots = make({"n": "count(*)"}, size=10)
    feed(box, operator, (5, "x", 0), (15, "x", 0), (25, "x", 0), (35, "x", 0))
    close(operator, 0)
    slots.reads = 0
    assert close(operator, 10) == [(0, 1)]
    # The closing slot is read for its result and for its account; the three open ones are not.
    assert slots.reads <= 2


@pytest.mark.parametrize(
    ("ticks", "pane", "panes"),
    [
        ([0, 9, 10, 19], 10, [0, 0, 1, 1]),
        ([-1, -10, -11], 10, [-1, -1, -2]),
        ([3, 4], 10, [0, 0]),
        ([2**62, -(2**62)], 1, [2**62, -(2**62)]),
    ],
)
def test_panes_are_numbered_by_the_floor(ticks: list[int], pane: int, panes: list[int]) -> None:
    assert pane_numbers(pa.chunked_array([pa.array(ticks)]), pane).to_pylist() == panes


@given(
    panes=st.lists(st.integers(-6, 6) | st.sampled_from([-(2**61), 2**61]), max_size=8),
    last=st.integers(-4, 4) | st.sampled_from([-(2**80), END, 2**80]),
    window=st.sampled_from([(10, 10), (10, 5), (6, 4), (4, 6)]),
)
def test_what_no_open_window_needs_is_let_go_of(panes: list[int], last: int, window: tuple[int, int]) -> None:
    size, advance = window
    box, operator, _ = make({"n": "count(*)"}, size=size, advance=advance, by="k")
    counts = pa.array(range(1, len(panes) + 1), pa.int64())
    tuples = pa.table({PANE: pa.array(panes, pa.int64()), box.tuple_count: counts})
    kept = operator._still_needed(PARTIAL, tuples, last)
    needed = [pane * box.window.pane // advance > last for pane in panes]
    assert kept[PANE].to_pylist() == [pane for pane, wanted in zip(panes, needed, strict=True) if wanted]
    assert operator.released == sum(at for at, wanted in enumerate(needed, 1) if not wanted)


def test_only_partial_aggregates_carry_the_time_of_arrival() -> None:
    box, _, _ = make({"m": "median(v)"}, size=10)
    assert [box.timed(part) for part in (PARTIAL, box.aggregation.held[0].name, WHOLE)] == [True, False, False]
