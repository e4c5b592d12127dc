"""Where marks of groups are made, which boxes they reach, and what explain says of the others."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.plan.networks import SCHEMA, planned

import penstock as pk
from penstock.algebra.source import Source
from penstock.boxes.group_marks.box import GroupMarks
from penstock.boxes.least_marks.box import Branch, LeastMarks
from penstock.plan.mark_groups import mark_groups
from penstock.plan.plan import Plan

N = {"n": "count(*)"}
ROWS = pa.table({"a": ["x"], "place": ["here"]})


def grouped(net: pk.Network, **options: str) -> pk.Stream:
    return net.source("in", pk.memory([], schema=SCHEMA), progress=pk.delayed(2, by=["a", "b"]), **options)


def test_a_network_without_groups_stays_as_it_is() -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([], schema=SCHEMA)).aggregate(N, size=10, by="a").output("o")
    before = Plan(net.network)
    assert mark_groups(before) is before


def test_the_marks_stand_behind_their_input_and_its_late_streams_are_one() -> None:
    net = pk.Network("net")
    packets = grouped(net)
    packets.where("v > 0").output("o")
    packets.late().output("late")
    before, after = Plan(net.network), planned(net)
    assert [b.name for b in before.network.boxes] == ["in", "filter1", "o", "late"]
    boxes = {b.name: b for b in after.network.boxes if b.ports}
    marks = boxes["in.groups"]
    assert isinstance(marks, GroupMarks)
    assert (marks.groups, marks.delay, marks.source) == (("a", "b"), 2, "in")
    assert [p.name for p in boxes["filter1"].inputs] == ["in.groups"]
    late = [b.inputs[0].name for b in after.network.outputs if b.name in ("late", "in!late")]
    assert late == ["in!late", "in!late"]
    assert [p.name for p in boxes["in!late"].inputs] == ["in.late", "in.groups.late"]


def test_late_tuples_that_are_not_kept_go_nowhere() -> None:
    net = pk.Network("net")
    grouped(net, late="drop").output("o")
    network = planned(net).network
    assert [b.name for b in network.boxes] == ["in", "in.groups", "o", "in!errors"]
    assert isinstance(network.boxes[0], Source)


WAYS: list[tuple[str, Callable[[pk.Stream], pk.Stream], tuple[str, ...]]] = [
    ("by the groups", lambda s: s.aggregate(N, size=10, by=["a", "b"], name="agg"), ("a", "b")),
    ("by more", lambda s: s.aggregate(N, size=10, by=["v", "b", "a"], name="agg"), ("a", "b")),
    ("behind a filter", lambda s: s.filter("v > 0")[1].aggregate(N, size=10, by=["a", "b"], name="agg"), ("a", "b")),
    (
        "renamed twice",
        lambda s: (
            s.map(x="a", y="b", t="ts / 2")
            .where("t > 0")
            .map(y="x", x="y", u="t + 1")
            .aggregate(N, on="u", size=10, by=["x", "y"], name="agg")
        ),
        ("y", "x"),
    ),
    (
        "from the first value on",
        lambda s: s.aggregate(N, size=10, by=["a", "b"], origin="first", name="agg"),
        ("a", "b"),
    ),
    ("by fewer", lambda s: s.aggregate(N, size=10, by="a", name="agg"), ()),
    (
        "a group lost",
        lambda s: s.map(ts="ts", a="a", b="lower(b)").aggregate(N, size=10, by=["a", "b"], name="agg"),
        (),
    ),
    ("behind a sort", lambda s: s.cleanse().aggregate(N, size=10, by=["a", "b"], name="agg"), ()),
    ("behind a union", lambda s: pk.union(s, s).aggregate(N, size=10, by=["a", "b"], name="agg"), ("a", "b")),
    (
        "behind a union of parts",
        lambda s: pk.union(s.where("v > 0").map(t="ts", x="a", y="b"), s.map(t="ts + 1", x="a", y="b")).aggregate(
            N, on="t", size=10, by=["y", "x"], name="agg"
        ),
        ("x", "y"),
    ),
    (
        "behind a table",
        lambda s: s.join(pk.table(ROWS), "l.a = r.a", how="left").aggregate(N, size=10, by=["b", "l_a"], name="agg"),
        ("l_a", "b"),
    ),
    ("behind dedupe", lambda s: s.dedupe(by=["a", "b"]).aggregate(N, size=10, by=["a", "b"], name="agg"), ("a", "b")),
    (
        "behind a join",
        lambda s: s.join(s, "l.a = r.a AND l.b = r.b", on="ts", size=1).aggregate(
            N, on="l_ts", size=10, by=["r_a", "l_b", "l_a"], name="agg"
        ),
        ("l_a", "l_b"),
    ),
    (
        "behind a join on one of them",
        lambda s: s.join(s, "l.a = r.a", on="ts", size=1).aggregate(
            N, on="l_ts", size=10, by=["l_a", "l_b"], name="agg"
        ),
        (),
    ),
    (
        "behind a join that lets tuples go alone",
        lambda s: s.join(s, "l.a = r.a AND l.b = r.b", on="ts", size=1, how="left").aggregate(
            N, on="l_ts", size=10, by=["l_a", "l_b"], name="agg"
        ),
        (),
    ),
    (
        "where joint punctuation says more",
        lambda s: s.join(s, "l.a = r.a AND l.b = r.b", on="ts", size=1).aggregate(
            N, on="l_ts", size=10, by=["l_a", "l_b", "r_ts"], name="agg"
        ),
        (),
    ),
    ("by arrival", lambda s: s.aggregate(N, size=10, by=["a", "b"], assuming=pk.order("ts", 1), name="agg"), ()),
]


@pytest.mark.parametrize(("way", "paced"), [case[1:] for case in WAYS], ids=[case[0] for case in WAYS])
def test_an_aggregate_by_the_groups_takes_their_marks(
    way: Callable[[pk.Stream], pk.Stream], paced: tuple[str, ...]
) -> None:
    net = pk.Network("net")
    result = way(grouped(net))
    result.output("o")
    plan = planned(net)
    box = next(b for b in plan.network.boxes if b.name == "agg")
    assert getattr(box, "paced", ()) == paced
    assert box.schema(0) == result.schema
    explained = "each group of" in net.explain() and "by its own mark" in net.explain()
    lost, own = "the smallest of all marks of a, b counts here", net.explain().split("aggregate agg")[1]
    assert explained == bool(paced)
    assert lost not in own if paced else lost in net.explain()
    if paced:
        # No exchange lies between the marks and who uses them.
        assert plan.stage_of["agg"] == plan.stage_of["in.groups"] == 1


def test_maps_compute_of_marks_what_they_compute_of_tuples_and_no_more() -> None:
    net = pk.Network("net")
    mapped = grouped(net).map(x="a", y="b", t="ts / 2", heavy="v * v")
    mapped.aggregate(N, on="t", size=10, by=["x", "y"], name="agg").output("o")
    along = next(b for b in planned(net).network.boxes if b.name == "agg.marks")
    assert along.schema(0).names == ["x", "y", "t"]
    assert [p.name for p in along.inputs] == ["in.groups.marks"]


def test_a_join_of_a_grouped_input_says_that_it_takes_the_smallest_mark() -> None:
    net = pk.Network("net")
    other = net.source("other", pk.memory([], schema=SCHEMA))
    grouped(net).join(other, "l.a = r.a", on="ts", size=1).output("o")
    assert "the smallest of all marks of a, b counts here" in net.explain()


def test_marks_are_put_together_once_for_all_who_take_them() -> None:
    net = pk.Network("net")
    east, west = (
        net.source(name, pk.memory([], schema=SCHEMA), progress=pk.ordered(by="a")) for name in ("east", "west")
    )
    plain = net.source("plain", pk.memory([], schema=SCHEMA), progress=pk.delayed(5))
    both = pk.union(east, west.where("v > 0"), plain, name="both")
    both.aggregate(N, size=10, by="a", name="one").output("o")
    both.where("v > 3").map(ts="ts", unit="a").aggregate(N, size=5, by="unit", name="two").output("p")
    plan = planned(net)
    least = [b for b in plan.network.boxes if isinstance(b, LeastMarks)]
    assert [b.name for b in least] == ["both.marks"]
    assert least[0].branches == (
        Branch("east.groups", "ts", ("a",)),
        Branch("filter1", "ts", ("a",)),
        Branch("plain", "ts", ("a",), speaks=False),
    )
    inputs = {b.name: [p.name for p in b.inputs] for b in plan.network.boxes}
    assert inputs["both.marks"] == ["both!1", "both!2", "both!3", "east.groups.marks", "west.groups.marks"]
    assert (inputs["one"][1], inputs["two"][1], inputs["two.marks"]) == ("both.marks", "two.marks", ["both.marks"])
    assert plan.stage_of == dict.fromkeys(["east.groups", "west.groups", "both.marks", "one", "two"], 1)
    told = "least marks both.marks <- east.groups.marks, west.groups.marks: of each group of a the smallest mark in "
    assert f"{told}east.groups, filter1 and the mark of all of plain" in net.explain()


def test_marks_of_other_groups_count_as_one() -> None:
    net = pk.Network("net")
    one = net.source("one", pk.memory([], schema=SCHEMA), progress=pk.ordered(by="a"))
    two = net.source("two", pk.memory([], schema=SCHEMA), progress=pk.ordered(by="b"))
    pk.union(one, two).aggregate(N, size=10, by=["a", "b"], name="agg").output("o")
    (least,) = [b for b in planned(net).network.boxes if isinstance(b, LeastMarks)]
    assert [branch.speaks for branch in least.branches] == [True, False]
    assert least.groups == ("a",)


def test_what_a_bucket_knows_of_progress_is_not_used_for_groups_of_other_buckets() -> None:
    net = pk.Network("net")
    one = net.source("one", pk.memory([], schema=SCHEMA), progress=pk.ordered(by="a")).map(ts="ts", a="a", n="v")
    counts = net.source("two", pk.memory([], schema=SCHEMA)).aggregate({"n": "count(*)"}, size=1, by="b", name="counts")
    pk.union(one, counts.map(ts="ts", a="b", n="n"), name="both").aggregate(N, size=10, by="a", name="agg").output("o")
    stages = planned(net).stage_of
    # By the name of `a` what is counted lies in its bucket already; by another it would not.
    assert stages == {"one.groups": 1, "counts": 1, "both.marks": 1, "agg": 1}
    net = pk.Network("net")
    one = net.source("one", pk.memory([], schema=SCHEMA), progress=pk.ordered(by="a")).map(ts="ts", a="a", n="v")
    counts = net.source("two", pk.memory([], schema=SCHEMA)).aggregate(
        {"n": "count(*)", "a": "min(a)"}, size=1, by="b", name="counts"
    )
    pk.union(one, counts.map(ts="ts", a="a", n="n"), name="both").aggregate(N, size=10, by="a", name="agg").output("o")
    assert planned(net).stage_of == {"one.groups": 1, "counts": 1, "both.marks": 2, "agg": 2}
