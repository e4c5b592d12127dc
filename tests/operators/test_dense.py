"""Counting without a hash table: the same counts as hashing, or none at all."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.operators.dense import dense_counts

NAMES = ("#pane", "n")


def ticks(values: list[int]) -> pa.ChunkedArray:
    """In two chunks, as a train has several."""
    middle = len(values) // 2
    return pa.chunked_array([pa.array(values[:middle], pa.int64()), pa.array(values[middle:], pa.int64())])


@given(
    rows=st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from([None, "x", "y", ""]), st.sampled_from([None, True, False])),
        min_size=1,
        max_size=60,
    )
)
def test_every_tuple_is_counted_in_its_pane_and_group(rows: list[tuple[Any, ...]]) -> None:
    panes, texts, flags = (list(column) for column in zip(*rows, strict=True))
    keys = pa.table({"k": pa.array(texts, pa.string()), "b": pa.array(flags, pa.bool_())})
    found = dense_counts(keys, ticks(panes), 1, NAMES)
    if found is None:
        combinations = (max(panes) - min(panes) + 1) * len(set(texts)) * len(set(flags))
        assert combinations > 2 * len(rows)
        return
    assert found.column_names == ["#pane", "k", "b", "n"]
    assert Counter({tuple(row[:-1]): row[-1] for row in zip(*found.to_pydict().values(), strict=True)}) == Counter(rows)


def test_a_table_that_would_be_sparse_is_left_to_hashing() -> None:
    keys = pa.table({"a": list(range(10)), "b": list(range(10))})
    assert dense_counts(keys, ticks([0] * 10), 1, NAMES) is None


def test_panes_far_apart_are_left_to_hashing() -> None:
    assert dense_counts(pa.table({"a": [1, 1]}), ticks([-(2**62), 2**62]), 1, NAMES) is None


def test_floats_are_left_to_hashing() -> None:
    assert dense_counts(pa.table({"a": [0.0, -0.0]}), ticks([0, 0]), 1, NAMES) is None


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
