"""Disorder: how far tuples lie behind the largest value before them, however a shard is cut."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.algebra.ticks import BEGINNING, END, LONGEST
from penstock.progress.disorder import BLOCK, LONG, Disorder, Gauge, Stretch, Values, joined


def values(ticks: list[int] | np.ndarray) -> Values:
    return Values.of(pa.chunked_array([pa.array(ticks, pa.int64())]))


def stretch(*chunks: list[int] | np.ndarray, reached: int = BEGINNING) -> Stretch | None:
    gauge = Gauge(reached)
    for chunk in chunks:
        gauge.take(values(chunk))
    return gauge.stretch()


def disorder(*chunks: list[int] | np.ndarray, reached: int = BEGINNING) -> Disorder:
    found = stretch(*chunks, reached=reached)
    assert found is not None
    return found.disorder


def behind(ticks: list[int], reached: int = BEGINNING) -> list[int]:
    """What is right, one tuple after the other."""
    found = []
    for tick in ticks:
        reached = max(reached, tick)
        found.append(reached - tick)
    return found


#  arrival   3   9   7  12   4  15
#  behind    0   0   2   0   8   0
@pytest.mark.parametrize(
    ("chunks", "reached", "largest"),
    [
        ([[3, 9, 7, 12, 4, 15]], BEGINNING, 8),
        ([[3, 9, 7], [12, 4, 15]], BEGINNING, 8),
        ([[3], [9, 7, 12], [], [4, 15]], BEGINNING, 8),
        ([[3, 9, 12, 15]], BEGINNING, 0),
        ([[3, 3, 3]], BEGINNING, 0),
        ([[3, 9, 12, 15]], 20, 17),
        ([[-5], [-9]], BEGINNING, 4),
        ([[END - LONGEST, BEGINNING + LONGEST]], BEGINNING, 2**64 - 1 - 2 * LONGEST),
    ],
)
def test_the_largest_disorder(chunks: list[list[int]], reached: int, largest: int) -> None:
    assert disorder(*chunks, reached=reached).largest == largest


def test_nothing_read_is_nothing_seen() -> None:
    assert stretch() is None
    assert stretch([]) is None


@given(
    ticks=st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    reached=st.one_of(st.just(BEGINNING), st.integers(-50, 50)),
    tasks=st.integers(1, 4),
)
def test_tasks_that_share_a_shard_find_the_same_largest(ticks: list[int], reached: int, tasks: int) -> None:
    shares = [share for share in np.array_split(np.array(ticks, np.int64), tasks) if len(share)]
    stretches = [s for share in shares if (s := stretch(share, reached=reached)) is not None]
    whole = joined(stretches, in_sequence=True)
    assert whole.largest == max(behind(ticks, reached))
    assert whole.tuples == len(ticks)


def test_where_nobody_knows_the_order_of_tasks_each_stands_for_itself() -> None:
    parts = [s for part in ([5, 9], [1, 4]) if (s := stretch(part)) is not None]
    assert joined(parts, in_sequence=False).largest == 0
    assert joined(parts, in_sequence=True).largest == 8


@pytest.mark.parametrize("rows", [1000, LONG - 1, LONG, LONG + 7, 40 * LONG])
@pytest.mark.parametrize("chunk", [300, LONG, 5 * LONG])
def test_percentiles_of_long_and_short_chunks(rows: int, chunk: int) -> None:
    random = np.random.default_rng(1)
    ticks = np.arange(rows) * 10 - random.integers(0, 20_000, rows)
    exact = np.maximum.accumulate(ticks) - ticks
    found = disorder(*(ticks[at : at + chunk] for at in range(0, rows, chunk)))
    assert found.tuples == rows
    # Beyond the widest block, disorder inside a block shows against the blocks before it.
    assert exact.max() - BLOCK * 10 <= found.largest <= exact.max()
    for share in (0.5, 0.9, 0.999):
        right = np.quantile(exact, share, method="higher")
        assert right * 0.85 <= found.within(share) <= right * 1.25


@pytest.mark.parametrize("rows", [100, 3 * LONG])
def test_in_order_means_no_disorder_and_one_swapped_pair_is_found(rows: int) -> None:
    ticks = np.arange(rows) * 3
    assert disorder(ticks) == Disorder(rows, 0, {})
    ticks[[70, 71]] = ticks[[71, 70]]
    assert disorder(ticks).largest == 3


def test_a_chunk_in_order_may_lie_behind_earlier_batches() -> None:
    found = disorder(np.arange(2 * LONG), reached=LONG)
    assert (found.largest, found.tuples) == (LONG, 2 * LONG)
    assert found.within(0.5) == 0
    assert LONG * 0.75 <= found.within(0.999) <= LONG


def test_a_stretch_survives_the_way_through_json() -> None:
    found = stretch([5, 1, 7])
    assert found is not None
    assert Stretch.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_values_without_those_that_are_null_and_their_bounds() -> None:
    column = pa.chunked_array([pa.array([4, None, 2], pa.int64()), pa.array([9], pa.int64())])
    assert Values.of(column).bounds == (2, 9)
    assert Values.of(pa.chunked_array([], pa.int64())).bounds == (None, None)
    assert values(np.arange(LONG)).bounds == (0, LONG - 1)
    assert values(np.arange(LONG)[::-1]).bounds == (0, LONG - 1)
