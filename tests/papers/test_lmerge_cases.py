"""lmerge.md IV-G: which algorithm is chosen for which inputs; and explain says why."""

from __future__ import annotations

import pytest
from tests.algebra.temporal.prefixes import SCHEMA
from tests.boxes.lmerge.copies import element_source
from tests.operators.scripted import box_of

import penstock as pk
from penstock.algebra.temporal.properties import Properties

PACKETS = {"ts": "int64", "machine": "string", "busy": "int64"}


def two(net: pk.Network, policy: object) -> list[pk.Stream]:
    return [net.source(name, pk.memory([], schema=PACKETS), progress=policy) for name in ("a", "b")]  # type: ignore[arg-type]


def chosen(*streams: pk.Stream, **options: object) -> str:
    return str(box_of(pk.lmerge(*streams, **options)).case)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "case"),
    [
        (Properties(insert_only=True, ordered=True, strict=True), "R0"),
        (Properties(insert_only=True, ordered=True, deterministic=True), "R1"),
        (Properties(insert_only=True, ordered=True, unique=True), "R2"),
        (Properties(insert_only=True, unique=True), "R3"),
        (Properties(unique=True), "R3"),
        (Properties(ordered=True, strict=True), "R3"),
        (Properties(insert_only=True, ordered=True), "R4"),
        (Properties(), "R4"),
    ],
)
def test_example_1_inputs_publish_their_properties(known: Properties, case: str) -> None:
    net = pk.Network("net")
    assert chosen(*(element_source(net, name, known=known) for name in ("a", "b"))) == case


def test_what_one_input_does_not_promise_is_not_known_of_all() -> None:
    net = pk.Network("net")
    known = Properties(insert_only=True, ordered=True, strict=True)
    assert (
        chosen(element_source(net, "a", known=known), element_source(net, "b", known=Properties(unique=True))) == "R4"
    )


def test_example_2_a_box_that_enforces_a_property() -> None:
    left, right = two(pk.Network("net"), pk.delayed(5))
    assert chosen(left, right) == "R4"
    assert chosen(left.dedupe(), right.dedupe()) == "R3"
    assert chosen(left.dedupe().cleanse(), right.dedupe().cleanse()) == "R2"


def test_example_3_an_aggregate_leaves_one_event_for_each_time() -> None:
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10) for s in two(pk.Network("net"), pk.ordered())]
    assert chosen(*counts) == "R0"


def test_example_4_the_best_of_a_window_leave_in_order_of_their_rank() -> None:
    best = [s.top(3, by="busy", on="ts", size=10) for s in two(pk.Network("net"), pk.ordered())]
    assert chosen(*best, on="window") == "R1"
    # Of the times of the tuples themselves no order is known.
    assert chosen(*best, on="ts", name="by their own time") == "R4"


def test_example_5_a_grouped_aggregate_leaves_one_event_for_each_time_and_group() -> None:
    net = pk.Network("net")
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10, by="machine") for s in two(net, pk.ordered())]
    assert chosen(*counts) == "R2"


def test_example_6_over_a_disordered_stream() -> None:
    """Results that are final leave in order, whatever the order of the input: only early results would need R3."""
    net = pk.Network("net")
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10, by="machine") for s in two(net, pk.delayed(5))]
    assert chosen(*counts) == "R2"
    early = [element_source(net, name, known=Properties(unique=True)) for name in ("c", "d")]
    assert chosen(*early) == "R3"


def test_groups_that_close_by_marks_of_their_own_leave_in_no_order() -> None:
    policy = pk.delayed(5, by="machine")
    net = pk.Network("net")
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10, by="machine") for s in two(net, policy)]
    assert chosen(*counts) == "R3"


def test_filters_keep_what_is_known_and_maps_what_they_can() -> None:
    net = pk.Network("net")
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10) for s in two(net, pk.ordered())]
    assert chosen(*(s.where("n > 3") for s in counts)) == "R0"
    assert chosen(*(s.map(ts="ts", m="n") for s in counts)) == "R0"
    assert chosen(*(s.map(ts="ts // 2", n="n") for s in counts)) == "R4"
    grouped = [
        s.aggregate({"n": "count(*)"}, on="ts", size=10, by="machine") for s in two(pk.Network("other"), pk.ordered())
    ]
    assert chosen(*(s.map(ts="ts", machine="machine", n="n") for s in grouped)) == "R2"
    assert chosen(*(s.map(ts="ts", n="n") for s in grouped)) == "R4"
    both = pk.union(*counts)
    assert chosen(both, both) == "R4"


def test_explain_says_which_case_and_why() -> None:
    net = pk.Network("net")
    counts = [s.aggregate({"n": "count(*)"}, on="ts", size=10) for s in two(net, pk.ordered())]
    pk.lmerge(*counts, name="chosen").output("a")
    pk.lmerge(*two_more(net), case="R0", name="declared").output("b")
    told = net.explain()
    assert "case R0 (inserts only, Vs rises with every element), of all inputs: insert only, ordered, strict" in told
    assert "as declared, checked while it runs; of all inputs: insert only" in told
    assert "insert eager, adjust at stable points" in told


def two_more(net: pk.Network) -> list[pk.Stream]:
    return [net.source(name, pk.memory([], schema=PACKETS), progress=pk.delayed(5)) for name in ("c", "d")]


def test_what_cannot_be_merged_is_refused() -> None:
    net, every = pk.Network("net"), pk.merge_policy(adjust="every")
    left, right = two(net, pk.ordered())
    temporal = element_source(net, "t")
    other = net.source("o", pk.memory([], schema=SCHEMA), on="sync")
    for streams, options, why in [
        ((), {}, "a logical merge needs one stream at least"),
        ((left, right), {"case": "R7"}, "case='R7' is unknown"),
        ((left, right), {"policy": 7}, "7 is no policy of an lmerge"),
        ((left, right), {"policy": "soon"}, "insert='soon' is unknown"),
        ((left, right), {"case": "R0", "policy": every}, "case R0 lets inserts go as they come"),
        ((left, right), {"policy": pk.merge_policy(stable=-1)}, "the output cannot be ahead of its inputs"),
        ((left, right), {"policy": pk.merge_policy(stable="2 s")}, "but the attribute is an integer"),
        ((left, temporal), {}, "the inputs of a logical merge differ in their schemas"),
        ((other, temporal), {}, "copies of one stream are all temporal or all ordinary"),
        ((left, right), {"on": "busy"}, "an lmerge on 'busy' would never let go of what it holds"),
        ((temporal, temporal), {"on": "vs"}, "temporal streams are merged on their own time"),
    ]:
        with pytest.raises(pk.QueryError, match=why):
            pk.lmerge(*streams, **options)  # type: ignore[arg-type]
    assert chosen(left, right, policy="half-frozen") == "R4"
