"""Where joint punctuation is stated: from a join to the aggregates that can use it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.plan.networks import planned, source

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.progress.propagation import propagate

N = {"n": "count(*)"}


def joined(net: pk.Network, **options: str) -> pk.Stream:
    return source(net, "one").join(source(net, "two"), "l.a = r.a", on="ts", size=5, name="pairs", **options)


USES: list[tuple[str, Callable[[pk.Stream], pk.Stream], set[str]]] = [
    ("one by the other", lambda s: s.aggregate(N, on="l_ts", size=5, by="r_ts"), {"pairs"}),
    ("the other by the one", lambda s: s.aggregate(N, on="r_ts", size=5, by=["l_a", "l_ts"]), {"pairs"}),
    ("behind a filter", lambda s: s.where("l_v > 0").aggregate(N, on="l_ts", size=5, by="r_ts"), {"pairs", "filter1"}),
    (
        "renamed and computed",
        lambda s: s.map(a="l_ts / 60", b="r_ts").aggregate(N, on="b", size=5, by="a"),
        {"pairs", "map1"},
    ),
    ("by something else", lambda s: s.aggregate(N, on="l_ts", size=5, by="l_a"), set()),
    ("no groups", lambda s: s.aggregate(N, on="l_ts", size=5), set()),
    ("the other time not kept", lambda s: s.map(a="l_ts", b="r_ts % 9").aggregate(N, on="a", size=5, by="b"), set()),
    ("held back", lambda s: s.cleanse(on="l_ts").aggregate(N, on="l_ts", size=5, by="r_ts"), set()),
    ("nobody asks", lambda s: s, set()),
]


@pytest.mark.parametrize(("use", "ports"), [case[1:] for case in USES], ids=[case[0] for case in USES])
def test_the_pair_is_stated_where_an_aggregate_can_use_it(
    use: Callable[[pk.Stream], pk.Stream], ports: set[str]
) -> None:
    net = pk.Network("net")
    use(joined(net)).output("o")
    assert planned(net).network.joint == ports


@pytest.mark.parametrize("options", [{"how": "left"}, {"progress": "left"}])
def test_results_that_are_no_pairs_or_show_one_time_only_have_none(options: dict[str, str]) -> None:
    net = pk.Network("net")
    joined(net, **options).aggregate(N, on="l_ts", size=5, by="r_ts").output("o")
    assert planned(net).network.joint == set()


def test_a_union_states_it_if_all_its_inputs_do() -> None:
    net = pk.Network("net")
    one, two = source(net, "one"), source(net, "two")
    pairs = one.join(two, "l.a = r.a", on="ts", size=5)
    more = one.join(two, "l.b = r.b", on="ts", size=1)
    pk.union(pairs, more, name="both").aggregate(N, on="l_ts", size=5, by="r_ts").output("o")
    outer = one.join(two, "l.b = r.b", on="ts", size=1, how="left")
    pk.union(pairs, outer, name="mixed").aggregate(N, on="l_ts", size=5, by="r_ts").output("p")
    assert planned(net).network.joint == {"both", "join1", "join2"}


def test_a_join_of_joined_pairs_states_its_own_pair() -> None:
    net = pk.Network("net")
    third = source(net, "three").map(t="ts", c="a")
    joined(net).join(third, "l.l_a = r.c", on=("l_ts", "t"), size=2, name="triples").aggregate(
        N, on="l_ts", size=5, by="t"
    ).output("o")
    assert planned(net).network.joint == {"triples"}


def test_marks_of_the_pair_are_those_of_the_inputs_whatever_the_band() -> None:
    net = pk.Network("net")
    pairs = joined(net).map(x="l_ts / 10", y="r_ts")
    pairs.aggregate(N, on="y", size=5, by="x").output("o")
    network = planned(net).network
    marks = propagate(network, {"one": Marks({"ts": 70}), "two": Marks({"ts": 31})})
    assert marks["pairs"] == Marks({"l_ts": 26, "r_ts": 31}, joint=({"l_ts": 70}, {"r_ts": 31}))
    assert marks["map1"].joint == ({"x": 7}, {"y": 31})


def test_explain_says_so() -> None:
    net = pk.Network("net")
    joined(net).aggregate(N, on="l_ts", size=5, by="r_ts", name="counts").output("o")
    text = net.explain()
    assert "-> pairs: progress on l_ts, r_ts, and jointly on (l_ts, r_ts)" in text
    assert "or has in all pairs with their r_ts (joint punctuation)" in text
