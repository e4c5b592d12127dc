"""The low-level box: what it promises of progress, and how it is flushed in order."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.aggregate.low_level.box import AtOnce, InOrder, Lazy, LowLevel, Slow


def low_level(**arguments: Any) -> LowLevel:
    tuples = pk.Network("net").source("in", pk.memory([], schema={"ts": "int8", "k": "string"}))
    box = tuples.aggregate({"n": "count(*)"}, on="ts", size=10, by="k", **arguments)._port.box.inputs[0].box
    assert isinstance(box, LowLevel)
    return box


@pytest.mark.parametrize(
    ("arguments", "marks"),
    [
        ({"flush": "at-once"}, {9: 0, 10: 10, 35: 30}),
        ({"flush": "slow"}, {9: -20, 10: -10, 35: 10}),
        ({"flush": "lazy", "delay": 0}, {9: 0, 10: 10, 35: 30}),
        ({"flush": "in-order"}, {9: -10, 10: 0, 35: 20}),
    ],
)
def test_its_rule_states_what_is_certain_whatever_it_holds(arguments: dict[str, Any], marks: dict[int, int]) -> None:
    # A silent input is asked on demand only if that surely releases something: so the rule must not promise more.
    box = low_level(**arguments)
    stated = {mark: box.progress(0, [Marks({"ts": mark})]).of("ts") for mark in marks}
    assert stated == marks
    for extreme in (BEGINNING, END):
        assert box.progress(0, [Marks({"ts": extreme})]).of("ts") == extreme


@pytest.mark.parametrize("flush", [AtOnce(), Lazy(0), Lazy(3), Slow(2), InOrder()])
@pytest.mark.parametrize("window", [Window(60, 60), Window(6, 4), Window(7, 1), Window(2, 10)])
def test_a_pane_has_left_at_its_deadline_and_not_before(flush: Any, window: Window) -> None:
    for pane in range(-9, 9):
        deadline = flush.deadline(window, pane)
        assert flush.first_kept(window, deadline) > pane
        assert flush.first_kept(window, deadline - 1) <= pane


def test_a_pane_may_start_below_the_smallest_value_of_its_attribute() -> None:
    assert str(low_level(flush="slow").schema(0).field("ts").type) == "int64"


def test_every_flush_can_be_made_one_in_order() -> None:
    assert low_level(flush="lazy").in_order().flush == InOrder(every=1)
    assert low_level(flush="slow", every=7).in_order().flush == InOrder(every=7)
