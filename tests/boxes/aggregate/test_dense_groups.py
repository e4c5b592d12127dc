"""Counting without a hash table: the same counts as hashing, or none at all."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.boxes.aggregate.dense_groups import CELLS_PER_TUPLE, MOST_VALUES, SAMPLE, DenseGroups

NAMES = ("#pane", "k", "b", "n")
Train = list[tuple[Any, ...]]

rows = st.tuples(st.integers(-3, 3), st.sampled_from([None, "x", "y", ""]), st.sampled_from([None, True, False]))


def add(counter: DenseGroups, train: Train) -> bool:
    panes, texts, flags = (list(column) for column in zip(*train, strict=True))
    return counter.add([pa.array(texts, pa.string()), pa.array(flags, pa.bool_())], pa.array(panes, pa.int64()))


@given(st.lists(st.lists(rows, min_size=1, max_size=60), min_size=1, max_size=4))
def test_every_tuple_is_counted_in_its_pane_and_group(trains: list[Train]) -> None:
    counter = DenseGroups([pa.string(), pa.bool_()], 1)
    counted: Train = []
    for train in trains:
        if add(counter, train):
            counted += train
        else:
            panes, *keys = (set(column) for column in zip(*(counted + train), strict=True))
            combinations = (max(panes) - min(panes) + 1) * math.prod(len(values) for values in keys)
            assert combinations > CELLS_PER_TUPLE * len(counted + train)
    found = counter.flush(NAMES)
    if found is None:
        assert not counted
        return
    assert found.column_names == list(NAMES)
    got = Counter({tuple(row[:-1]): row[-1] for row in zip(*found.to_pydict().values(), strict=True)})
    assert got == Counter(counted)
    assert counter.flush(NAMES) is None


def test_panes_have_the_length_that_was_asked_for() -> None:
    counter = DenseGroups([], 10)
    assert counter.add([], pa.array([-1, 0, 9, 10]))
    found = counter.flush(("#pane", "n"))
    assert found is not None
    assert found.to_pydict() == {"#pane": [-1, 0, 1], "n": [1, 2, 1]}


def test_a_table_that_would_be_sparse_is_left_to_hashing() -> None:
    column = pa.array(range(10))
    assert not DenseGroups([pa.int64(), pa.int64()], 1).add([column, column], pa.array([0] * 10))


def test_panes_far_apart_are_left_to_hashing() -> None:
    assert not DenseGroups([pa.int64()], 1).add([pa.array([1, 1])], pa.array([-(2**62), 2**62]))


def test_a_column_whose_first_values_hardly_repeat_is_left_to_hashing() -> None:
    ticks = pa.array([0] * SAMPLE)
    assert not DenseGroups([pa.string()], 1).add([pa.array(map(str, range(SAMPLE)))], ticks)
    assert DenseGroups([pa.string()], 1).add([pa.array([str(n % 1000) for n in range(SAMPLE)])], ticks)


def test_a_column_that_turns_out_to_have_many_values_is_left_to_hashing() -> None:
    counter = DenseGroups([pa.int64()], 1)
    assert counter.add([pa.array([7] * SAMPLE)], pa.array([0] * SAMPLE))
    more = MOST_VALUES + 1
    assert not counter.add([pa.array(range(more))], pa.array([0] * more))
    found = counter.flush(("#pane", "k", "n"))
    assert found is not None
    assert found.to_pydict() == {"#pane": [0], "k": [7], "n": [SAMPLE]}


def test_floats_are_left_to_hashing() -> None:
    assert not DenseGroups.suits([pa.float64()])


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.uint8(),
        pa.bool_(),
        pa.date32(),
        pa.date64(),
        pa.time32("s"),
        pa.timestamp("s"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "Europe/Berlin"),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_trains_counted_either_way_meet_in_one_window(kind: pa.DataType) -> None:
    """The first and the last train have one group, and are dense; the second has eight by eight combinations."""

    def key(number: int) -> Any:
        if pa.types.is_boolean(kind):
            return number % 2 == 0
        if pa.types.is_temporal(kind):
            moment = dt.datetime(2026, 1, number)
            return moment.date() if pa.types.is_date(kind) else dt.time(number) if pa.types.is_time(kind) else moment
        return str(number) if not pa.types.is_integer(kind) else number

    rows = [(1, key(1), 1)] * 8 + [(2, key(n), n) for n in range(1, 9)] + [(3, key(1), 1)] * 8
    net = pk.Network("net")
    schema = pa.schema({"ts": pa.int64(), "k": kind, "j": pa.int64()})
    source = net.source("in", pk.memory(rows, schema=schema, train=8))
    source.aggregate({"n": "count(*)"}, size=10, by=["k", "j"]).output("out")
    found = net.run("local", buckets=2)["out"]
    assert found.schema.field("k").type == kind
    assert {row["j"]: row["n"] for row in found.to_pylist()} == {1: 17, **dict.fromkeys(range(2, 9), 1)}


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(rows, min_size=1, max_size=60)), min_size=1, max_size=5))
def test_a_group_has_the_time_of_its_first_tuple(trains: list[tuple[int, Train]]) -> None:
    counter, counted, now = DenseGroups([pa.string(), pa.bool_()], 1), dict[tuple[Any, ...], int](), 0
    for later, train in trains:
        now += later
        panes, texts, flags = (list(column) for column in zip(*train, strict=True))
        keys = [pa.array(texts, pa.string()), pa.array(flags, pa.bool_())]
        if counter.add(keys, pa.array(panes, pa.int64()), now):
            counted = {**dict.fromkeys(train, now), **counted}
            assert not counter.add(keys, pa.array(panes, pa.int64()), now - 1)
    found = counter.flush(NAMES, "arrived")
    if found is None:
        assert not counted
        return
    assert found.column_names == [*NAMES, "arrived"]
    assert {tuple(row[:3]): row[4] for row in zip(*found.to_pydict().values(), strict=True)} == counted
