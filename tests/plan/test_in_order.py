"""What an in-order plan puts where: before and after, box by box."""

from __future__ import annotations

import pytest
from tests.plan.networks import source

import penstock as pk
from penstock.algebra.box import Box
from penstock.boxes.aggregate.low_level.box import InOrder, LowLevel
from penstock.plan.compile import compile_network
from penstock.plan.in_order import in_order
from penstock.plan.plan import IN_ORDER, OUT_OF_ORDER, Plan

N = {"n": "count(*)"}
SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


def late_source(net: pk.Network, name: str = "late") -> pk.Stream:
    return net.source(name, pk.memory([], schema=SCHEMA), progress=pk.delayed(5))


def prompt_source(net: pk.Network, name: str = "prompt") -> pk.Stream:
    return net.source(name, pk.memory([], schema=SCHEMA))


def drawn(net: pk.Network, architecture: str = IN_ORDER) -> list[str]:
    """`kind name <- inputs` of every box after the rule alone."""
    plan = in_order(Plan(net.network, architecture))
    plan.network.check()
    return [_line(box) for box in plan.network.boxes]


def _line(box: Box) -> str:
    inputs = f" <- {', '.join(p.name for p in box.inputs)}" if box.inputs else ""
    return f"{box.kind} {box.name}{inputs}"


def test_an_out_of_order_plan_is_left_as_it_is() -> None:
    net = pk.Network("net")
    late_source(net).aggregate(N, size=10, advance=5, name="a").output("o")
    assert drawn(net, OUT_OF_ORDER) == ["source late", "aggregate a <- late", "output o <- a"]


def test_an_input_that_may_be_out_of_order_is_sorted_and_one_in_order_is_not() -> None:
    net = pk.Network("net")
    prompt_source(net).where("v > 0", name="p").output("prompt")
    late_source(net).where("v > 0", name="l").output("late")
    assert drawn(net) == [
        "source prompt",
        "filter p <- prompt",
        "output prompt <- p",
        "source late",
        "cleanse late.sorted <- late",
        "filter l <- late.sorted",
        "output late <- l",
    ]


def test_an_input_of_several_shards_is_sorted() -> None:
    net = pk.Network("net")
    rows = [(1, "x", 0), (2, "y", 0)]
    net.source("links", pk.memory(rows, schema=SCHEMA, shard_by="k")).output("o")
    assert drawn(net) == ["source links", "cleanse links.sorted <- links", "output o <- links.sorted"]


def test_a_union_becomes_a_merge_under_its_own_name() -> None:
    net = pk.Network("net")
    both = pk.union(prompt_source(net, "a"), late_source(net, "b"), name="both")
    both.aggregate(N, size=10, name="counts").output("o")
    assert drawn(net) == [
        "source a",
        "source b",
        "cleanse b.sorted <- b",
        "merge both <- a, b.sorted",
        "aggregate counts <- both",
        "output o <- counts",
    ]


def test_a_union_without_progress_stays_a_union() -> None:
    net = pk.Network("net")
    a, b = (prompt_source(net, name).map(name=f"only_{name}", v="v") for name in "ab")
    pk.union(a, b, name="both").output("o")
    assert "union both <- only_a, only_b" in drawn(net)


@pytest.mark.parametrize(
    ("advance", "kind"), [(None, "aggregate"), (10, "aggregate"), (5, "buffered aggregate"), (12, "aggregate")]
)
def test_only_overlapping_windows_are_buffered(advance: int | None, kind: str) -> None:
    net = pk.Network("net")
    prompt_source(net).aggregate(N, size=10, advance=advance, name="a").output("o")
    assert drawn(net) == ["source prompt", f"{kind} a <- prompt", "output o <- a"]


def test_the_output_of_a_join_is_sorted_on_the_attribute_that_each_consumer_uses() -> None:
    net = pk.Network("net")
    pairs = prompt_source(net, "a").join(late_source(net, "b"), "l.k = r.k", size=3, name="pairs")
    pairs.aggregate(N, on="r_ts", size=10, name="right").output("right")
    pairs.where("l_v > 0", name="some").aggregate(N, on="l_ts", size=10, name="left").output("left")
    assert drawn(net)[3:] == [
        "join pairs <- a, b.sorted",
        "cleanse pairs.sorted <- pairs",
        "cleanse pairs.sorted.r_ts <- pairs",
        "aggregate right <- pairs.sorted.r_ts",
        "output right <- right",
        "filter some <- pairs.sorted",
        "aggregate left <- some",
        "output left <- left",
    ]


def test_what_leaves_several_buckets_is_put_in_one_order() -> None:
    net = pk.Network("net")
    prompt_source(net).aggregate(N, size=10, by="k", name="counts").output("o")
    assert drawn(net)[1:] == [
        "aggregate counts <- prompt",
        "cleanse counts.sorted <- counts",
        "output o <- counts.sorted",
    ]


