"""What flush= accepts and refuses, and the boxes it builds."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pk
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.low_level.box import AtOnce, Flush, InOrder, Lazy, LowLevel, Slow
from penstock.plan.compile import compile_network

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


def flows(outputs: Any = None, **arguments: Any) -> pk.Stream:
    tuples = pk.Network("net").source("in", pk.memory([], schema=SCHEMA))
    window = {"on": "ts", "size": 10, "by": "k", "name": "flows", **arguments}
    return tuples.aggregate(outputs or {"n": "count(*)"}, **window)


@pytest.mark.parametrize(
    ("arguments", "flush", "table"),
    [
        ({"flush": "at-once"}, AtOnce(), 65_536),
        ({"flush": "slow"}, Slow(delay=2, every=160), 65_536),
        ({"flush": "slow", "table": 1, "every": 1, "delay": 0}, Slow(delay=0, every=1), 1),
        ({"flush": "lazy", "delay": 7}, Lazy(7), 65_536),
        ({"flush": "in-order", "every": 3}, InOrder(delay=1, every=3), 65_536),
    ],
)
def test_two_boxes_in_one_stage(arguments: dict[str, Any], flush: Flush, table: int) -> None:
    stream = flows(**arguments)
    high = stream._port.box
    low = high.inputs[0].box
    assert isinstance(high, Aggregate)
    assert isinstance(low, LowLevel)
    assert (low.name, high.name) == ("flows.low", "flows")
    assert (low.flush, low.table) == (flush, table)
    stream.output("o")
    plan = compile_network(stream._builder.network)
    assert (plan.stages, plan.stage_of) == (1, {"flows.low": 1, "flows": 1})


def test_without_flush_there_is_one_box() -> None:
    assert [box.kind for box in flows()._builder._boxes] == ["source", "aggregate"]


def test_the_results_have_the_same_schema_and_progress() -> None:
    outputs = {"n": "count(*)", "a": "avg(v)", "f": "first(v)", "s": "sum(v) / count(*)"}
    plain, smooth = flows(outputs), flows(outputs, flush="slow")
    assert smooth.schema == plain.schema
    assert smooth._port.progressing == plain._port.progressing == ("ts",)


def test_explain_shows_the_low_level_and_its_table() -> None:
    stream = flows(flush="slow", table=70_000, every=9)
    stream.output("o")
    text = stream._builder.explain()  # type: ignore[attr-defined]
    assert "  low-level flows.low <- in: partial aggregates per pane of 10 by k\n" in text
    assert "    table: 70,000 entries in every bucket" in text
    assert "    flush slow: an old entry leaves for every 9 tuples, all after 2 more windows\n" in text
    assert "    low level: flows.low, whose partial aggregates are merged\n" in text
    assert "exchange of flows.low" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"flush": "never"}, "flush='never' is unknown"),
        ({"flush": "slow", "table": 0}, "table=0 is too small"),
        ({"flush": "slow", "table": 2**31 + 1}, "table=2147483649 is too large"),
        ({"flush": "slow", "table": "9"}, "table= is no whole number"),
        ({"flush": "slow", "every": 0}, "every=0 is too small"),
        ({"flush": "slow", "every": 1.5}, "every= is no whole number"),
        ({"flush": "lazy", "delay": -1}, "delay=-1 is too small"),
        ({"flush": "lazy", "delay": True}, "delay= is no whole number"),
        ({"flush": "lazy", "every": 2}, "every= says nothing of flush='lazy'"),
        ({"flush": "at-once", "delay": 2}, "delay= says nothing of flush='at-once'"),
        ({"flush": "in-order", "delay": 2}, "delay= says nothing of flush='in-order'"),
        ({"table": 5}, "table= says how the low level is flushed, but flush= is not given"),
        ({"every": 5}, "every= says how the low level is flushed, but flush= is not given"),
        ({"flush": "slow", "timeout": "5 seconds"}, "flush= is for windows that punctuation closes"),
        ({"flush": "slow", "origin": "first"}, "flush= is for windows that punctuation closes"),
        ({"flush": "slow", "advance": "v > 1"}, "flush= is for windows that punctuation closes"),
        ({"flush": "slow", "assuming": pk.order("ts", 1)}, "flush= is for windows that punctuation closes"),
        ({"flush": "slow", "on": pk.TUPLE_NUMBER}, "flush= is for windows that punctuation closes"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        flows(**arguments)
    assert words in str(refused.value)
    assert "flows" in str(refused.value)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"n": "count(*)", "m": "median(v)"}, "and m cannot"),
        ({"n": "count(*)", "d": "count(DISTINCT v)", "m": "median(v) + 1"}, "and d, m cannot"),
        (
            {"n": "count(*)", "w": pk.window_function(final=lambda window: 1, returns="int64", columns="v")},
            "and w cannot",
        ),
    ],
)
def test_outputs_that_keep_values_whole_are_refused(outputs: dict[str, Any], words: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        flows(outputs, flush="slow")
    assert words in str(refused.value)
    # The box that was refused is not in the network.
    assert flows({"n": "count(*)"}, flush="slow")._port.name == "flows"
