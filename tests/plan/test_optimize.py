"""The arrangement that the optimizer proposes is the best there is, and worth a change."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.algebra.network import Network
from penstock.plan.optimize import BoxCost, Statistics, costs, disturbed, propose, subnetworks, without_combining
from penstock.plan.plan import Step
from penstock.plan.rewrites.rewrites import drafted

SCHEMA = {"ts": "int64", "k": "int64", "v": "int64", "s": "string"}


def chain(*names: str, times: int = 1) -> Network:
    """Filters one after the other, as often as told."""
    net = pk.Network("chain")
    for number in range(times):
        stream = net.source(f"x{number}", pk.memory([], schema=SCHEMA))
        for name in names:
            stream = stream.where("k > 1", name=f"{name}{number}")
        stream.output(f"o{number}")
    return net.network


def known(call: float = 0.0, **boxes: tuple[float, float]) -> Statistics:
    """Of every box what a tuple costs, and the selectivity."""
    return Statistics({name: BoxCost(*each) for name, each in boxes.items()}, {"x0": 1000, "x1": 1000}, call)


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 1)), min_size=2, max_size=4))
def test_filters_side_by_side_come_into_the_best_order(costs_of: list[tuple[float, float]]) -> None:
    names = [f"f{number}" for number in range(len(costs_of))]
    boxes = {f"{name}0": each for name, each in zip(names, costs_of, strict=True)}

    def total(order: tuple[str, ...]) -> float:
        rate, spent = 1000.0, 0.0
        for name in order:
            cost, selectivity = boxes[name]
            spent, rate = spent + rate * cost, rate * selectivity
        return spent

    best, now = min(map(total, permutations(boxes))), total(tuple(boxes))
    found = propose(chain(*names), (), known(**boxes))
    if found is None:
        assert now - best <= 0.1 * now + 1e-9
    else:
        assert total(found.boxes) == pytest.approx(best)
        assert found.saving == pytest.approx((now - best) / now)


def test_a_change_must_be_worth_it() -> None:
    network = chain("a", "b")
    assert propose(network, (), known(a0=(1.0, 0.5), b0=(0.95, 0.5))) is None
    assert propose(network, (), known(a0=(1.0, 0.5), b0=(0.5, 0.5))) is not None


def test_what_is_best_already_stays() -> None:
    network = chain("a", "b")
    found = propose(network, (), known(a0=(1.0, 0.9), b0=(0.1, 0.1)))
    assert found is not None
    assert propose(network, found.arrangement, known(a0=(1.0, 0.9), b0=(0.1, 0.1))) is None
    back = propose(network, found.arrangement, known(a0=(0.1, 0.1), b0=(1.0, 0.9)))
    assert back is not None
    assert without_combining(back.arrangement) == ()


def test_one_subnetwork_is_changed_at_a_time_and_the_others_stay_arranged() -> None:
    network = chain("a", "b", times=2)
    figures = known(a0=(1.0, 0.9), b0=(0.1, 0.1), a1=(2.0, 0.9), b1=(0.1, 0.1))
    assert len(subnetworks(network)) == 2
    first = propose(network, (), figures)
    assert first is not None
    assert without_combining(first.arrangement) == (Step("swap_filters", "b1"),)
    second = propose(network, first.arrangement, figures)
    assert second is not None
    assert set(without_combining(second.arrangement)) == {Step("swap_filters", "b1"), Step("swap_filters", "b0")}
    assert propose(network, second.arrangement, figures) is None


def test_filters_are_combined_where_calls_cost_much() -> None:
    network = chain("a", "b", "c")
    figures = dict.fromkeys(("a0", "b0", "c0"), (1e-09, 0.5))
    assert propose(network, (), known(**figures)) is None
    found = propose(network, (), known(call=0.01, **figures))
    assert found is not None
    assert found.arrangement == (Step("combine_filters", "c0"),)


def test_maps_are_combined_where_calls_cost_much() -> None:
    net = pk.Network("maps")
    x = net.source("x0", pk.memory([], schema=SCHEMA))
    x.map(ts="ts", w="length(s)", name="m").map(ts="ts", even="w % 2 = 0", name="n").output("o")
    figures = {"m": (1e-09, 1.0), "n": (1e-09, 1.0)}
    assert propose(net.network, (), known(**figures)) is None
    found = propose(net.network, (), known(call=0.01, **figures))
    assert found is not None
    assert found.arrangement == (Step("combine_maps", "n"),)
    assert propose(net.network, found.arrangement, known(call=0.01, **figures)) is None


def test_a_filter_passes_a_union_if_it_gets_past_something_dear_there() -> None:
    net = pk.Network("united")
    x, y = (net.source(name, pk.memory([], schema=SCHEMA)) for name in ("x0", "x1"))
    dear = x.map(ts="ts", k="k", v="v", s="upper(s)", name="dear")
    pk.union(dear, y, name="u").where("k > 1", name="f").output("o")
    found = propose(net.network, (), known(dear=(5.0, 1.0), u=(0.01, 1.0), f=(0.1, 0.2)))
    assert found is not None
    assert found.boxes == ("f.1", "dear", "f.2", "u")
    assert propose(net.network, (), known(dear=(0.0, 1.0), u=(0.01, 1.0), f=(0.1, 0.2))) is None


def test_a_filter_works_in_advance_while_that_drops_something() -> None:
    net = pk.Network("groups")
    x = net.source("x0", pk.memory([], schema=SCHEMA))
    x.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"], name="counts").where("k > 1", name="f").output("o")
    figures = {"counts": (1.0, 0.1), "f": (0.01, 0.2)}
    found = propose(net.network, (), known(**figures))
    assert found is not None
    assert found.boxes == ("f.ahead", "counts", "f")
    assert disturbed(drafted(net.network, found.arrangement)) == {"counts", "f"}
    # The filter behind has nothing left to drop, so as much leaves it as before.
    spent = costs(drafted(net.network, found.arrangement), known(**figures))
    assert spent == pytest.approx({"f.ahead": 10.0, "counts": 200.0, "f": 0.2})
    useless = known(**figures, **{"f.ahead": (0.2, 1.0)})
    back = propose(net.network, found.arrangement, useless)
    assert back is not None
    assert back.arrangement == ()
