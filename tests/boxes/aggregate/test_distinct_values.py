"""Values that count once, in trains long enough that a look at a sample says whether they repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.boxes.aggregate import entry
from penstock.operators.groups import SAMPLED_ROWS, repeats

TRAINS = 5
ROWS = 2 * SAMPLED_ROWS


def rows(values: int) -> pa.Table:
    """Trains of which each has the same values again, `values` in every group."""
    at = np.arange(TRAINS * ROWS)
    texts = pa.array([f"v{number}" for number in range(values)])
    return pa.table({"ts": at, "k": at % 3, "v": texts.take(pa.array(at // 3 % values))})


@pytest.mark.parametrize("values", [7, ROWS, TRAINS * ROWS], ids=["few", "as many as a train", "all differ"])
@pytest.mark.parametrize("advance", [None, 2 * ROWS], ids=["tumbling", "sliding"])
def test_every_value_counts_once_however_often_trains_repeat_it(values: int, advance: int | None) -> None:
    tuples = rows(values)
    size = 4 * ROWS
    net = pk.Network("distinct")
    source = net.source("in", pk.memory(tuples, train=ROWS), on="ts", progress=pk.ordered())
    counted = {"d": "count(DISTINCT v)", "n": "count(*)", "s": "avg(DISTINCT ts)"}
    windows = {} if advance is None else {"advance": advance}
    source.aggregate(counted, on="ts", size=size, by=["k"], **windows).output("out")
    found = net.run("local", buckets=2)["out"].to_pylist()
    assert {row["ts"] for row in found} >= {0, size}
    for row in found:
        inside = tuples.slice(max(0, row["ts"]), size - max(0, -row["ts"])).to_pydict()
        own = [at for at, key in enumerate(inside["k"]) if key == row["k"]]
        assert row["n"] == len(own)
        assert row["d"] == len({inside["v"][at] for at in own})
        assert row["s"] == pytest.approx(sum(inside["ts"][at] for at in own) / len(own))


def test_a_sample_says_whether_values_repeat() -> None:
    assert repeats(rows(7), ["k", "v"])
    assert not repeats(rows(TRAINS * ROWS), ["k", "v"])
    assert repeats(rows(TRAINS * ROWS).slice(0, SAMPLED_ROWS - 1), ["k", "v"]), "few rows are not worth a look"


KEYS = st.sampled_from([None, "a", "b"])
VALUES = st.sampled_from([None, "", "x", "y"])
NUMBERS = st.sampled_from([None, -(2**63), 0, 1, 2**63 - 1])


@given(
    tuples=st.lists(st.tuples(st.integers(-9, 30), KEYS, VALUES, NUMBERS), min_size=1, max_size=30),
    train=st.integers(1, 30),
)
def test_values_that_are_held_as_they_are_give_the_same_results(tuples: list[tuple[Any, ...]], train: int) -> None:
    def results() -> pa.Table:
        net = pk.Network("distinct")
        rows = pk.memory(tuples, schema={"ts": "int64", "k": "string", "v": "string", "n": "int64"}, train=train)
        counted = {
            "d": "count(DISTINCT v)",
            "b": "count(DISTINCT n) FILTER (WHERE v <> 'x')",
            "s": "sum(DISTINCT n % 7)",
            "o": "count(DISTINCT n)",
            # Something that no table of counts holds, so that tuples are grouped by hashing.
            "m": "max(v)",
        }
        source = net.source("in", rows, on="ts", progress=pk.delayed(100))
        source.aggregate(counted, on="ts", size=10, advance=5, by=["k"]).output("out")
        return net.run("local", buckets=2)["out"].sort_by([("ts", "ascending"), ("k", "ascending")])

    found = []
    for repeating in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entry, "repeats", lambda rows, keys, repeating=repeating: repeating)
            found.append(results())
    assert found[0] == found[1]
