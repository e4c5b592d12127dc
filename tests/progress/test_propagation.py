"""Marks go through a network by the rules of its boxes."""

from __future__ import annotations

from dataclasses import replace

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.network import Network
from penstock.progress.propagation import propagate

PAIRS = ({"l_ts": 70}, {"r_ts": 31})


def network() -> Network:
    net = pk.Network("net")
    one, two = (net.source(name, pk.memory([], schema={"ts": "int64", "a": "int64"})) for name in ("one", "two"))
    one.join(two, "l.a = r.a", on="ts", size=5, name="pairs").where("l_ts > 0", name="late").output("out")
    return net.network


def test_joint_marks_are_stated_only_where_somebody_uses_them() -> None:
    known = {"one": Marks({"ts": 70}), "two": Marks({"ts": 31})}
    alone = propagate(network(), known)
    assert (alone["pairs"].joint, alone["late"].joint) == (({}, {}), ({}, {}))
    used = propagate(replace(network(), joint=frozenset({"pairs"})), known)
    assert (used["pairs"].joint, used["late"].joint) == (PAIRS, ({}, {}))
    both = propagate(replace(network(), joint=frozenset({"pairs", "late"})), known)
    assert both["late"] == both["pairs"] == Marks({"l_ts": 26, "r_ts": 31}, joint=PAIRS)


def test_what_is_known_of_a_port_stays_and_gets_its_joint_marks() -> None:
    told = {"one": Marks({"ts": 70}), "two": Marks({"ts": 31}), "pairs": Marks({"l_ts": 20, "r_ts": 20})}
    found = propagate(replace(network(), joint=frozenset({"pairs"})), told)
    assert found["pairs"] == Marks({"l_ts": 20, "r_ts": 20}, joint=PAIRS)
    assert found["late"] == Marks({"l_ts": 20, "r_ts": 20})


def test_of_late_tuples_only_the_end_is_known() -> None:
    ended, going = Marks({"ts": 70}, ended=True), Marks({"ts": 31})
    found = propagate(network(), {"one": ended, "two": going})
    assert (found["one.late"], found["two.errors"]) == (Marks(ended=True), Marks())
    assert not found["pairs"].ended
