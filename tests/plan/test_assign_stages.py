"""As few stages as the keys allow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.plan.networks import planned, source

import penstock as pk
from penstock.plan.assign_stages import assign_stages
from penstock.plan.plan import Plan

N = {"n": "count(*)"}


def stages(build: Callable[[pk.Network], None]) -> dict[str, int]:
    net = pk.Network("net")
    build(net)
    return dict(planned(net).stage_of)


def test_before_the_rule_there_are_no_stages_and_after_it_one_for_each_aggregate() -> None:
    net = pk.Network("net")
    source(net).aggregate(N, size=10, name="one").output("o")
    before = Plan(net.network)
    assert (before.stages, dict(before.stage_of)) == (0, {})
    after = assign_stages(before)
    assert (after.stages, dict(after.stage_of)) == (1, {"one": 1})


def test_a_network_without_aggregates_has_no_stage() -> None:
    assert stages(lambda net: source(net).where("v > 1").output("o") and None) == {}


def test_aggregates_of_one_stream_share_the_first_stage() -> None:
    def build(net: pk.Network) -> None:
        packets = source(net)
        packets.aggregate(N, size=10, by="a", name="by_a").output("x")
        packets.aggregate(N, size=10, by="b", name="by_b").output("y")
        packets.aggregate(N, size=10, name="all").output("z")

    assert stages(build) == {"by_a": 1, "by_b": 1, "all": 1}


@pytest.mark.parametrize(
    ("first", "second", "stage"),
    [
        (["a"], ["a"], 1),  # the same groups: the same bucket
        (["a"], ["a", "b"], 1),  # finer groups are inside the bucket of the coarser
        (["a", "b"], ["a"], 2),  # coarser groups are spread over buckets
        (["a", "b"], ["b", "a"], 1),
        (["a"], ["b"], 2),
        ([], ["a"], 1),  # everything is in bucket 0 already
        (["a"], [], 2),
        ([], [], 1),
    ],
)
def test_an_aggregate_of_an_aggregate_stays_where_the_buckets_fit(
    first: list[str], second: list[str], stage: int
) -> None:
    def build(net: pk.Network) -> None:
        inner = source(net).aggregate({"n": "count(*)", "x": "min(b)", "y": "min(a)"}, size=10, by=first, name="inner")
        # What is no group of the inner aggregate is one of its outputs.
        names = {c: c if c in first else {"a": "y", "b": "x"}[c] for c in "ab"}
        inner.map(ts="ts", n="n", **names).aggregate({"m": "sum(n)"}, size=20, by=second, name="outer").output("o")

    assert stages(build) == {"inner": 1, "outer": stage}


def test_a_map_that_renames_the_key_keeps_the_bucket_and_one_that_computes_it_does_not() -> None:
    def build(net: pk.Network) -> None:
        inner = source(net).aggregate(N, size=10, by="a", name="inner")
        inner.map(ts="ts", key="a").aggregate({"m": "count(*)"}, size=20, by="key", name="renamed").output("x")
        inner.map(ts="ts", key="upper(a)").aggregate({"m": "count(*)"}, size=20, by="key", name="computed").output("y")

    assert stages(build) == {"inner": 1, "renamed": 1, "computed": 2}


def test_a_union_of_raw_and_aggregated_tuples_is_exchanged_to_the_groups_that_are_there() -> None:
    def build(net: pk.Network) -> None:
        packets = source(net)
        counts = packets.aggregate({"v": "count(*)"}, size=10, by="a", name="inner")
        both = pk.union(counts, packets.map(ts="ts", a="a", v="v"))
        both.aggregate({"m": "sum(v)"}, size=20, by="a", name="same").output("x")
        both.map(ts="ts", a="a", v="v", z="a").aggregate({"m": "sum(v)"}, size=20, by=["a", "z"], name="finer").output(
            "y"
        )

    # Raw tuples are sent by all keys of the group, so a finer group would be in two buckets: it takes another stage.
    assert stages(build) == {"inner": 1, "same": 1, "finer": 2}


def test_three_aggregates_by_other_keys_take_three_stages() -> None:
    def build(net: pk.Network) -> None:
        one = source(net).aggregate(N, size=10, by=["a", "b"], name="one")
        two = one.aggregate({"m": "sum(n)"}, size=20, by="a", name="two")
        two.aggregate({"o": "sum(m)"}, size=40, name="three").output("o")

    assert stages(build) == {"one": 1, "two": 2, "three": 3}
