"""Golden cases of approx_count_distinct: in every kind of window, on both engines, and across a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.conftest import Runner

import penstock as pk
from penstock.runtime.board import Record

ROWS = [(t, "xy"[t % 2], f"host-{t * 37 % 700}") for t in range(3_000)]
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"size": 1_500},
    "sliding": {"size": 1_000, "advance": 500},
    "tuples": {"on": pk.TUPLE_NUMBER, "size": 700},
    "first": {"size": 1_500, "origin": "first"},
    "early": {"size": 1_500, "emit": "speculative"},
}


def network(*kinds: str) -> pk.Network:
    net = pk.Network("sketches")
    hosts = pk.memory(ROWS, schema={"ts": "int64", "k": "string", "host": "string"}, train=500)
    source = net.source("in", hosts, on="ts", progress=pk.ordered())
    calls = {"about": "approx_count_distinct(host)", "fine": "approx_count_distinct(host, 0.005)"}
    for name in kinds or WINDOWS:
        source.aggregate(calls, by="k", **WINDOWS[name]).output(name)
    return net


def counts(result: pk.Result, name: str) -> list[tuple[Any, ...]]:
    table: pa.Table = result[name]
    first = table.column_names[0]
    return sorted(tuple(row.values()) for row in table.select([first, "k", "about", "fine"]).to_pylist())


# There are 350 hosts of each group in a window; 250 in the first and the last of those that slide.
X, Y = (360, 349), (352, 351)
ANSWERS = {
    "tumbling": [(start, k, *about) for start in (0, 1500) for k, about in (("x", X), ("y", Y))],
    "sliding": [
        (-500, "x", 262, 249),
        (-500, "y", 247, 250),
        *((start, k, *about) for start in range(0, 2500, 500) for k, about in (("x", X), ("y", Y))),
        (2500, "x", 244, 249),
        (2500, "y", 258, 250),
    ],
    "tuples": [(start, k, *about) for start in (1, 701) for k, about in (("x", X), ("y", Y))],
    "first": [(start + (k == "y"), k, *about) for start in (0, 1500) for k, about in (("x", X), ("y", Y))],
}


def test_each_kind_of_window_says_what_it_always_said(run: Runner) -> None:
    result = run(network())
    for name, answer in ANSWERS.items():
        assert counts(result, name) == answer
    final = {}
    for event in result["early"].to_pylist():
        if event["kind"] == "insert":
            final[event["sync"], event["k"]] = event["about"], event["fine"]
    assert sorted((*key, *value) for key, value in final.items()) == ANSWERS["tumbling"]


def test_in_order_it_is_the_same(run: Runner) -> None:
    result = run(network("tumbling", "sliding"), architecture="in-order")
    for name in ("tumbling", "sliding"):
        assert counts(result, name) == ANSWERS[name]


@pytest.mark.spark
def test_a_spark_run_goes_on_with_its_sketches(tmp_path: Path, spark_ready: object) -> None:
    class InterruptError(Exception):
        pass

    def interrupt(record: Record) -> None:
        if record.batch == 2:
            raise InterruptError

    folder = str(tmp_path / "checkpoint")
    with pytest.raises(InterruptError):
        network().run(checkpoint=folder, buckets=2, on_batch=interrupt)
    result = network().run(checkpoint=folder, buckets=2)
    for name, answer in ANSWERS.items():
        assert counts(result, name) == answer
