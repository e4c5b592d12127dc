"""Temporal databases: any prefix gives one, and what cannot be an element is refused."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from tests.algebra.temporal.prefixes import adjust, database, insert, table

import penstock as pk
from penstock.algebra.temporal.elements import element_schema

INF = math.inf


def test_equal_events_stay_as_many_as_there_are() -> None:
    twice = table([insert("A", 1, 5), insert("A", 1, 5), insert("A", 1, 7), adjust("A", 1, 5, INF)])
    assert database(twice) == [("A", 1, 5), ("A", 1, 7), ("A", 1, INF)]


def test_an_adjust_to_its_begin_removes_one_event() -> None:
    assert database(table([insert("A", 1, 5), insert("A", 1, 5), adjust("A", 1, 5, 1)])) == [("A", 1, 5)]
    assert database(table([insert("A", 1, 5), adjust("A", 1, 5, 1), insert("A", 1, 9)])) == [("A", 1, 9)]


def test_an_adjust_to_the_same_end_changes_nothing() -> None:
    assert database(table([insert("A", 1, 5), adjust("A", 1, 5, 5)])) == [("A", 1, 5)]


def test_of_nothing_comes_an_empty_database() -> None:
    assert pk.tdb(table([])).schema.names == ["p", "vs", "ve"]
    assert database(table([insert("A", 1, 5), adjust("A", 1, 5, 1)])) == []


@pytest.mark.parametrize(
    ("elements", "why"),
    [
        ([adjust("A", 1, 5, 7)], "element 1 adjusts an event that is not there"),
        ([insert("A", 1, 5), adjust("A", 1, 6, 7)], "element 2 adjusts an event that is not there"),
        ([insert("A", 1, 5), adjust("B", 1, 5, 7)], "element 2 adjusts an event that is not there"),
        ([adjust("A", 1, 5, 7), insert("A", 1, 5)], "element 1 adjusts an event that is not there"),
        ([insert("A", 1, 5), adjust("A", 1, 5, 1), adjust("A", 1, 5, 1)], "element 3 adjusts an event"),
        ([insert("A", 5, 5)], "element 1 inserts an event that does not end after it begins"),
        ([insert("A", 1, 5), adjust("A", 1, 5, 0)], "element 2 ends its event before it begins"),
        ([(1, "upsert", 1, 5, None, "A")], "element 1 is neither insert nor adjust"),
        ([(1, None, 1, 5, None, "A")], "element 1 is neither insert nor adjust"),
        ([(None, "insert", None, 5, None, "A")], "element 1 does not say when its event begins"),
    ],
)
def test_an_element_that_cannot_be_is_refused(elements: list[Any], why: str) -> None:
    with pytest.raises(pk.QueryError, match=why):
        pk.tdb(table(elements))


def test_a_table_without_lifetimes_is_refused() -> None:
    with pytest.raises(pk.QueryError, match="elements need a column 'kind'"):
        pk.tdb(pa.table({"vs": [1]}))


def test_payloads_are_compared_by_value_whatever_their_type() -> None:
    payload = [pa.field("x", pa.float64()), pa.field("l", pa.list_(pa.int64())), pa.field("s", pa.string())]
    schema = element_schema(payload, pa.timestamp("us"))
    nan, zero = math.nan, [-0.0, 0.0]
    rows = [
        {"kind": "insert", "vs": 1, "ve": None, "x": nan, "l": [1, None], "s": None},
        {"kind": "adjust", "vs": 1, "ve": 9, "vold": None, "x": nan, "l": [1, None], "s": None},
        {"kind": "insert", "vs": 1, "ve": 9, "x": zero[0], "l": None, "s": "z"},
        {"kind": "adjust", "vs": 1, "ve": 1, "vold": 9, "x": zero[1], "l": None, "s": "z"},
    ]
    found = pk.tdb(pa.Table.from_pylist(rows, schema))
    assert found.schema.types == [*(field.type for field in payload), pa.timestamp("us"), pa.timestamp("us")]
    assert found["l"].to_pylist() == [[1, None]]
    assert pk.equivalent(pa.Table.from_pylist(rows, schema), pa.Table.from_pylist(rows[:2], schema))


def test_prefixes_are_equivalent_whatever_their_order() -> None:
    rows = [insert("A", 1, 4), insert("B", 2, 5), insert("A", 1, 4)]
    assert pk.equivalent(table(rows), table(rows[::-1]))
    assert not pk.equivalent(table(rows), table(rows[:2]))
    assert not pk.equivalent(table(rows), table([rows[0], rows[1], rows[1]]))
    with pytest.raises(pk.QueryError, match="different payloads"):
        pk.equivalent(table(rows), table(rows).rename_columns(["sync", "kind", "vs", "ve", "vold", "q"]))
