"""Inputs that make progress on several attributes (oop.md 3.1, example 3), and on ones that decrease."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.conftest import Runner

import penstock as pk
from penstock.errors import WorldError

FLOWS = {"flow_end": "int64", "flow_start": "int64", "bytes": "int64"}
PROGRESS = {"flow_end": pk.ordered(), "flow_start": pk.delayed(30)}


def _flows(net: pk.Network, rows: list[Any], **options: Any) -> pk.Stream:
    return net.source("flows", pk.memory(rows, schema=FLOWS, train=1), progress=PROGRESS, **options)


def test_queries_window_on_either(run: Runner) -> None:
    """NetFlow records arrive in order of their end; their starts are up to 30 behind."""
    net = pk.Network("netflow")
    flows = _flows(net, [(10, 2, 1), (11, 9, 1), (22, 1, 1), (35, 30, 1), (41, 41, 1), (60, 45, 1)])
    flows.aggregate({"n": "count(*)"}, on="flow_end", size=10, name="ends").output("ends")
    flows.aggregate({"n": "count(*)"}, on="flow_start", size=10, name="starts").output("starts")
    left: list[tuple[int, int]] = []
    result = run(net, on_batch=lambda record: left.append((record.outputs["ends"], record.outputs["starts"])))
    assert [tuple(row.values()) for row in result["ends"].to_pylist()] == [(10, 2), (20, 1), (30, 1), (40, 1), (60, 1)]
    assert [tuple(row.values()) for row in result["starts"].to_pylist()] == [(0, 3), (30, 1), (40, 2)]
    #  ends stand at 10, 11, 22, 35, 41; starts 30 behind the largest: -28, -21, -21, 0, 11, and then the end
    assert left == [(0, 0), (0, 0), (1, 0), (2, 0), (3, 1), (5, 3)]
    assert result.late("flows").num_rows == 0


def test_a_tuple_that_breaks_either_promise_is_late(run: Runner) -> None:
    net = pk.Network("netflow")
    flows = _flows(net, [(40, 40, 1), (39, 38, 2), (41, 9, 3), (42, 10, 4), (43, None, 5), (None, 41, 6)])
    flows.output("taken")
    result = run(net)
    assert result["taken"]["bytes"].to_pylist() == [1, 4]
    assert result.late("flows")["bytes"].to_pylist() == [2, 3]
    reasons = result.errors("flows")["reason"].to_pylist()
    assert [reason.split(":")[0] for reason in reasons] == ["flow_start is NULL", "flow_end is NULL"]
    counts = result.record().inputs["flows"]
    assert (counts.read, counts.taken, counts.late, counts.refused) == (6, 2, 2, 2)


def test_a_late_tuple_may_stop_the_run_and_is_told_by_its_attribute() -> None:
    net = pk.Network("netflow")
    _flows(net, [(40, 40, 1), (41, 9, 3)], late="error").output("taken")
    with pytest.raises(WorldError, match=r"flow_start >= 10 \(delayed by 30\)"):
        net.run(engine="local")


def test_punctuation_in_the_data_speaks_of_one_of_them(run: Runner) -> None:
    net = pk.Network("netflow")
    rows = [(10, 2, 1), pk.punctuation(flow_start=10), (11, 9, 2), (12, 12, 3)]
    flows = _flows(net, rows)
    flows.aggregate({"n": "count(*)"}, on="flow_start", size=10).output("starts")
    result = run(net)
    assert result["starts"].to_pylist() == [{"flow_start": 0, "n": 1}, {"flow_start": 10, "n": 1}]
    assert result.late("flows")["bytes"].to_pylist() == [2]


def test_windows_on_a_number_that_counts_down(run: Runner) -> None:
    net = pk.Network("countdown")
    rows = [(9, "a"), (8, "b"), (7, "a"), (4, "a"), (8, "a"), (1, "b"), (-3, "a")]
    ticks = net.source(
        "ticks", pk.memory(rows, schema={"left": "int64", "k": "string"}, train=1),
        on="left", progress=pk.delayed(1, descending=True),
    )  # fmt: skip
    ticks.aggregate({"n": "count(*)", "most": "max(left)"}, on="left", size=5, by="k").output("counts")
    ticks.aggregate({"n": "count(*)"}, on="left", size=10, advance=5).output("sliding")
    left: list[int] = []
    result = run(net, on_batch=lambda record: left.append(record.outputs["counts"]))
    assert result["counts"].sort_by([("left", "descending"), ("k", "ascending")]).to_pylist() == [
        {"left": 5, "k": "a", "n": 2, "most": 9},
        {"left": 5, "k": "b", "n": 1, "most": 8},
        {"left": 0, "k": "a", "n": 1, "most": 4},
        {"left": 0, "k": "b", "n": 1, "most": 1},
        {"left": -5, "k": "a", "n": 1, "most": -3},
    ]
    #  the bound: no more than 10, 9, 8, 5, ..., 2, -2, and then the end
    assert left == [0, 0, 0, 0, 0, 2, 5]
    assert result.late("ticks")["left"].to_pylist() == [8]
    assert [tuple(row.values()) for row in result["sliding"].to_pylist()] == [(5, 3), (0, 5), (-5, 3), (-10, 1)]


def test_an_expression_that_turns_it_round_progresses(run: Runner) -> None:
    net = pk.Network("countdown")
    rows = [(90,), (80,), (75,), (30,)]
    ticks = net.source(
        "ticks", pk.memory(rows, schema={"left": "int64"}, train=1), on="left", progress=pk.ordered(descending=True)
    )
    ticks.map(done="100 - left").aggregate({"n": "count(*)"}, on="done", size=20).output("counts")
    left: list[int] = []
    result = run(net, on_batch=lambda record: left.append(record.outputs["counts"]))
    assert [tuple(row.values()) for row in result["counts"].to_pylist()] == [(0, 1), (20, 2), (60, 1)]
    assert left == [0, 1, 1, 3]
