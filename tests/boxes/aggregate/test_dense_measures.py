"""Measures without SQL: the same as SQL finds, bit by bit, or none at all."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.boxes.aggregate import dense_groups, dense_measures
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.entry import SubAggregateOp

MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.string(),
        "a": pa.int32(),
        "b": pa.int64(),
        "u": pa.uint8(),
        "t": MOMENT,
        "f": pa.float64(),
    }
)
OUTPUTS = {
    "n": "count(*)",
    "na": "count(a)",
    "sa": "sum(a)",
    "su": "sum(u)",
    "avg": "avg(a)",
    "least": "min(b)",
    "most": "max(b)",
    "when": "max(t)",
    "first": "min_by(a, t)",
    "last": "max_by(b, ts)",
    "early": "first(u)",
    "late": "last(u, ts)",
}
EDGES = [None, 0, 1, -1, 2**31 - 1, -(2**31)]
WIDE = [None, 0, 5, 2**63 - 1, -(2**63)]
rows = st.tuples(
    st.integers(-30, 30),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from(EDGES),
    st.sampled_from(WIDE),
    st.sampled_from([None, 0, 255]),
    st.sampled_from([None, 0, 1, 2**50]),
)


def box_of(outputs: dict[str, str]) -> Aggregate:
    net = pk.Network("n")
    source = net.source("s", pk.memory([], schema=SCHEMA), progress=pk.delayed(100))
    source.aggregate(outputs, on="ts", size=10, by=["k"]).output("o")
    return next(box for box in net.network.boxes if isinstance(box, Aggregate))


def table_of(train: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*train, strict=True)) if train else [[]] * 6
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=False)]
    return pa.table([*arrays, pa.nulls(len(train), pa.float64())], schema=SCHEMA)


def parts_of(box: Aggregate, trains: list[pa.Table], *, dense: bool) -> dict[str, Any]:
    operator = SubAggregateOp(box)
    if not dense:
        operator._dense = None
    for train in trains:
        operator.process(0, train)
    found = dict(operator.flush())
    return {part: (str(rows.schema), sorted(rows.to_pylist(), key=repr)) for part, rows in found.items()}


@given(st.lists(st.lists(rows, min_size=1, max_size=80), min_size=1, max_size=3))
def test_so_are_those_that_are_taken_in_two_parts(trains: list[list[tuple[Any, ...]]]) -> None:
    box, tables = box_of(OUTPUTS), [table_of(train) for train in trains]
    with mock.patch.multiple(dense_measures, _WORTH_PARTING=1, _FIRST_PART=4):
        found = parts_of(box, tables, dense=True)
    assert found == parts_of(box, tables, dense=False)


@given(st.lists(st.lists(rows, min_size=1, max_size=80), min_size=1, max_size=4))
def test_measures_are_what_sql_finds(trains: list[list[tuple[Any, ...]]]) -> None:
    box = box_of(OUTPUTS)
    tables = [table_of(train) for train in trains]
    assert SubAggregateOp(box)._dense is not None
    assert parts_of(box, tables, dense=True) == parts_of(box, tables, dense=False)


HELD = {"m": "median(a)", "q": "quantile_cont(b, 0.5)", "l": "list(u)", "n": "count(*)", "s": "sum(a)"}


@given(st.lists(st.lists(rows, min_size=1, max_size=80), min_size=1, max_size=4))
def test_values_are_held_as_sql_holds_them(trains: list[list[tuple[Any, ...]]]) -> None:
    box = box_of(HELD)
    tables = [table_of(train) for train in trains]
    assert SubAggregateOp(box)._dense is not None
    assert parts_of(box, tables, dense=True) == parts_of(box, tables, dense=False)


@given(st.lists(rows, min_size=40, max_size=80), st.integers(0, 2))
def test_they_are_measured_without_sql_where_the_table_is_full(train: list[tuple[Any, ...]], fill: int) -> None:
    few = [(abs(ts) % 10, "x", a, b, fill, t) for ts, _, a, b, _, t in train]
    operator = SubAggregateOp(box_of(OUTPUTS))
    operator.process(0, table_of(few))
    assert operator._dense is not None
    assert not operator._dense.empty


@pytest.mark.parametrize(
    "output",
    [
        "median(a + 1)",
        "median(f) FILTER (WHERE a > 0)",
        "sum(DISTINCT a)",
        "sum(b)",
        "sum(f)",
        "min(f)",
        "max(k)",
        "max(a + 1)",
        "sum(a) FILTER (WHERE a > 0)",
        "bool_and(a > 0)",
    ],
)
def test_everything_else_is_left_to_sql(output: str) -> None:
    assert SubAggregateOp(box_of({"x": output}))._dense is None


def test_a_first_value_that_may_be_null_is_left_to_sql() -> None:
    box = box_of({"x": "first(a)"})
    train = [(1, "x", 5, 0, 0, 0)] * 20
    assert parts_of(box, [table_of(train), table_of([(0, "x", None, 0, 0, 0)] * 20)], dense=True) == parts_of(
        box, [table_of([*train, (0, "x", None, 0, 0, 0)] + [(0, "x", None, 0, 0, 0)] * 19)], dense=False
    )


def test_tables_with_many_measures_are_smaller() -> None:
    keys, ticks = [pa.array(range(100))], pa.array([0] * 100)
    assert dense_groups.DenseGroups([pa.int64()], 1).add(keys, ticks)
    box = box_of(OUTPUTS)
    operator = SubAggregateOp(box)
    operator.process(0, table_of([(0, f"k{n}", 1, 1, 1, 1) for n in range(100)]))
    assert operator._dense is not None
    assert operator._dense.empty
