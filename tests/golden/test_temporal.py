"""Temporal streams on both engines: the papers' elements, what is refused, and tables that carry them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest
from tests.golden.conftest import Runner
from tests.properties.events import database_of

import penstock as pk

SCHEMA = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "p": "string"}
INFINITY = None


def insert(p: str, vs: int, ve: int | None) -> tuple[Any, ...]:
    return ("insert", vs, ve, None, p)


def adjust(p: str, vs: int, vold: int | None, ve: int | None) -> tuple[Any, ...]:
    return ("adjust", vs, ve, vold, p)


def stable(vc: int) -> tuple[Any, ...]:
    return ("stable", vc, None, None, None)


# Table I of lmerge.md: m(A, 6, 12) names the old end here.
PHY1 = [insert("B", 8, INFINITY), insert("A", 6, 12), adjust("B", 8, INFINITY, 10), stable(11)]
PHY2 = [insert("A", 6, 7), insert("B", 8, 15), adjust("A", 6, 7, 12), adjust("B", 8, 15, 10)]
TDB = {(("A",), 6, 12): 1, (("B",), 8, 10): 1}


def elements(net: pk.Network, rows: list[Any], train: int | None = None, **promises: Any) -> pk.Stream:
    connector = pk.temporal(pk.memory(rows, schema=SCHEMA, train=train), **promises)
    return net.source("in", connector, progress=pk.punctuated())


@pytest.mark.parametrize("rows", [PHY1, PHY2])
@pytest.mark.parametrize("train", [1, None])
def test_two_physical_streams_are_one_database(run: Runner, rows: list[Any], train: int | None) -> None:
    net = pk.Network("net")
    elements(net, rows, train=train).output("out")
    result = run(net)
    assert database_of(result["out"], ("p",)) == TDB
    assert result["out"].column_names == ["sync", "kind", "vs", "ve", "vold", "p"]
    assert result.errors("in").num_rows == 0


def test_a_chain_of_adjusts_is_one_insert(run: Runner) -> None:
    net = pk.Network("net")
    elements(net, [insert("A", 6, 20), adjust("A", 6, 20, 30), adjust("A", 6, 30, 25)]).output("out")
    result = run(net)
    assert database_of(result["out"], ("p",)) == {(("A",), 6, 25): 1}
    assert result["out"]["sync"].to_pylist() == [6, 20, 25]


def test_illegal_elements_go_to_the_error_stream(run: Runner) -> None:
    net = pk.Network("net")
    rows = [
        insert("A", 6, 20),
        adjust("A", 6, 21, 30),  # no such end
        adjust("B", 6, 20, 30),  # no such payload
        adjust("A", 7, 20, 30),  # no such start
        ("insert", 6, 5, None, "C"),
        ("insert", None, 5, None, "C"),
        ("delete", 6, 7, None, "C"),
        adjust("A", 6, 20, 20),
        stable(10),
        insert("D", 9, 30),  # before the stable point
        adjust("A", 6, 20, 9),  # its new end is
        adjust("A", 6, 20, 6),  # a removal of what is half frozen
        adjust("A", 6, 20, 10),
        stable(21),
        adjust("A", 6, 10, 30),  # fully frozen
    ]
    elements(net, rows, train=1).output("out")
    result = run(net)
    assert result["out"].select(["kind", "vs", "ve"]).to_pylist() == [
        {"kind": "insert", "vs": 6, "ve": 20},
        {"kind": "adjust", "vs": 6, "ve": 10},
    ]
    assert sorted(result.errors("in")["reason"].to_pylist()) == [
        *["adjusts an event that does not exist"] * 3,
        *["comes before the stable point of its input"] * 4,
        "kind is none of insert, adjust, stable",
        "ve is not after vs",
        "ve is vold: an adjust must change the end",
        "vs is NULL: every event has a start",
    ]
    assert result.late("in").num_rows == 0
    count = result.record().inputs["in"]
    assert (count.taken, count.late, count.refused) == (2, 0, 11)
    assert "adjusts an event that does not exist (3" in result.refused()["in"]


def test_a_second_event_is_refused_where_each_is_promised_to_be_there_once(run: Runner) -> None:
    net = pk.Network("net")
    rows = [insert("A", 6, 20), insert("A", 6, 30), adjust("A", 6, 20, 6), insert("A", 6, 40), insert("A", 7, 20)]
    elements(net, rows, unique=True).output("out")
    result = run(net)
    assert database_of(result["out"], ("p",)) == {(("A",), 6, 40): 1, (("A",), 7, 20): 1}
    assert result.errors("in")["reason"].to_pylist() == [
        "inserts an event that exists already, but the input was declared with unique=True"
    ]


def test_a_table_carries_elements_and_stable_points_to_another_network(run: Runner, tmp_path: Path) -> None:
    first, table = pk.Network("first"), str(tmp_path / "table")
    rows = [*PHY1, insert("C", 12, INFINITY), stable(13), adjust("C", 12, INFINITY, 14)]
    elements(first, rows, train=2).output("out", to=pk.delta(table, compact=2))
    run(first)
    second = pk.Network("second")
    source = second.source("in", pk.temporal(pk.delta(table)))
    assert source.progressing == ("sync",)
    source.where("p <> 'B'").output("out")
    result = run(second, train_rows=2)
    assert database_of(result["out"], ("p",)) == {(("A",), 6, 12): 1, (("C",), 12, 14): 1}
    stated = [e for e in result.elements("out") if not isinstance(e, dict)]
    assert 13 in [dict(e.value)["sync"] for e in stated]
    assert result.errors("in").num_rows == 0


def test_ordinary_tuples_become_events(run: Runner) -> None:
    net = pk.Network("net")
    rows = [(1, "a", 4), (2, "b", 2), (5, "c", None)]
    packets = net.source("packets", pk.memory(rows, schema={"ts": "int64", "k": "string", "until": "int64"}))
    packets.as_temporal(end=10).map(k="k").output("length")
    packets.as_temporal(end="until", name="ends").output("column")
    packets.as_temporal().output("never")
    result = run(net)
    assert database_of(result["length"], ("k",)) == {(("a",), 1, 11): 1, (("b",), 2, 12): 1, (("c",), 5, 15): 1}
    assert database_of(result["column"], ("k",)) == {(("a",), 1, 4): 1, (("c",), 5, None): 1}
    assert result.errors("ends")["reason"].to_pylist() == ["the end is not after ts"]
    assert result["never"]["ve"].null_count == 3
    assert result["never"].column_names == ["sync", "kind", "vs", "ve", "vold", "k", "until"]


OPEN_CLOSE = {"kind": "string", "at": "int64", "p": "string"}
# Example 3 of lmerge.md: three prefixes of one database.
S5 = [("open", 1, "A"), ("open", 2, "B"), ("open", 3, "C"), ("close", 4, "A"), ("close", 5, "B")]
U5 = [("open", 1, "A"), ("close", 4, "A"), ("open", 2, "B"), ("close", 5, "B"), ("open", 3, "C")]
W6 = [("open", 2, "B"), ("close", 6, "B"), ("open", 1, "A"), ("open", 3, "C"), ("close", 4, "A"), ("close", 5, "B")]


@pytest.mark.parametrize("rows", [S5, U5, W6])
@pytest.mark.parametrize("train", [1, None])
def test_opens_and_closes_in_three_orders_are_one_database(run: Runner, rows: list[Any], train: int | None) -> None:
    net = pk.Network("net")
    connector = pk.temporal(pk.memory(rows, schema=OPEN_CLOSE, train=train), form="open-close")
    stream = net.source("in", connector, progress=pk.punctuated())
    stream.output("out")
    stream.as_open_close().output("back")
    result = run(net)
    assert database_of(result["out"], ("p",)) == {(("A",), 1, 4): 1, (("B",), 2, 5): 1, (("C",), 3, None): 1}
    assert result.errors("in").num_rows == 0
    back = sorted((row["kind"], row["at"], row["p"]) for row in result["back"].to_pylist())
    assert back == sorted(rows)


def test_the_current_state_is_that_of_the_elements(run: Runner, tmp_path: Path) -> None:
    net = pk.Network("net")
    rows = [*PHY2, insert("A", 6, 12), insert("C", 9, INFINITY), adjust("C", 9, INFINITY, 9)]
    stream = elements(net, rows, train=2)
    stream.output("now", to=pk.current(pk.delta(str(tmp_path / "now"))))
    stream.as_facts().output("facts")
    result = run(net)
    held = deltalake.DeltaTable(str(tmp_path / "now")).to_pyarrow_table()
    assert sorted(map(tuple, (row.values() for row in held.to_pylist()))) == [(6, 12, "A"), (6, 12, "A"), (8, 10, "B")]
    facts = result["facts"]
    assert facts.column_names == ["vs", "ve", "p"]
    assert sorted(map(tuple, (row.values() for row in facts.to_pylist()))) == [(6, 12, "A"), (6, 12, "A"), (8, 10, "B")]


def test_facts_leave_when_they_are_fully_frozen_and_the_rest_at_the_end(run: Runner) -> None:
    net = pk.Network("net")
    rows = [insert("A", 6, 8), insert("B", 7, INFINITY), stable(9), insert("C", 9, 11), stable(12), stable(13)]
    elements(net, rows, train=1).as_facts(name="facts").output("out")
    batches: list[int] = []
    result = run(net, on_batch=lambda record: batches.append(record.outputs["out"]))
    assert [row["p"] for row in result["out"].to_pylist()] == ["A", "C", "B"]
    assert batches[1:5] == [0, 1, 1, 2]
    marks = [dict(e.value)["vs"] for e in result.elements("out") if not isinstance(e, dict)]
    # B is open, so no fact that starts before 7 will follow, but one at 7 will.
    assert [mark for mark in marks if mark not in (float("inf"), float("-inf"))] == [7]
