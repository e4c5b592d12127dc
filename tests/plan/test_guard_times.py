"""Maps look at the times they compute where a box behind takes them for times."""

from __future__ import annotations

from tests.plan.networks import planned, source

import penstock as pk
from penstock.boxes.map.box import Map

N = {"n": "count(*)"}


def _guarded(net: pk.Network) -> dict[str, tuple[str, ...]]:
    return {box.name: box.times for box in planned(net).network.boxes if isinstance(box, Map)}


def test_only_what_a_box_behind_takes_for_a_time_is_looked_at() -> None:
    net = pk.Network("net")
    maps = source(net).map(a="ts + 1", b="ts * 2", minute="ts / 60", v="v", name="times")
    maps.where("v > 0").aggregate(N, on="a", size=10).output("o")
    assert _guarded(net) == {"times": ("a",)}


def test_renames_filters_unions_and_joins_lie_between() -> None:
    net = pk.Network("net")
    one, two = (source(net, name).map(t="ts + 1", a="a", name=f"{name}_map") for name in ("one", "two"))
    both = pk.union(one, two).map(time="t", a="a", name="renamed")
    pairs = both.join(both, "l.a = r.a", on="time", size=5)
    pairs.map(later="l_time", name="behind").aggregate(N, on="later", size=10).output("o")
    assert _guarded(net) == {"one_map": ("t",), "two_map": ("t",), "renamed": (), "behind": ()}


def test_a_number_that_goes_down_is_looked_at_too() -> None:
    net = pk.Network("net")
    source(net).map(left="100 - ts", name="down").aggregate(N, on="left", size=10).output("o")
    assert _guarded(net)["down"] == ("left",)
