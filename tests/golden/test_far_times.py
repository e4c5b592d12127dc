"""Times that a map makes and no window can be computed on are refused at the map; everything else goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden.conftest import Runner
from tests.plan.networks import planned

import penstock as pk
from penstock.cli.accounts import accounts, balanced
from penstock.errors import QueryError
from penstock.plan.keep_rejects import errors_output

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
FAR = 8_000_000_000_000_000_000
"""Nearer than 2^60 to the largest tick, together with a ts of 10^17 or more."""
ROWS = [(1, "a", 1), (2, "b", 2), (10**17, "a", 3), (10**17 + 1, "b", 4)]
REASON = "far is out of range: it must be within 8,070,450,532,247,928,831 ticks of zero"


def _shifted(net: pk.Network, rows: Any = ROWS) -> pk.Stream:
    packets = net.source("packets", pk.memory(rows, schema=SCHEMA, train=2))
    return packets.map(far=f"ts + {FAR}", k="k", name="shift")


def test_a_window_that_would_end_beyond_the_last_tick_is_refused_at_the_map(run: Runner) -> None:
    net = pk.Network("far")
    far = _shifted(net)
    far.aggregate({"n": "count(*)"}, on="far", size=2**60, by="k", name="count").output("counts")
    far.errors().map(reason="reason", name="reasons").output("reasons")
    result = run(net)
    assert sorted(result["counts"].to_pylist(), key=str) == [
        {"far": 6 * 2**60, "k": "a", "n": 1},
        {"far": 6 * 2**60, "k": "b", "n": 1},
    ]
    errors = result.errors("shift")
    assert errors["reason"].to_pylist() == result["reasons"]["reason"].to_pylist() == [REASON] * 2
    assert errors["origin"].to_pylist() == ["shift", "shift"]
    assert [json.loads(record) for record in errors["record"].to_pylist()] == [
        {"ts": 10**17, "k": "a"},
        {"ts": 10**17 + 1, "k": "b"},
    ]
    work = result.record().boxes["shift"]
    assert (work.tuples_in, work.tuples_out, work.refused) == (4, 2, 2)
    assert result.record().inputs["packets"].taken == 4


def test_times_behind_a_stage_are_refused_too(run: Runner) -> None:
    net = pk.Network("far")
    packets = net.source("packets", pk.memory(ROWS, schema=SCHEMA, train=2))
    counts = packets.aggregate({"n": "count(*)"}, size=10, by="k")
    counts.map(far=f"ts + {FAR}", k="k", name="shift").aggregate({"n": "count(*)"}, on="far", size=100).output("o")
    result = run(net)
    assert [row["n"] for row in result["o"].to_pylist()] == [2]
    assert result.errors("shift").num_rows == result.record().boxes["shift"].refused == 2


@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
@pytest.mark.parametrize(
    "behind",
    [
        lambda s: s.aggregate({"n": "count(*)"}, on="far", size=10, origin="first"),
        lambda s: s.where("k = 'a'").map(later="far + 1", k="k").aggregate({"n": "count(*)"}, on="later", size=10),
        lambda s: s.join(s, "l.k = r.k", on="far", size=10),
        lambda s: s.cleanse(on="far"),
        lambda s: s.dedupe(on="far"),
        lambda s: s.resample(s, {"n": "count(*)"}, on="far", size=10),
    ],
)
def test_whatever_box_takes_them_for_times(behind: Any, architecture: str) -> None:
    net = pk.Network("far")
    behind(_shifted(net)).output("o")
    result = net.run(engine="local", architecture=architecture)
    assert result["o"].num_rows > 0
    assert result.errors("shift")["reason"].to_pylist() == [REASON] * 2


def test_numbers_that_nobody_takes_for_times_may_be_as_large_as_they_like() -> None:
    net = pk.Network("far")
    packets = net.source("packets", pk.memory(ROWS, schema=SCHEMA))
    keys = packets.map(ts="ts", key="9223372036854775807 - ts", name="key")
    keys.aggregate({"least": "min(key)"}, on="ts", size=2 * 10**17).output("keys")
    result = net.run(engine="local")
    assert result["keys"].to_pylist() == [{"ts": 0, "least": 2**63 - 2 - 10**17}]
    with pytest.raises(QueryError, match="there is no error stream of 'key'"):
        result.errors("key")


def test_expressions_that_cannot_leave_the_range_are_not_looked_at() -> None:
    net = pk.Network("far")
    packets = net.source("packets", pk.memory(ROWS, schema=SCHEMA))
    packets.map(minute="ts / 60", same="ts").aggregate({"n": "count(*)"}, on="minute", size=10**17).output("o")
    assert "map1!errors" not in [output.name for output in planned(net).network.outputs]
    with pytest.raises(QueryError, match="the map 'map2' refuses nothing"):
        packets.map(minute="ts / 60").errors()


def test_the_books_and_the_stepper_know_of_them() -> None:
    net = pk.Network("far")
    _shifted(net).aggregate({"n": "count(*)"}, on="far", size=10).output("counts")
    books = accounts(planned(net).network, net.run(engine="local").record())
    assert balanced(books)
    assert (("out", 2), ("refused", 2)) in [account.parts for account in books]
    stepper = net.stepper()
    stepper.run(inputs=True)
    assert stepper.output(errors_output("shift"))["reason"].to_pylist() == [REASON] * 2
    assert stepper.output("counts")["n"].to_pylist() == [2]


def test_values_that_are_assumed_to_be_in_order_go_to_the_late_stream(run: Runner) -> None:
    """An attribute that the input makes no progress on is not looked at there."""
    net = pk.Network("far")
    rows = [(1, "a", 1), (2, "a", 2**63 - 5), (3, "a", 4), (4, "a", None), (5, "a", 12)]
    packets = net.source("packets", pk.memory(rows, schema=SCHEMA, train=2))
    order = pk.order("v")
    packets.aggregate({"n": "count(*)"}, on="v", size=10, assuming=order, name="count").output("counts")
    packets.join(packets, "l.v = r.v", on="v", size=10, assuming=(order, order), name="pairs").output("pairs")
    other = net.source("other", pk.memory([(5, "a", 1)], schema=SCHEMA))
    other.resample(packets, {"n": "count(*)"}, on=("ts", "v"), size=10, assuming=order, name="near").output("near")
    result = run(net)
    assert result["counts"].to_pylist() == [{"v": 0, "n": 2}, {"v": 10, "n": 1}]
    for box in ("count", "near", "pairs.left"):
        assert result.late(box)["v"].to_pylist() == [2**63 - 5, None], box
