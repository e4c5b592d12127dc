"""Tuples of many groups are sent to their buckets as they are: the answers are those of partial aggregates."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.boxes.aggregate import entry
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.closing import PARTIAL, TUPLES
from penstock.boxes.aggregate.entry import SubAggregateOp

SCHEMA = {"ts": "int64", "k": "string", "j": "int64", "x": "double", "v": "int32"}
OUTPUTS = {
    "n": "count(*)",
    "some": "count(v)",
    "total": "sum(v)",
    "mean": "avg(x)",
    "spread": "stddev(x)",
    "most": "max(v)",
    "last": "max_by(v, ts)",
    "till": "max(ts)",
    "few": "count(*) FILTER (WHERE v > 1)",
}
rows = st.tuples(
    st.integers(0, 60),
    st.sampled_from([None, "", "a", "b", "c"]),
    st.sampled_from([None, 0, 1, -1]),
    st.sampled_from([None, 0.5, -3.0, 1e300, 0.1]),
    st.sampled_from([None, 0, 1, 2**31 - 1, -(2**31)]),
)


def answers(tuples: list[tuple[Any, ...]], train: int, buckets: int, by: list[str]) -> list[dict[str, Any]]:
    net = pk.Network("n")
    source = net.source("s", pk.memory(tuples, schema=SCHEMA, train=train), progress=pk.delayed(60))
    source.aggregate(OUTPUTS, size=20, advance=10, by=by).output("o")
    return sorted(net.run(engine="local", buckets=buckets)["o"].to_pylist(), key=repr)


def always_sent() -> Any:
    return mock.patch.multiple(entry, _hardly_reduced=lambda box, tuples: bool(box.by), DenseGroups=NoDenseGroups)


class NoDenseGroups(entry.DenseGroups):
    @staticmethod
    def suits(kinds: Any) -> bool:
        return False


@given(
    st.lists(rows, min_size=1, max_size=60), st.integers(1, 30), st.integers(1, 3), st.sampled_from([["k"], ["k", "j"]])
)
def test_answers_are_the_same_whoever_reduces(
    tuples: list[tuple[Any, ...]], train: int, buckets: int, by: list[str]
) -> None:
    reduced = answers(tuples, train, buckets, by)
    with always_sent():
        assert repr(answers(tuples, train, buckets, by)) == repr(reduced)


def parts_of(keys: np.ndarray, by: str = "id") -> dict[str, int]:
    """How many rows of each part an aggregate sends for tuples with these keys."""
    net = pk.Network("n")
    source = net.source("s", pk.memory([], schema={"ts": "int64", "id": "int64"}), progress=pk.delayed(1))
    source.aggregate({"n": "count(*)"}, size=10, by=[by]).output("o")
    box = next(box for box in net.network.boxes if isinstance(box, Aggregate))
    operator = SubAggregateOp(box)
    operator._dense = None
    operator.process(0, pa.table({"ts": np.zeros(len(keys), np.int64), "id": keys}))
    return {part: tuples.num_rows for part, tuples in operator.flush()}


MANY = 200_000


@pytest.mark.parametrize(
    ("groups", "part"), [(MANY, TUPLES), (MANY // 2, TUPLES), (MANY // 8, PARTIAL), (100, PARTIAL), (1, PARTIAL)]
)
def test_tuples_are_sent_where_a_group_has_few_of_them(groups: int, part: str) -> None:
    keys = np.random.default_rng(1).integers(0, groups, MANY) * 2_000_003
    found = parts_of(keys)
    assert set(found) == {part}
    assert found[part] == (MANY if part == TUPLES else len(np.unique(keys)))


def test_a_key_that_never_repeats_is_sent_and_one_that_is_frequent_is_not() -> None:
    assert set(parts_of(np.arange(MANY))) == {TUPLES}
    assert set(parts_of(np.where(np.arange(MANY) % 4 == 0, np.arange(MANY), 7))) == {PARTIAL}


def test_few_tuples_are_reduced_without_a_look() -> None:
    assert set(parts_of(np.arange(entry.FEW_ROWS - 1))) == {PARTIAL}