def test_boxes_that_are_defined_on_arrival_read_what_arrives() -> None:
    net = pk.Network("net")
    packets = late_source(net).where("v > 0", name="some")
    packets.bsort(slack=3, name="sorted").output("bsort")
    packets.aggregate(N, on="ts", size=10, assuming=pk.order("ts", slack=2), name="assumed").output("assumed")
    packets.aggregate(N, on=pk.TUPLE_NUMBER, size=10, name="numbered").output("numbered")
    packets.aggregate(N, size=10, name="counts").output("counts")
    lines = drawn(net)
    assert lines[:4] == [
        "source late",
        "cleanse late.sorted <- late",
        "filter some <- late.sorted",
        "filter some.arriving <- late",
    ]
    for line in (
        "bsort sorted <- some.arriving",
        "aggregate assumed <- some.arriving",
        "aggregate numbered <- some.arriving",
        "aggregate counts <- some",
    ):
        assert line in lines


def test_a_box_is_built_once_where_arrival_and_order_are_the_same() -> None:
    net = pk.Network("net")
    packets = prompt_source(net).where("v > 0", name="some")
    packets.bsort(slack=3, name="sorted").output("bsort")
    packets.aggregate(N, size=10, name="counts").output("counts")
    assert [line for line in drawn(net) if line.startswith("filter")] == ["filter some <- prompt"]


def test_an_order_goes_back_through_the_names_of_maps() -> None:
    net = pk.Network("net")
    pairs = prompt_source(net, "a").join(prompt_source(net, "b"), "l.k = r.k", size=3, name="pairs")
    minutes = pairs.map(name="minutes", minute="r_ts / 60", k="l_k")
    minutes.aggregate(N, on="minute", size=5, name="counts").output("o")
    made = in_order(Plan(net.network, IN_ORDER)).network
    (cleanse,) = (box for box in made.boxes if box.kind == "cleanse")
    assert (cleanse.name, cleanse.describe()) == ("pairs.sorted", "on r_ts")


def test_late_streams_and_refused_records_are_left_alone() -> None:
    net = pk.Network("net")
    packets = late_source(net)
    packets.late().output("too_late")
    packets.errors().output("broken")
    assert drawn(net) == ["source late", "output too_late <- late.late", "output broken <- late.errors"]


def test_names_that_are_taken_are_not_taken_twice() -> None:
    net = pk.Network("net")
    late_source(net).where("v > 0", name="late.sorted").output("o")
    assert drawn(net)[1] == "cleanse late.sorted2 <- late"


def test_explain_shows_what_was_put_in() -> None:
    net = pk.Network("netmon")
    links = pk.union(prompt_source(net, "a"), late_source(net, "b"), name="links")
    links.aggregate(N, size=10, advance=5, name="counts").output("o")
    assert net.explain().splitlines()[0] == "network netmon: 2 inputs, 1 stage"
    text = net.explain(architecture="in-order")
    for expected in (
        "network netmon: 2 inputs, 1 stage, in-order",
        "  cleanse b.sorted <- b: on ts",
        "  merge links <- a, b.sorted: a + b.sorted on ts",
        "  buffered aggregate counts <- links: n=count(*) on ts, size 10, advance 5",
        "    keeps every tuple until its last window has closed, and then computes that window",
    ):
        assert expected in text, f"{expected!r} is not in\n{text}"


def test_an_unknown_architecture_is_refused() -> None:
    net = pk.Network("net")
    source(net).output("o")
    with pytest.raises(pk.QueryError, match=r"unknown architecture 'sideways'.*\n.*one of out-of-order, in-order"):
        compile_network(net.network, "sideways")


def test_a_low_level_table_is_flushed_in_order_and_stays_beside_its_high_level() -> None:
    net = pk.Network("smooth")
    packets = net.source("in", pk.memory([], schema={"ts": "int64", "k": "int64"}))
    packets.aggregate({"n": "count(*)"}, size=20, by="k", flush="lazy", table=4, name="counts").output("counts")
    plan = compile_network(net.network, "in-order")
    (low,) = [b for b in plan.network.boxes if isinstance(b, LowLevel)]
    assert isinstance(low.flush, InOrder)
    assert plan.stage_of["counts.low"] == plan.stage_of["counts"] == 1


def test_windows_on_an_attribute_that_decreases_read_what_arrives() -> None:
    rows = [(20 - i, i ^ 1) for i in range(12)]
    progress = {"left": pk.ordered(descending=True), "ts": pk.delayed(1)}
    net = pk.Network("net")
    both = net.source("in", pk.memory(rows, schema={"left": "int64", "ts": "int64"}, train=3), progress=progress)
    both.aggregate(N, on="left", size=6, advance=3).output("lefts")
    both.aggregate(N, on="ts", size=6).output("times")
    sorted_, arriving = (net.run("local", architecture=a) for a in (IN_ORDER, OUT_OF_ORDER))
    assert sorted_["lefts"].equals(arriving["lefts"])
    assert sorted_["times"].equals(arriving["times"])
