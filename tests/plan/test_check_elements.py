"""Where a plan looks for illegal elements, and where nobody need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.plan.networks import planned

import penstock as pk
from penstock.algebra.box import Output
from penstock.boxes.legal.box import Legal
from penstock.connectors.targets.kept_results import Results
from penstock.plan.check_elements import check_elements
from penstock.plan.plan import Plan

ROWS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "k": "string", "v": "int64"}


def network(**promises: bool) -> tuple[pk.Network, pk.Stream]:
    net = pk.Network("net")
    return net, net.source("in", pk.temporal(pk.memory([], schema=ROWS), **promises))


def names(plan: Plan) -> list[str]:
    return [box.name for box in plan.network.boxes if box.ports]


def test_a_network_of_facts_stays_as_it_is() -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([], schema={"ts": "int64"})).output("out")
    before = Plan(net.network)
    assert check_elements(before) is before


def test_the_box_stands_behind_its_input_and_its_errors_are_those_of_the_input() -> None:
    net, stream = network()
    stream.where("v > 0").output("out")
    stream.errors().output("wrong")
    plan = planned(net)
    assert names(plan) == ["in", "in.legal", "in!refused", "filter1"]
    boxes = {box.name: box for box in plan.network.boxes}
    legal = boxes["in.legal"]
    assert isinstance(legal, Legal)
    assert legal.keys(0) == ("k", "v")
    assert [port.name for port in boxes["filter1"].inputs] == ["in.legal"]
    assert [boxes[name].inputs[0].name for name in ("wrong", "in!errors")] == ["in!refused", "in!refused"]


@pytest.mark.parametrize(
    ("promises", "checked"),
    [
        ({}, True),
        ({"unique": True}, True),
        ({"insert_only": True}, False),
        ({"insert_only": True, "unique": True}, True),
    ],
)
def test_inserts_alone_are_looked_at_only_if_each_must_be_there_once(promises: Any, checked: bool) -> None:
    net, stream = network(**promises)
    stream.output("out")
    assert ("in.legal" in names(planned(net))) is checked


@dataclass(frozen=True)
class Checking(Output):
    """An output that finds illegal elements itself."""

    checks_elements: ClassVar[bool] = True


def test_readers_that_check_elements_themselves_need_no_box_before_them() -> None:
    net, stream = network()
    net._add(Checking("own", (stream._port,), Results()))
    assert "in.legal" not in names(planned(net))
    stream.output("out")
    assert "in.legal" in names(planned(net))
