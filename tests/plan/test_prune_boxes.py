"""Boxes without a reader are no part of the plan, and explain says so."""

from __future__ import annotations

from tests.plan.networks import planned, source

import penstock as pk
from penstock.runtime.opening import fingerprint

N = {"n": "count(*)"}


def _names(net: pk.Network) -> list[str]:
    return [box.name for box in planned(net).network.boxes if box.kind != "output"]


def test_a_branch_that_ends_nowhere_is_pruned_from_its_end() -> None:
    net = pk.Network("net")
    packets = source(net)
    shared = packets.where("v > 0", name="shared")
    shared.cleanse(name="sorted").map(x="v + 1", name="mapped")
    shared.output("o")
    assert _names(net) == ["in", "shared"]
    assert planned(net).pruned == ("sorted", "mapped")
    assert net.explain().splitlines()[-1] == "pruned: nobody reads sorted, mapped"


def test_a_network_without_ends_nowhereboxes_says_nothing_of_them() -> None:
    net = pk.Network("net")
    source(net).aggregate(N, size=10).output("o")
    assert planned(net).pruned == ()
    assert "pruned" not in net.explain()


def test_ends_nowhereboxes_do_not_change_what_a_checkpoint_depends_on() -> None:
    def built(*, dead: bool) -> pk.Network:
        net = pk.Network("net")
        packets = source(net)
        if dead:
            packets.aggregate(N, size=10, by="b", name="dead").aggregate(
                {"m": "count(*)"}, size=20, by="n", name="deader"
            )
        packets.aggregate(N, size=10, by="a", name="live").output("o")
        return net

    assert fingerprint(planned(built(dead=True))) == fingerprint(planned(built(dead=False)))
    assert planned(built(dead=True)).stages == 1


def test_a_filter_stays_if_one_of_its_streams_is_read() -> None:
    net = pk.Network("net")
    small, large = source(net).filter("v < 3", name="sizes")
    small.map(x="v", name="dead")
    large.output("o")
    assert _names(net) == ["in", "sizes"]


def test_inputs_stay_and_so_do_boxes_whose_late_tuples_are_kept() -> None:
    """What came too late for a box can be read after the run, whoever reads its results."""
    net = pk.Network("net")
    packets = source(net)
    packets.aggregate(N, size=10, name="plain")
    packets.aggregate(N, size=10, assuming=pk.order("ts"), name="assuming")
    source(net, "other").output("o")
    assert _names(net) == ["in", "assuming", "other"]


def test_a_stream_of_late_tuples_is_a_reader() -> None:
    net = pk.Network("net")
    packets = source(net)
    packets.late().map(x="v", name="late map").output("late")
    packets.errors().map(reason="reason", name="dead")
    assert _names(net) == ["in", "late map"]
