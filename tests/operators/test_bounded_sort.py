"""Bounded disorder, against a heap for each group and against the definition of disorder, row by row."""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.algebra.hidden import SEQ
from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.bounded_sort import bounded_sort, largest, late
from penstock.operators.groups import GROUP_SLOTS, group_numbers, group_slots, parted

VALUES = st.one_of(st.integers(-5, 5), st.sampled_from([BEGINNING, END]))
ROWS = st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=40)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([g for g, _ in rows], np.int64), np.array([v for _, v in rows], np.int64)


@given(rows=ROWS, slack=st.integers(0, 45))
def test_a_buffer_gives_up_its_smallest_as_a_heap_does(rows: list[tuple[int, int]], slack: int) -> None:
    buffers: dict[int, list[tuple[int, int]]] = defaultdict(list)
    gone: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, (group, value) in enumerate(rows):
        heapq.heappush(buffers[group], (value, number))
        if len(buffers[group]) > slack:
            gone[group].append((heapq.heappop(buffers[group])[1], number))
    found = bounded_sort(*columns(rows), slack)
    leaving = list(zip(found.rows[found.leaves].tolist(), found.triggers.tolist(), strict=True))
    assert leaving == [pair for group in sorted(gone) for pair in gone[group]]
    staying = found.rows[~found.leaves].tolist()
    assert staying == [number for group in sorted(buffers) for _, number in sorted(buffers[group])]


@given(rows=ROWS, slack=st.integers(0, 45))
def test_late_is_what_more_than_slack_larger_ones_came_before(rows: list[tuple[int, int]], slack: int) -> None:
    larger = [sum(g == group and v > value for g, v in rows[:at]) for at, (group, value) in enumerate(rows)]
    assert late(*columns(rows), slack).tolist() == [number > slack for number in larger]


@given(rows=ROWS, keep=st.integers(1, 6))
def test_the_largest_of_each_group_ascend(rows: list[tuple[int, int]], keep: int) -> None:
    wanted = []
    for group in sorted({g for g, _ in rows}):
        ascending = sorted((v, at) for at, (g, v) in enumerate(rows) if g == group)
        wanted += [at for _, at in ascending[-keep:]]
    assert largest(*columns(rows), keep).tolist() == wanted


def test_one_round_of_feeding_back_what_stays_changes_nothing() -> None:
    """What a buffer holds arrives once more, in its order, before the next batch: the same tuples leave."""
    values = np.array([5, 1, 5, 3, 9, 2, 5, 4, 5, 0])
    zeros = np.zeros(10, np.int64)
    whole = bounded_sort(zeros, values, 3)
    first = bounded_sort(zeros[:6], values[:6], 3)
    kept = first.rows[~first.leaves]
    again = np.append(kept, np.arange(6, 10))
    second = bounded_sort(zeros[: len(again)], values[again], 3)
    parts = [first.rows[first.leaves], again[second.rows[second.leaves]]]
    assert np.concatenate(parts).tolist() == whole.rows[whole.leaves].tolist()


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (pa.array(["b", "a", None, "b", None]), [0, 1, 2, 0, 2]),
        (pa.array([0.0, -0.0, float("nan"), None, -float("nan")]), [0, 0, 1, 2, 1]),
        (pa.array([[1], [2], None, [1], None]), [0, 1, 2, 0, 2]),
        (pa.array([{"x": 1}, {"x": None}, None, {"x": 1}, None]), [0, 1, 2, 0, 2]),
        (pa.array([1, 1, 1, 1, 1]), [0, 0, 0, 0, 0]),
    ],
    ids=["string", "double", "list", "struct", "one group"],
)
def test_groups_are_those_of_group_by(column: pa.Array, numbers: list[int]) -> None:
    found = group_numbers(pa.table({"k": column}), ["k"]).tolist()
    assert [found.index(n) for n in found] == [numbers.index(n) for n in numbers]
    slots = group_slots(pa.table({"k": column}), ["k"])
    assert len({(n, s) for n, s in zip(numbers, slots.tolist(), strict=True)}) == len(set(numbers))
    assert slots.max() < GROUP_SLOTS


def test_groups_of_several_columns_are_numbered_densely() -> None:
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.integers(0, 50, 200) for name in "abc"})
    numbers = group_numbers(table, ["a", "b", "c"])
    rows = list(zip(*(table[name].to_pylist() for name in "abc"), strict=True))
    pairs = set(zip(rows, numbers.tolist(), strict=True))
    assert len(pairs) == len(set(rows)) == len(set(numbers.tolist()))
    assert numbers.max() < 200


def test_without_groups_there_is_one() -> None:
    table = pa.table({"v": [1, 2]})
    assert group_numbers(table, []).tolist() == group_slots(table, []).tolist() == [0, 0]


def test_trains_come_in_any_order_and_leave_in_that_of_arrival() -> None:
    train = pa.table({"v": ["d", "c"], SEQ: [7, 5]})
    other = pa.table({"v": ["a", "b"], SEQ: [1, 2]})
    nothing = train.slice(0, 0)
    assert in_arrival_order([train, nothing, other])["v"].to_pylist() == ["a", "b", "c", "d"]
    assert in_arrival_order([nothing]).num_rows == 0


def test_ties_of_arrival_fall_back_on_content() -> None:
    one, two = pa.table({"v": ["b"], SEQ: [1]}), pa.table({"v": ["a"], SEQ: [1]})
    assert in_arrival_order([one, two])["v"].to_pylist() == in_arrival_order([two, one])["v"].to_pylist() == ["a", "b"]


def test_rows_are_parted_by_slot_in_their_order() -> None:
    table = pa.table({"v": [1, 2, 3, 4]})
    found = [(slot, own["v"].to_pylist()) for slot, own in parted(table, np.array([3, -1, 3, 0]))]
    assert found == [(-1, [2]), (0, [4]), (3, [1, 3])]
    assert parted(table.slice(0, 0), np.zeros(0, np.int64)) == []
