"""Groups numbered, and windows of groups as sorted pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.boxes.aggregate.group_windows import NO_WINDOWS, Windows, keyed, places
from penstock.operators.arrays import ranged
from penstock.operators.groups import number


def test_groups_are_numbered_alike_in_all_tables_in_order_of_appearance() -> None:
    one = pa.table({"k": ["b", None, "b"], "j": [1, 1, 2]})
    two = pa.table({"k": pa.array([None, "a"]), "j": [1, 1], "v": [0, 0]})
    groups, (first, second) = number([one, two], ["k", "j"])
    assert first.tolist() == [0, 1, 2]
    assert second.tolist() == [1, 3]
    assert groups.count == 4
    assert groups.keys.to_pylist() == [{"k": k, "j": j} for k, j in (("b", 1), (None, 1), ("b", 2), ("a", 1))]
    assert [(name, c.to_pylist()) for name, c in groups.columns(np.array([3, 0]))] == [("k", ["a", "b"]), ("j", [1, 1])]
    assert groups.numbers(two.slice(1)).tolist() == [3]


def test_without_columns_there_is_one_group() -> None:
    groups, (numbers,) = number([pa.table({"v": [1, 2]})], [])
    assert (groups.count, numbers.tolist()) == (1, [0, 0])
    assert groups.columns(numbers) == []


def test_places_go_on_from_earlier_batches() -> None:
    assert places(np.array([1, 0, 1, 1]), np.array([10, 3])).tolist() == [3, 10, 4, 5]
    assert places(np.zeros(0, np.int64), np.array([4])).tolist() == []


@pytest.mark.parametrize("scale", [1, 2**61])
def test_keys_sort_like_pairs_however_far_ticks_are_apart(scale: int) -> None:
    groups, ticks = np.array([1, 0, 1, 0]), np.array([-1, 1, 1, 0]) * scale
    keys, others = keyed((groups, ticks), (groups[:2], ticks[:2]))
    assert np.argsort(keys).tolist() == [3, 1, 0, 2]
    assert others.tolist() == keys[:2].tolist()


def test_windows_are_a_set() -> None:
    some = Windows.of(np.array([1, 0, 1, 1]), np.array([5, 9, -5, 5]))
    assert list(zip(some.groups.tolist(), some.starts.tolist(), strict=True)) == [(0, 9), (1, -5), (1, 5)]
    other = Windows.of(np.array([1, 2]), np.array([5, 5]))
    assert some.minus(other).starts.tolist() == [9, -5]
    assert some.plus(other).groups.tolist() == [0, 1, 1, 2]
    assert some.plus(NO_WINDOWS) is some.minus(NO_WINDOWS) is some
    assert len(NO_WINDOWS.minus(some)) == 0


def test_the_windows_of_rows_and_the_rows_of_windows() -> None:
    windows = Windows.of(np.array([0, 0, 0, 1]), np.array([0, 5, 20, 0]))
    groups, ticks = np.array([0, 0, 0, 1]), np.array([4, 9, 10, 7])
    first, behind = windows.around(groups, ticks, 10)
    assert list(zip(first.tolist(), behind.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (3, 4)]
    low, high = windows.holding(groups, ticks, 10)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(0, 2), (1, 3), (3, 3), (3, 4)]
    assert ranged(low, high)[1].tolist() == [0, 1, 1, 2, 3]
