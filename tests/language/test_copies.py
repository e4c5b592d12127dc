"""Copies that join an LMerge, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import penstock as pk
from penstock.algebra.network import Network
from penstock.algebra.ticks import BEGINNING
from penstock.boxes.lmerge.box import LMerge
from penstock.language.attaching import BEGINNING_WORD, detach
from penstock.language.copies import CopyOrder, join, leave, merge_named, rejoin
from penstock.plan.compile import compile_network
from penstock.runtime.attaching import attaching

ELEMENTS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "p": "string"}
FACTS = {"ts": "int64", "k": "string"}


def facts(net: Any, name: str, progress: pk.Policy | None = None) -> pk.Stream:
    return net.source(name, pk.memory([(1, "a")], schema=FACTS), progress=progress or pk.delayed(3))


def merging(*names: str, case: str | None = "R4") -> Network:
    net = pk.Network("merging")
    merged = pk.lmerge(*(facts(net, name) for name in names), case=case, name="merged")
    merged.where("k != 'z'").output("out")
    return net.network


def third(net: Any) -> pk.Stream:
    return facts(net, "third")


def test_a_copy_joins_and_all_behind_the_merge_reads_it() -> None:
    network = join(merging("left", "right"), CopyOrder(third, "merged", "more", 7))
    merge = merge_named(network, "merged")
    assert merge.input_names == ("left", "right", "third")
    assert merge.joining == (("third", 7),)
    assert merge.joined(6) == [0, 1]
    assert merge.joined(7) == [0, 1, 2]
    (reader,) = (box for box in network.boxes if box.inputs and box.inputs[0].box.name == "merged")
    assert reader.inputs[0].box is merge
    (told,) = network.attached
    assert (told.name, told.to, told.since, told.boxes) == ("more", "merged", "7", ("third",))
    compile_network(network)


def test_it_leaves_again() -> None:
    before = merging("left", "right")
    after = detach(join(before, CopyOrder(third, "merged", "more")), "more")
    assert [box.name for box in after.boxes] == [box.name for box in before.boxes]
    assert merge_named(after, "merged").input_names == ("left", "right")
    assert after.attached == ()


def test_it_is_still_there_after_a_change() -> None:
    joined = join(merging("left", "right"), CopyOrder(third, "merged", "more", 7))
    changed = rejoin(merging("left"), joined.attached[0], joined, BEGINNING)
    assert merge_named(changed, "merged").input_names == ("left", "third")
    assert merge_named(changed, "merged").joining == (("third", 7),)


def test_the_last_copy_that_has_all_events_stays() -> None:
    both = join(merging("left"), CopyOrder(third, "merged", "second", 7))
    merge, known = merge_named(both, "merged"), both.attached[0]
    leave(both, known, BEGINNING)
    # As if the other one had joined later: the one that leaves is complete, the other one is not yet.
    turned = replace(merge, joining=(("left", 7),))
    boxes = tuple(turned if box is merge else box for box in both.boxes)
    with pytest.raises(pk.QueryError, match="the last copy of 'merged' that has all events"):
        leave(replace(both, boxes=boxes), known, 6)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (CopyOrder(third, "mergd", "more"), "there is no lmerge 'mergd'"),
        (CopyOrder(lambda net: third(net).output("o"), "merged", "more"), "is no stream of the network"),
        (CopyOrder(lambda net: None, "merged", "more"), "is no stream of the network"),
        (CopyOrder(lambda net: facts(net, "left"), "merged", "more"), "there is already a box named 'left'"),
    ],
)
def test_what_cannot_join_is_refused(order: CopyOrder, reason: str) -> None:
    with pytest.raises(pk.QueryError, match=reason):
        join(merging("left", "right"), order)


def test_a_copy_that_promises_too_little_is_refused() -> None:
    net = pk.Network("merging")
    copies = [facts(net, name, pk.ordered()).aggregate({"n": "count(*)"}, size=2) for name in ("left", "right")]
    pk.lmerge(*copies, name="merged").output("out")
    assert merge_named(net.network, "merged").case == "R0"

    def disordered(net: Any) -> pk.Stream:
        return net.source("third", pk.memory([(1, 2)], schema={"ts": "int64", "n": "int64"}), progress=pk.delayed(2))

    with pytest.raises(pk.QueryError, match="promises too little"):
        join(net.network, CopyOrder(disordered, "merged", "more"))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"to": "merged", "at": "point"}, "a copy joins an lmerge"),
        ({"to": "merged", "since": "now"}, "a copy joins an lmerge"),
        ({"at": "point", "from_time": 7}, "from_time= is for copies"),
    ],
)
def test_a_copy_is_no_query(given: dict[str, Any], reason: str) -> None:
    usual: dict[str, Any] = {"at": (), "to": None, "since": BEGINNING_WORD, "from_time": None, "name": None, "share": 1}
    with pytest.raises(pk.QueryError, match=reason):
        attaching(third, **{**usual, **given})


@pytest.mark.parametrize("others", [False, True])
def test_state_knows_inputs_by_the_names_that_they_were_declared_with(others: bool) -> None:
    """Another reader of an input makes the plan put a check between the two."""
    net = pk.Network("merging")
    copies = [
        net.source(name, pk.temporal(pk.memory([], schema=ELEMENTS)), progress=pk.punctuated())
        for name in ("left", "right")
    ]
    pk.lmerge(*copies, name="merged").output("out")
    if others:
        copies[0].output("left")
    plan = compile_network(net.network)
    (merge,) = (box for box in plan.network.boxes if isinstance(box, LMerge))
    assert merge.input_names == ("left", "right")
    assert (merge.inputs[0].name == "left") is not others
