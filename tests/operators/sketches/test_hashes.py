"""Hashes that never change: sketches in checkpoints are made of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.sketches import hashes as module
from penstock.operators.sketches.hashes import BLOCK, LONG, hashes

MASK = 2**64 - 1
FIRST, SECOND, THIRD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def finished(hashed: int) -> int:
    hashed = hashed * SECOND & MASK
    hashed ^= hashed >> 29
    hashed = hashed * THIRD & MASK
    return hashed ^ hashed >> 32


def absorbed(hashed: int, word: int) -> int:
    hashed = (hashed ^ word) * FIRST & MASK
    return hashed ^ hashed >> 32


def of_number(number: int) -> int:
    return finished(absorbed(THIRD, number & MASK))


def of_text(text: bytes) -> int:
    """The definition in plain Python, byte by byte."""
    words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, len(text), 8)]
    hashed = (len(text) + 1) * SECOND & MASK
    hashed ^= hashed >> 32
    if len(text) <= LONG:
        for word in words:
            hashed = absorbed(hashed, word)
        return finished(hashed)
    total = 0
    for place, word in enumerate(words, 1):
        mixed = (word ^ (place * SECOND & MASK)) * FIRST & MASK
        mixed = (mixed ^ mixed >> 32) * THIRD & MASK
        total += mixed ^ mixed >> 29
    return finished(hashed ^ (total & MASK))


@given(
    st.lists(st.one_of(st.binary(max_size=20), st.binary(max_size=200), st.sampled_from([b"", b"\0", b"\0" * 8]))),
    st.data(),
)
def test_texts_are_hashed_by_their_bytes_however_they_lie_in_memory(texts: list[bytes], data: st.DataObject) -> None:
    expected = [of_text(text) for text in texts]
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
    whole = pa.array([b"before", *texts, b"behind"], kind)[1:-1]
    assert hashes(whole).tolist() == expected
    cut = data.draw(st.integers(0, len(texts)))
    assert hashes(pa.chunked_array([whole[:cut], whole[cut:]])).tolist() == expected
    assert hashes(whole.cast(pa.binary()).dictionary_encode()).tolist() == expected
    order = data.draw(st.permutations(range(len(texts))))
    assert hashes(whole.cast(pa.binary()).take(pa.array(order, pa.int64()))).tolist() == [expected[n] for n in order]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 19, LONG, LONG + 1, 100])
def test_texts_of_one_length_are_hashed_alike(length: int) -> None:
    texts = [f"{number:0200}"[-length:] if length else "" for number in range(40)]
    kinds = (pa.string(), pa.large_string(), pa.string_view())
    for kind in kinds:
        assert hashes(pa.array(texts, kind)[3:]).tolist() == [of_text(text.encode()) for text in texts[3:]]


def test_long_texts_are_hashed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [("x" * length).encode() for length in (70, 3000, 65, 500, 500, 64, 90)]
    whole = hashes(pa.array(texts)).tolist()
    assert whole == [of_text(text) for text in texts]
    monkeypatch.setattr(module, "_LONG_WORDS", 64)
    assert hashes(pa.array(texts)).tolist() == whole


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str
)
def test_whole_numbers_are_hashed_by_their_value(kind: pa.DataType) -> None:
    signed = pa.types.is_signed_integer(kind)
    most = 2 ** (kind.bit_width - signed) - 1
    numbers = [0, 1, 17, most, *([-1, -most - 1] if signed else [])]
    assert hashes(pa.array([5, *numbers], kind)[1:]).tolist() == [of_number(number) for number in numbers]


def test_equal_floats_have_one_hash() -> None:
    nan, other = np.array([0x7FF8000000000000, 0xFFF8000000000123], np.uint64).view(np.float64)
    found = hashes(pa.array([0.0, -0.0, nan, other, 1.5])).tolist()
    assert found[0] == found[1] == of_number(0)
    assert found[2] == found[3] == of_number(0x7FF8000000000000)
    assert hashes(pa.array([0.0, -0.0, nan, nan, 1.5], pa.float32())).tolist() == found
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([dt.date(1970, 1, 2), dt.date(1969, 12, 31)], [1, -1]),
        (pa.array([5, -5], pa.timestamp("us")), [5, -5]),
        (pa.array([5, -5], pa.timestamp("us", tz="UTC")), [5, -5]),
        (pa.array([5, -5], pa.timestamp("ns")), [5, -5]),
        (pa.array([5, 6], pa.time64("us")), [5, 6]),
        (pa.array([5, 6], pa.time32("s")), [5, 6]),
        ([True, False, True], [1, 0, 1]),
    ],
    ids=["dates", "times", "zoned times", "nanoseconds", "clock", "seconds", "booleans"],
)
def test_times_and_booleans_are_hashed_as_numbers(values: Any, numbers: list[int]) -> None:
    assert hashes(values if isinstance(values, pa.Array) else pa.array(values)).tolist() == list(
        map(of_number, numbers)
    )


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal128(9, 2), pa.decimal32(9, 2)], ids=str)
def test_decimals_are_hashed_by_both_halves(kind: pa.DataType) -> None:
    given = [Decimal("0.00"), Decimal("-0.01"), Decimal("12345.67")]
    halves = [int(number * 100) & (2**128 - 1) for number in given]
    expected = [finished(absorbed(absorbed(THIRD, both & MASK), both >> 64)) for both in halves]
    assert hashes(pa.array([Decimal(1), *given], kind)[1:]).tolist() == expected


def test_some_hashes_as_they_always_were() -> None:
    """If this fails, sketches in checkpoints of earlier versions count what comes twice."""
    assert hashes(pa.array([0, 1, -1])).tolist() == [
        12371090455609674658,
        10171201759480276985,
        5471881202480608752,
    ]
    assert hashes(pa.array(["", "a", "host-000123.example", "x" * 65])).tolist() == [
        487269932302308529,
        992353037752011737,
        8428842835679657940,
        14626470592773080548,
    ]


def test_null_is_no_value_but_does_not_stop_the_others() -> None:
    for values in (
        ["a", None, "b"],
        [1, None, 2],
        [1.5, None, 2.5],
        [True, None, False],
        [Decimal(1), None, Decimal(2)],
    ):
        found, known = hashes(pa.array(values)), hashes(pa.array([values[0], values[2]]))
        assert found[[0, 2]].tolist() == known.tolist()
    coded = pa.array(["a", None, "b"]).dictionary_encode()
    assert hashes(coded)[[0, 2]].tolist() == hashes(pa.array(["a", "b"])).tolist()
    assert len(hashes(pa.array([None, None], pa.string()).dictionary_encode())) == 2


def test_many_values_are_hashed_in_blocks() -> None:
    count = 2 * BLOCK + 5
    numbers = hashes(pa.array(np.arange(count)))
    assert numbers[[0, BLOCK, count - 1]].tolist() == [of_number(n) for n in (0, BLOCK, count - 1)]
    assert len(np.unique(numbers)) == count
    texts = [f"t{number % 1000}" for number in range(count)]
    assert hashes(pa.array(texts))[[0, BLOCK, count - 1]].tolist() == [
        of_text(texts[n].encode()) for n in (0, BLOCK, count - 1)
    ]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(np.arange(1 << 17)),
        pa.array(np.arange(1 << 17) << 40),
        pa.array(np.arange(1 << 17, dtype=np.float64)),
        pa.array([f"host-{number:06}.example" for number in range(1 << 17)]),
        pa.array([f"{number:099}" for number in range(1 << 17)]),
    ],
    ids=["numbers", "high numbers", "floats", "texts", "long texts"],
)
def test_every_bit_of_a_hash_is_as_often_one_as_zero(values: pa.Array) -> None:
    bits = (hashes(values)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    deviation = np.sqrt(len(values)) / 2
    assert np.abs(bits.sum(axis=0).astype(np.int64) - len(values) / 2).max() < 5 * deviation
