"""Hidden columns and marks."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ, carried, in_order


def test_tuples_are_ordered_by_arrival_number_and_then_by_content() -> None:
    tuples = pa.table({"k": ["b", "a", "c", None], "l": [[1], [2], [3], [4]], SEQ: [1, 1, 0, 1]})
    assert in_order(tuples)["k"].to_pylist() == ["c", "a", "b", None]


def test_the_order_does_not_depend_on_how_tuples_lay() -> None:
    tuples = pa.table({"k": ["b", "a", "c"], SEQ: [5, 5, 5]})
    assert in_order(tuples) == in_order(tuples.take([2, 0, 1]))


def test_no_tuples_are_in_order() -> None:
    assert in_order(pa.table({"k": pa.array([], pa.string()), SEQ: pa.array([], pa.int64())})).num_rows == 0


def test_only_the_hidden_columns_that_are_there_are_carried() -> None:
    assert carried(pa.table({"k": [1], ARRIVED: [0]})) == [ARRIVED]


def _source(*names: str) -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=dict.fromkeys(names, "int64")))


@pytest.mark.parametrize(
    "build",
    [
        lambda: _source("ts", "#seq"),
        lambda: _source("ts").map(**{"ts": "ts", "#seq": "ts"}),
    ],
    ids=["source", "map"],
)
def test_names_of_hidden_columns_are_refused(build: Callable[[], pk.Stream]) -> None:
    with pytest.raises(pk.QueryError, match="'#seq' begins with '#', as hidden columns do"):
        build()


def test_a_stream_without_progress_still_ends() -> None:
    net = pk.Network("net")
    stream = net.source("in", pk.memory([(1,), (2,)], schema={"ts": "int64"}, train=1)).map(odd="ts % 2", name="odd")
    stream.output("out")
    assert stream.progressing == ()
    # A buffer that sorts on an attribute without progress must know when to let the rest go.
    stream.bsort(on="odd", slack=5).output("sorted")
    assert net.run(engine="local")["sorted"]["odd"].to_pylist() == [0, 1]
