"""Vocabularies: a number for every value, and an order that depends on the values alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators import vocabulary
from penstock.operators.pairs import distinct_counts, distinct_pairs
from penstock.operators.vocabulary import Vocabulary

TEXTS = st.text(max_size=15).filter(lambda text: len(text.encode()) < 64)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
CASES: list[Any] = [(pa.string(), TEXTS), (pa.int64(), NUMBERS), (pa.uint64(), st.integers(0, 2**64 - 1))]


@pytest.mark.parametrize(("kind", "values"), CASES, ids=["texts", "integers", "unsigned"])
@given(data=st.data())
def test_equal_values_have_equal_numbers_and_others_have_others(kind: pa.DataType, values: Any, data: Any) -> None:
    words, known = Vocabulary(kind), dict[Any, int]()
    for some in data.draw(st.lists(st.lists(values, max_size=20), max_size=6)):
        numbers = words.numbers(pa.array(some, kind))
        assert numbers is not None
        for value, number in zip(some, numbers.tolist(), strict=True):
            assert known.setdefault(value, number) == number
    assert len(set(known.values())) == len(known) == len(words)
    found = words.ordered()
    assert found.entries.take(pa.array(found.ranks)).to_pylist() == sorted(known, key=lambda value: known[value])
    assert words.numbers_of_entries(found.entries) is found.numbers
    copied = pa.concat_arrays([found.entries.slice(0, 0), found.entries])
    assert np.array_equal(words.numbers_of_entries(copied), found.numbers)


@given(texts=st.lists(TEXTS, unique=True, max_size=30), longest=st.integers(0, 63))
def test_the_order_does_not_depend_on_what_came_when(texts: list[str], longest: int) -> None:
    one, other = Vocabulary(pa.string()), Vocabulary(pa.string())
    other.numbers(pa.array(["y" * longest]))
    one.numbers(pa.array(texts, pa.string()))
    other.numbers(pa.array(texts[::-1], pa.string()))
    first, second = (words.ordered().entries.to_pylist() for words in (one, other))
    assert [text for text in second if text in set(texts)] == first


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_it_grows_in_several_threads(kind: pa.DataType) -> None:
    words = Vocabulary(kind)
    values = [pa.array(np.random.default_rng(n).integers(0, 30_000, 100_000)).cast(kind) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(words.numbers, values))
    order = words.ordered()
    for some, numbers in zip(values, found, strict=True):
        assert numbers is not None
        assert order.entries.take(pa.array(order.ranks[numbers])).equals(some)
    assert len(words) == len({value for some in values for value in some.to_pylist()})


def test_texts_that_are_too_long_have_no_numbers() -> None:
    words = Vocabulary(pa.string())
    assert words.numbers(pa.array(["x" * 63])) is not None
    assert words.numbers(pa.array(["x", "x" * 64])) is None


def test_a_large_vocabulary_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_vocabularies", {})
    monkeypatch.setattr(vocabulary, "MOST_VALUES", 2)
    first = vocabulary.vocabulary_with_room(pa.int64())
    first.numbers(pa.array([1, 2]))
    assert vocabulary.vocabulary_with_room(pa.int64()) is first
    first.numbers(pa.array([3]))
    assert len(vocabulary.vocabulary_with_room(pa.int64())) == 0


@given(
    pieces=st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=9), max_size=4),
    most=st.sampled_from([10, 2**20, 2**31]),
    values=st.sampled_from([10, 2**20, 2**31]),
)
def test_pairs_count_once(pieces: list[list[tuple[int, int]]], most: int, values: int) -> None:
    taken: Any = [
        tuple(np.array([p[i] for p in piece], k) for i, k in enumerate((np.uint32, np.int32))) for piece in pieces
    ]
    expected = sorted({pair for piece in pieces for pair in piece})
    found = distinct_pairs(taken, most, values)
    owners = np.repeat(found.firsts, found.counts).tolist()
    assert list(zip(owners, found.seconds.tolist(), strict=True)) == expected
    firsts, counts = distinct_counts(taken, most, values)
    assert np.repeat(firsts, counts).tolist() == [first for first, _ in expected]
