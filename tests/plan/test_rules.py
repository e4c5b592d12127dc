"""What each rule changes, before and after; explain tells the whole."""

from __future__ import annotations

import pytest
from tests.plan.networks import planned, source

import penstock as pk
from penstock.algebra.network import Network as FrozenNetwork
from penstock.errors import InternalError
from penstock.plan import compile as compiling
from penstock.plan.keep_rejects import keep_rejects
from penstock.plan.plan import Plan
from penstock.plan.prune_columns import prune_columns
from penstock.plan.roll_up import roll_up

N = {"n": "count(*)"}


def test_rejects_that_nobody_takes_get_outputs_of_their_own() -> None:
    net = pk.Network("net")
    source(net, "one").output("o")
    net.source("two", pk.memory([], schema={"ts": "int64"}), late="drop").output("p")
    before = Plan(net.network)
    assert [o.name for o in before.network.outputs] == ["o", "p"]
    after = keep_rejects(before)
    assert [o.name for o in after.network.outputs] == ["o", "p", "one!late", "one!errors", "two!errors"]


def test_only_needed_columns_are_read() -> None:
    net = pk.Network("net")
    packets = source(net)
    packets.where("b = 'x'").map(ts="ts", a="a", heavy="v * v").aggregate(N, on="ts", size=10, by="a").output("o")
    before = Plan(net.network)
    assert before.columns == {}
    columns = prune_columns(before).columns
    assert columns["in"] == {"ts", "a", "b"}
    assert columns["map1"] == {"ts", "a"}
    assert columns["aggregate1"] == {"ts", "a", "n"}


def test_an_output_needs_every_column_and_late_tuples_come_whole() -> None:
    net = pk.Network("net")
    packets = source(net)
    packets.aggregate(N, size=10).output("counts")
    packets.late().output("late")
    columns = planned(net).columns
    assert columns["in"] == {"ts"}
    assert columns["in.late"] == set(packets.schema.names)


def test_an_input_that_feeds_nothing_still_reads_its_progressing_attribute() -> None:
    net = pk.Network("net")
    packets = source(net)
    packets.errors().output("errors")
    assert planned(net).columns["in"] == {"ts"}


@pytest.mark.parametrize(
    ("windows", "step"),
    [
        ([(60, None)], 60),
        ([(60, 20)], 20),
        ([(60, None), (90, None)], 30),
        ([(7, 3)], 1),
    ],
)
def test_punctuation_is_as_fine_as_its_finest_window(windows: list[tuple[int, int | None]], step: int) -> None:
    net = pk.Network("net")
    packets = source(net)
    for number, (size, advance) in enumerate(windows):
        packets.where("v > 0").aggregate(N, size=size, advance=advance).output(f"o{number}")
    before = Plan(net.network)
    assert before.steps == {}
    assert roll_up(before).steps["in"] == step


def test_punctuation_that_leaves_by_an_output_or_goes_through_a_map_is_not_rolled_up() -> None:
    net = pk.Network("net")
    one, two = source(net, "one"), source(net, "two")
    one.aggregate(N, size=60).output("counts")
    one.output("raw")
    two.map(minute="ts / 60").aggregate(N, size=60).output("hours")
    steps = planned(net).steps
    assert (steps["one"], steps["two"]) == (1, 1)


def test_a_rule_that_breaks_the_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_the_inputs(plan: Plan) -> Plan:
        outputs = tuple(box for box in plan.network.boxes if box.kind == "output")
        return Plan(FrozenNetwork(plan.network.name, outputs))

    net = pk.Network("net")
    source(net).output("o")
    monkeypatch.setattr(compiling, "RULES", (forget_the_inputs,))
    with pytest.raises(
        InternalError, match=r"rule forget_the_inputs broke the network: .* 'o' stands before its input 'in'"
    ):
        compiling.compile_network(net.network)


def test_explain_tells_boxes_stages_and_progress() -> None:
    net = pk.Network("netmon")
    packets = net.source("main", pk.memory([], schema={"ts": "timestamp[ms]", "ip": "string", "len": "int64"}))
    big, _ = packets.filter("len > 100", name="size")
    flows = big.aggregate({"bytes": "sum(len)"}, size="1 minute", by="ip", name="flows")
    flows.aggregate({"most": "max(bytes)"}, size="1 hour", name="top").output("top")
    lines = net.explain().splitlines()
    assert lines[0] == "network netmon: 1 input, 2 stages"
    text = net.explain()
    for expected in (
        "  source main: memory (0 elements), on ts, ordered, late=route",
        "    reads ts, ip, len",
        "    -> main: progress on ts",
        "  filter size <- main: len > 100",
        "stage 1",
        "  aggregate flows <- size.1: bytes=sum(len) on ts, ",
        "    high level: results leave when ts has passed a window's end",
        "    exchange of size.1: by ip",
        "stage 2",
        "    exchange of flows: to bucket 0, as there are no keys",
        "  output top <- top: kept as results",
    ):
        assert expected in text, f"{expected!r} is not in\n{text}"
    assert "!late" not in text
