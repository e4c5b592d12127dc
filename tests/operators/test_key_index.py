"""An index over keys finds what a dictionary of Python finds, whatever the keys are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators import key_index
from penstock.operators.key_index import NONE, KeyIndex
from penstock.operators.key_words import LONGEST, Layout, has_words

TEXTS = st.one_of(
    st.text("ab\0é", max_size=4),
    st.sampled_from(["", "\0", "abcdefg", "abcdefgh", "abcdefghi", "abcdefg\0", "host-000001.example", "x" * LONGEST]),
)
LONG = st.sampled_from(["y" * (LONGEST + 1), "x" * (LONGEST + 1), "z" * 300])
INTEGERS = {
    kind: st.one_of(
        st.integers(0, 5),
        st.sampled_from(
            [np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max],
        ).map(int),
    )
    for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64())
}
KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXTS,
    pa.binary(): TEXTS.map(str.encode),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-3, 3),
    pa.timestamp("us"): st.integers(-3, 3),
    **INTEGERS,
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Keys to be known, and keys to be looked up, cut out of longer columns."""
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=3))
    made = []
    for longer in (False, True):
        rows, skipped = draw(st.integers(0, 12)), draw(st.integers(0, 2))
        columns = []
        for kind in kinds:
            values = KEYS[kind] | (LONG if longer and kind == pa.string() else st.nothing())
            if draw(st.booleans()):
                values = values | st.none()
            drawn = draw(st.lists(values, min_size=rows + skipped, max_size=rows + skipped))
            columns.append(pa.array(drawn, kind).slice(skipped))
        made.append(pa.table(columns, names=[f"k{at}" for at in range(len(kinds))]))
    return made[0], made[1]


@given(tables())
def test_it_finds_what_a_dictionary_finds(keys: tuple[pa.Table, pa.Table]) -> None:
    known, asked = keys
    expected: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*known.to_pydict().values(), strict=True)):
        if None not in key:
            expected.setdefault(key, []).append(row)
    index = KeyIndex.of(known)
    if index is None:
        assert not expected
        return
    found = index.find([column.combine_chunks() for column in asked.columns])
    for number, key in zip(found.tolist(), zip(*asked.to_pydict().values(), strict=True), strict=True):
        if number == NONE:
            rows = []
        elif index.first is None:
            rows = [int(index.rows[number])]
        else:
            rows = index.rows[index.first[number] : index.first[number + 1]].tolist()
        assert rows == expected.get(key, [])


@pytest.mark.parametrize("width", [3, 7, 8, 19])
def test_texts_of_one_length_are_found(width: int) -> None:
    names = pa.array([f"{number:0{width}d}"[:width] for number in range(900)])
    index = KeyIndex.of(pa.table({"k": names}))
    assert index is not None
    assert index.find([names.slice(5)]).tolist() == list(range(5, 900))
    others = pa.array(["x" * width] * 9)
    assert index.find([others]).tolist() == [NONE] * 9


def test_many_keys_share_places() -> None:
    keys = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000, np.int64)
    index = KeyIndex.of(pa.table({"k": keys}))
    assert index is not None
    assert keys[index.rows[index.find([pa.array(keys)])]].tolist() == keys.tolist()
    assert set(index.find([pa.array(keys[:500] ^ 1)]).tolist()) == {NONE}


def test_keys_that_are_no_good_have_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KeyIndex.of(pa.table({"k": [1.5]})) is None
    assert KeyIndex.of(pa.table({"k": ["x" * (LONGEST + 1)]})) is None
    assert KeyIndex.of(pa.table({"k": pa.array([None], pa.int64())})) is None
    assert Layout.of(pa.table({"k": ["x" * LONGEST]})) == Layout((8,))
    monkeypatch.setattr(key_index, "MOST_AT_A_PLACE", 0)
    assert KeyIndex.of(pa.table({"k": ["a"]})) is None


def test_values_that_the_kernel_takes_for_equal_have_no_words() -> None:
    refused = [
        pa.float64(),
        pa.date64(),
        pa.time64("ns"),
        pa.timestamp("ns", "UTC"),
        pa.duration("ns"),
        pa.decimal128(5),
    ]
    assert not any(map(has_words, refused))
