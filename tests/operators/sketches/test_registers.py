"""Sketches: a semilattice of bytes, and estimates that are right for few values and for many."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.arrays import Numbers
from penstock.operators.sketches import registers
from penstock.operators.sketches.hashes import hashes
from penstock.operators.sketches.registers import (
    dense_sketches,
    entries_of,
    estimates,
    merged,
    ranks,
    sketches_of,
)

PRECISIONS = [4, 9, 10, 11, 14]
FEW: st.SearchStrategy[int] = st.integers(0, 2**64 - 1)
HOSTILE = st.builds(lambda top, low: top << 54 | low, st.integers(0, 3), st.sampled_from([0, 1, 2**31, 2**32, 2**40]))
VALUES = st.lists(st.tuples(st.integers(0, 3), st.one_of(FEW, HOSTILE)), max_size=60)


def sketch(values: list[tuple[int, int]], precision: int, groups: int = 4) -> pa.ChunkedArray:
    of, hashed = (np.array([each[n] for each in values], kind) for n, kind in ((0, np.int64), (1, np.uint64)))
    return pa.chunked_array([sketches_of(entries_of(of, hashed, precision), groups, precision)])


def plain_registers(values: list[tuple[int, int]], group: int, precision: int) -> dict[int, int]:
    """The registers of a group in plain Python."""
    found: dict[int, int] = {}
    for own, hashed in values:
        if own == group:
            low = hashed % 2**32
            rank = 33 if low == 0 else (low & -low).bit_length()
            place = hashed >> (64 - precision)
            found[place] = max(rank, found.get(place, 0))
    return found


def plain(values: list[tuple[int, int]], group: int, precision: int) -> bytes:
    """A sketch in plain Python: what its bytes are."""
    found, width = plain_registers(values, group, precision), 2 if precision <= 10 else 4
    if len(found) * width >= 1 << precision:
        return bytes(found.get(place, 0) for place in range(1 << precision))
    return b"".join((place << 6 | found[place]).to_bytes(width, "little") for place in sorted(found))


@given(VALUES, st.sampled_from(PRECISIONS))
def test_a_sketch_is_the_shorter_of_its_two_forms(values: list[tuple[int, int]], precision: int) -> None:
    assert sketch(values, precision).to_pylist() == [plain(values, group, precision) for group in range(4)]


@given(VALUES, st.sampled_from(PRECISIONS), st.data())
def test_sketches_merge_to_the_same_bytes_in_any_order_and_any_number_of_times(
    values: list[tuple[int, int]], precision: int, data: st.DataObject
) -> None:
    expected = sketch(values, precision)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    order = data.draw(st.permutations(values))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    parts += [data.draw(st.sampled_from(parts))]  # once more
    rows = pa.chunked_array([chunk for part in parts for chunk in sketch(part, precision).chunks])
    groups = np.tile(np.arange(4), len(parts))
    shuffled = np.array(data.draw(st.permutations(range(len(groups)))))
    found = merged(rows.take(pa.array(shuffled)), groups[shuffled], 4, precision)
    assert found.to_pylist() == expected.to_pylist()
    again = merged(pa.chunked_array([found[1:], found[:3]]), np.array([1, 2, 3, 0, 1, 2]), 4, precision)
    assert again.to_pylist() == expected.to_pylist()


@given(VALUES, st.sampled_from(PRECISIONS))
def test_registers_of_a_table_make_the_same_sketches(values: list[tuple[int, int]], precision: int) -> None:
    table = np.zeros((4, 1 << precision), np.uint8)
    for group in range(4):
        for place, rank in plain_registers(values, group, precision).items():
            table[group, place] = rank
    assert dense_sketches(table).to_pylist() == sketch(values, precision).to_pylist()


def test_ranks_count_the_zeros_at_the_end_of_the_last_bits() -> None:
    assert ranks(np.array([1, 2, 3, 4, 2**31, 2**32, 2**63, 0], np.uint64)).tolist() == [1, 2, 1, 3, 32, 33, 33, 33]


@cache
def hashed(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return hashes(pa.array(np.arange(count) + seed * 10**9))


def estimated(seed: int, count: int, precision: int) -> int:
    values = hashed(seed, count)
    rows = pa.chunked_array([sketches_of(entries_of(np.zeros(count, np.int64), values, precision), 1, precision)])
    return int(estimates(rows, precision)[0])


@pytest.mark.parametrize("precision", [4, 9, 12, 14, 18])
@pytest.mark.parametrize("count", [0, 1, 10, 1_000, 10_000, 100_000, 1_000_000])
def test_estimates_are_within_four_standard_deviations(count: int, precision: int) -> None:
    deviation = 1.04 / math.sqrt(1 << precision)
    for seed in range(3):
        assert abs(estimated(seed, count, precision) - count) <= max(4 * deviation * count, 0.5)


@pytest.mark.parametrize("precision", [9, 12])
@pytest.mark.parametrize("per_register", [0.1, 0.5, 1, 2, 3, 5, 10, 50])
def test_the_mean_of_many_estimates_has_no_bias(precision: int, per_register: float) -> None:
    """Also between few values and many, where HyperLogLog of 2007 is off by several percent."""
    sets, count = 200, int(per_register * (1 << precision))
    groups = np.repeat(np.arange(sets), count)
    values = hashes(pa.array(np.arange(sets * count)))
    rows = pa.chunked_array([sketches_of(entries_of(groups, values, precision), sets, precision)])
    found = estimates(rows, precision)
    error = 1.04 / math.sqrt(1 << precision)
    assert found.mean() / count == pytest.approx(1, abs=4 * error / math.sqrt(sets))
    assert found.std() / count < 1.3 * error


def test_many_sketches_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, values = np.arange(5_000) // 3, hashed(0, 5_000)
    rows = pa.chunked_array([sketches_of(entries_of(groups, values, 9), 1_667, 9)])
    whole = estimates(rows, 9)
    assert set(whole.tolist()) <= {2, 3}
    monkeypatch.setattr(registers, "_AT_ONCE", 2_000)
    assert estimates(rows, 9).tolist() == whole.tolist()


@pytest.mark.parametrize("hashed", [0, 2**64 - 1, 2**63])
def test_values_of_one_hash_count_as_one(hashed: int) -> None:
    values: Numbers = entries_of(np.zeros(9, np.int64), np.full(9, hashed, np.uint64), 9)
    assert estimates(pa.chunked_array([sketches_of(values, 1, 9)]), 9).tolist() == [1]


def test_the_fullest_of_all_sketches_has_an_estimate() -> None:
    full = dense_sketches(np.full((1, 512), 33, np.uint8))
    assert estimates(pa.chunked_array([full]), 9).tolist() == [2**62]


def test_few_values_of_many_groups_take_a_few_bytes_each() -> None:
    groups = np.repeat(np.arange(100_000), 3)
    found = sketches_of(entries_of(groups, hashed(0, len(groups)), 9), 100_000, 9)
    assert found.nbytes < 100_000 * (3 * 2 + 8) + 100
