"""The judge: one chunk at once, or tuple by tuple, it finds the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.algebra.marks import Marks, most
from penstock.algebra.source import Source
from penstock.progress.extremes import Extremes, Reach
from penstock.progress.judge import judge, strongest

SCHEMA = pa.schema({"ts": "int64", "seen": "int64", "mark": "bool"})


def source(**options: Any) -> Source:
    progress = {"ts": pk.punctuated(where="mark"), "seen": pk.delayed(3)}
    net = pk.Network("net")
    net.source("in", pk.memory([], schema=SCHEMA), **{"progress": progress, **options}).output("out")
    return net.network.sources[0]


def rows(*records: tuple[Any, ...]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*records, strict=True), strict=True)), SCHEMA)


def test_records_are_sorted_out() -> None:
    """`(6, 5)` is late by its first attribute, `(9, 1)` by its second; the punctuation holds from the next train on."""
    chunk = rows((8, 5, False), (50, 0, True), (None, 5, False), (6, 5, False), (9, 1, False), (10, 7, False))
    found = judge(source(), chunk, Marks({"ts": 7, "seen": 2}))
    assert found.punctuation.to_pylist() == [False, True, False, False, False, False]
    assert found.unfit.to_pylist() == [False, False, True, False, False, False]
    assert found.late.to_pylist() == [False, False, False, True, True, False]
    assert found.taken.to_pylist() == [True, False, False, False, False, True]
    assert found.stated == Marks({"ts": 50})
    assert [list(each.ticks) for each in found.arrived] == [[8, 6, 9, 10], [5, 5, 1, 7]]
    assert found.extremes(source(), 99) == Extremes(10, at=99, others={"seen": Reach(7)})


def test_nothing_is_masked_where_nothing_is_wrong() -> None:
    found = judge(source(progress=pk.ordered()), rows((8, 5, False), (9, 5, False)), Marks({"ts": 8}))
    assert (found.punctuation, found.unfit, found.late, found.taken) == (None, None, None, None)


def test_late_tuples_that_must_not_be_end_the_run() -> None:
    with pytest.raises(pk.WorldError, match="2 late tuples, and the input was declared with late='error'"):
        judge(source(progress=pk.ordered(), late="error"), rows((3, 0, False), (2, 0, False)), Marks({"ts": 4}))


def test_of_punctuation_elements_the_strongest_counts() -> None:
    assert strongest(source(), {"ts": [3, 9, 4]}) == Marks({"ts": 9})
    downwards = source(progress=pk.ordered(descending=True))
    assert strongest(downwards, {"ts": [3, 9, 4]}) == Marks(falling={"ts": -3})


tick = st.none() | st.integers(-5, 15)


@given(st.lists(st.tuples(tick, tick, st.booleans()), min_size=1, max_size=12), st.integers(-5, 15))
def test_a_chunk_is_judged_as_its_tuples_are_one_by_one(records: list[tuple[Any, ...]], issued: int) -> None:
    box, marks = source(), Marks({"ts": issued, "seen": issued - 3})
    whole = judge(box, rows(*records), marks)
    single = [judge(box, rows(record), marks) for record in records]
    for name in ("punctuation", "unfit", "late"):
        mask = getattr(whole, name)
        alone = [getattr(each, name) is not None and getattr(each, name).to_pylist() == [True] for each in single]
        assert alone == ([False] * len(records) if mask is None else mask.to_pylist())
    assert whole.stated == most([each.stated for each in single])
