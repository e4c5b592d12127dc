"""Aggregates over ranges: spelled out, in blocks, and with columns of their own, against Python."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.expressions.decomposition import decompose
from penstock.algebra.hidden import ARRIVED
from penstock.boxes.resample import ranges
from penstock.boxes.resample.ranges import over_ranges

TUPLES = 700


def aggregation(outputs: dict[str, str]) -> Aggregation:
    schema = pa.schema({"ts": pa.int64(), "v": pa.int64(), "l.at": pa.int64()})
    return decompose(outputs, schema, on="ts")


@pytest.fixture
def tuples() -> pa.Table:
    values = np.random.default_rng(3).integers(-50, 50, TUPLES)
    table = pa.table(
        {"v": pa.array(values, mask=values == 0), "ts": np.arange(TUPLES), ARRIVED: np.arange(TUPLES) % 97}
    )
    return pa.concat_tables([table.slice(0, 100), table.slice(100)])


def drawn(length: int, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    first = np.sort(np.random.default_rng(4).integers(0, TUPLES - length, count))
    return first, first + np.random.default_rng(5).integers(0, length, count)


def expected(tuples: pa.Table, first: np.ndarray, last: np.ndarray) -> list[tuple[Any, ...]]:
    values, arrived, found = tuples["v"].to_pylist(), tuples[ARRIVED].to_pylist(), []
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        inside = [v for v in values[a : b + 1] if v is not None]
        some = (sum(inside), max(inside), values[b]) if inside else (None, None, values[b])
        found.append((b + 1 - a, *some, min(arrived[a : b + 1])))
    return found


@pytest.mark.parametrize("length", [1, 5, 40, 600])
@pytest.mark.parametrize("pairs", [64, 1 << 18])
def test_ranges_however_long_and_however_cut(
    tuples: pa.Table, length: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PAIRS", pairs)
    first, last = drawn(length)
    outputs = aggregation({"n": "count(*)", "sum": "sum(v)", "most": "max(v)", "last": "last(v)"})
    found = over_ranges(outputs, tuples, first, last)
    assert [tuple(row.values()) for row in found.to_pylist()] == expected(tuples, first, last)


@pytest.mark.parametrize("length", [5, 600])
def test_blocks_are_made_only_where_ranges_are_long(
    tuples: pa.Table, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(ranges, "_in_blocks", lambda *args: calls.append(args) or ranges._spelled_out(*args))
    over_ranges(aggregation({"n": "count(*)"}), tuples, *drawn(length))
    assert len(calls) == (length == 600)


def test_spread_is_the_same_in_blocks(tuples: pa.Table) -> None:
    first, last = drawn(600)
    outputs = aggregation({"var": "var_pop(v)", "mean": "avg(v)"})
    blocks = ranges._in_blocks(outputs, tuples, first, last)
    plain = ranges._spelled_out(outputs, tuples, first, last)
    for name in ("var", "mean"):
        assert np.allclose(blocks[name].to_numpy(), plain[name].to_numpy(), rtol=1e-9)


def test_values_that_are_held_whole(tuples: pa.Table) -> None:
    first, last = drawn(40)
    found = over_ranges(aggregation({"mid": "median(v)", "kinds": "count(DISTINCT v)"}), tuples, first, last)
    values = tuples["v"].to_pylist()
    inside = [[v for v in values[a : b + 1] if v is not None] for a, b in zip(first, last, strict=True)]
    assert found["mid"].to_pylist() == [median(v) if v else None for v in inside]
    assert found["kinds"].to_pylist() == [len(set(v)) for v in inside]


def test_columns_that_each_range_brings_along(tuples: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "PAIRS", 100)
    first, last = drawn(40)
    own = pa.table({"l.at": np.arange(len(first)) * 7})
    found = over_ranges(aggregation({"far": 'sum("l.at" - ts)'}), tuples, first, last, own)
    assert found["far"].to_pylist() == [
        sum(i * 7 - t for t in range(a, b + 1)) for i, (a, b) in enumerate(zip(first, last, strict=True))
    ]
