"""What the optimizer may do to a network, before and after; and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock as pk
from penstock.errors import QueryError
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan, Step
from penstock.plan.rewrites.draft import Draft
from penstock.plan.rewrites.rewrites import REWRITES, take

SCHEMA = {"ts": "int64", "k": "int64", "v": "int64", "s": "string"}


def network(build: Callable[[pk.Stream, pk.Stream], object]) -> pk.Network:
    net = pk.Network("rewritten")
    build(*(net.source(name, pk.memory([], schema=SCHEMA)) for name in ("x", "y")))
    return net


def arranged(net: pk.Network, *steps: tuple[str, str]) -> Plan:
    return compile_network(net.network, arrangement=tuple(Step(*step) for step in steps))


def told(plan: Plan) -> list[str]:
    """Every box that is no input or output, what it does, and what it reads."""
    boxes = [b for b in plan.network.boxes if b.inputs and b.ports and "!" not in b.name]
    return [f"{b.name}({', '.join(p.name for p in b.inputs)}): {b.describe()}" for b in boxes]


def possible(net: pk.Network) -> set[tuple[str, str]]:
    draft = Draft.of(net.network)
    steps = [Step(rewrite, node.name) for rewrite in REWRITES for node in draft.nodes]
    return {(step.rewrite, step.box) for step in steps if take(draft.copied(), step)}


def test_filters_change_places() -> None:
    net = network(lambda x, y: x.where("k > 1", name="a").where("v > 2", name="b").output("o"))
    assert told(arranged(net, ("swap_filters", "b"))) == ["b(x): v > 2", "a(b): k > 1"]
    assert possible(net) == {("swap_filters", "b"), ("combine_filters", "b")}


def test_filters_are_combined() -> None:
    net = network(lambda x, y: x.where("k > 1", name="a").where("v > 2", name="b").where("k < 9", name="c").output("o"))
    plan = arranged(net, ("swap_filters", "b"), ("combine_filters", "c"))
    assert told(plan) == ["c(x): v > 2, then k > 1, then k < 9"]
    assert plan.stands_for(plan.network.outputs[0].inputs[0].box) == ("b", "a", "c")


def test_maps_are_combined_and_nothing_in_between_is_made() -> None:
    def build(x: pk.Stream, y: pk.Stream) -> None:
        first = x.map(ts="ts // 2", w="length(s)", u="upper(s)", v="v", name="a")
        second = first.map(ts="ts", long="w > 3 AND v > 0", u="u", name="b")
        second.map(ts="ts", told="u || '!'", long="long", name="c").output("o")

    plan = arranged(network(build), ("combine_maps", "c"))
    assert told(plan) == ["""c(x): ts=ts // 2, told=(upper("s")) || '!', long=(length("s")) > 3 AND "v" > 0"""]
    assert plan.stands_for(plan.network.outputs[0].inputs[0].box) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"ts": "ts", "w": "length(s)"}, {"ts": "ts", "a": "w + v2", "b": "w * 2"}, id="used twice"),
        pytest.param({"ts": "ts + 1"}, {"ts": "ts / 2"}, id="both compute the time"),
        pytest.param({"ts": "ts", "w": "CAST(s AS INTEGER)"}, {"ts": "ts", "b": "w IS NULL"}, id="may fail"),
        pytest.param({"ts": "ts", "w": "CAST(v AS DECIMAL(18, 2))"}, {"ts": "ts", "b": "w IS NULL"}, id="a decimal"),
    ],
)
def test_maps_stay_apart(first: dict[str, str], second: dict[str, str]) -> None:
    def build(x: pk.Stream, y: pk.Stream) -> None:
        x.map(**first, v2="v", name="a").map(**second, name="b").output("o")

    assert ("combine_maps", "b") not in possible(network(build))


def test_a_filter_goes_over_a_map_under_the_names_that_there_are_before_it() -> None:
    net = network(lambda x, y: x.map(ts="ts", key="k", w="length(s)", name="m").where("key > 1", name="f").output("o"))
    assert told(arranged(net, ("lift_over_map", "f"))) == ["f(x): k > 1", "m(f): ts, key=k, w=length(s)"]


def test_a_filter_goes_into_all_streams_of_a_union() -> None:
    net = network(lambda x, y: pk.union(x, y, name="u").where("k > 1", name="f").output("o"))
    plan = arranged(net, ("lift_over_union", "f"))
    assert told(plan) == ["f.1(x): k > 1", "f.2(y): k > 1", "u(f.1, f.2): f.1 + f.2"]
    assert plan.accounts == {"f.1": "f", "f.2": "f"}


def test_what_a_filter_behind_a_join_drops_is_dropped_before_it_too() -> None:
    def build(x: pk.Stream, y: pk.Stream) -> None:
        pairs = x.join(y, "l.k = r.k", on=("ts", "ts"), band=(1, 1), name="j")
        pairs.map(ts="l_ts", w="r_v", name="m").where("w > 2", name="f").output("o")

    found = told(arranged(network(build), ("filter_in_advance", "f")))
    assert [line.split(":")[0] for line in found] == ["f.ahead(y)", "j(x, f.ahead)", "m(j)", "f(m)"]
    assert found[0] == "f.ahead(y): v > 2"


def test_what_a_filter_on_groups_drops_is_dropped_before_the_aggregate_too() -> None:
    def build(x: pk.Stream, y: pk.Stream) -> None:
        counts = x.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"], name="a")
        counts.where("n > 2", name="n").where("k > 1", name="f").output("o")

    net = network(build)
    found = told(arranged(net, ("filter_in_advance", "f")))
    assert [line.split(":")[0] for line in found] == ["f.ahead(x)", "a(f.ahead)", "n(a)", "f(n)"]
    assert ("filter_in_advance", "n") not in possible(net)


def split(x: pk.Stream, y: pk.Stream) -> None:
    first = x.where("k > 1", name="a")
    first.output("all")
    first.where("v > 2", name="b").output("o")


def outer(x: pk.Stream, y: pk.Stream) -> None:
    x.join(y, "l.k = r.k", on=("ts", "ts"), band=(1, 1), how="left").where("l_v > 1", name="f").output("o")


def joined(x: pk.Stream, predicate: str, y: pk.Stream, where: str) -> None:
    x.join(y, predicate, on=("ts", "ts"), band=(1, 1)).where(where, name="f").output("o")


@pytest.mark.parametrize(
    ("why", "build"),
    [
        ("it may fail", lambda x, y: x.where("k > 1", name="a").where("v + 1 > 2", name="b").output("o")),
        ("the other may fail", lambda x, y: x.where("k + 1 > 1", name="a").where("v > 2", name="b").output("o")),
        ("others read what is between them", split),
        ("it looks at what the map computes", lambda x, y: x.map(ts="ts", w="k // 2").where("w > 1").output("o")),
        ("the map may fail", lambda x, y: x.map(ts="ts", k="k", w="v + 1").where("k > 1").output("o")),
        ("the map refuses times", lambda x, y: x.map(ts="ts * 2", k="k").where("k > 1").output("o")),
        ("tuples may leave alone", outer),
        ("it looks at both sides", lambda x, y: joined(x, "l.k = r.k", y, "l_v > r_v")),
        ("the join may fail", lambda x, y: joined(x, "l.k = r.k AND l.v + 1 > 2", y, "l_v > 1")),
        (
            "a sum may overflow",
            lambda x, y: x.aggregate({"t": "sum(v)"}, on="ts", size=9, by=["k"]).where("k > 1").output("o"),
        ),
        ("it routes tuples", lambda x, y: x.where("k > 1").filter("v > 1", "v > 2")[0].output("o")),
    ],
)
def test_nothing_can_be_done_where(why: str, build: Callable[[pk.Stream, pk.Stream], object]) -> None:
    assert possible(network(build)) == set(), why


def test_a_connection_point_is_a_border() -> None:
    net = pk.Network("stored")
    x = net.source("x", pk.memory([], schema=SCHEMA))
    kept = x.where("k > 1", name="a")
    kept.connection_point("kept", keep=pk.keep(time=60))
    kept.where("v > 2", name="b").output("o")
    assert possible(net) == set()


def test_a_step_that_cannot_be_taken_is_refused() -> None:
    net = network(lambda x, y: x.where("k > 1", name="a").output("o"))
    for step in (("swap_filters", "a"), ("swap_filters", "nobody"), ("no_rewrite", "a")):
        with pytest.raises(QueryError, match="cannot be arranged"):
            arranged(net, step)


def test_an_in_order_network_is_not_arranged() -> None:
    net = network(lambda x, y: x.where("k > 1", name="a").where("v > 2", name="b").output("o"))
    with pytest.raises(QueryError, match="cannot be optimized"):
        compile_network(net.network, "in-order", (Step("swap_filters", "b"),))
