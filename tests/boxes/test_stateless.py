"""Filter, Map and Union: a train in, trains out, nothing kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.operators.scripted import box_of, source

import penstock as pk
from penstock.algebra.hidden import SEQ
from penstock.boxes.filter.combined import CombinedFilter
from penstock.boxes.filter.operator import CombinedFilterOp, FilterOp
from penstock.boxes.map.operator import MapOp
from penstock.boxes.union.operator import UnionOp

SCHEMA = {"ts": "int64", "v": "int64"}


def train(*values: int | None) -> pa.Table:
    return pa.table({"ts": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, pa.int64())})


def leaving(operator: Any, tuples: pa.Table) -> dict[int, list[int | None]]:
    return {port: table["v"].to_pylist() for port, table in operator.process(0, tuples)}


def test_filter_sends_every_tuple_to_one_output() -> None:
    operator = FilterOp(box_of(source(SCHEMA).filter("v > 10", "v > 5")[0]), ())
    assert leaving(operator, train(20, 7, 1, None, 11)) == {0: [20, 11], 1: [7], 2: [1, None]}


def test_filter_passes_a_train_of_one_output_on_as_it_is() -> None:
    operator = FilterOp(box_of(source(SCHEMA).filter("v > 10")[0]), ())
    tuples = train(20, 30)
    ((port, passed),) = operator.process(0, tuples)
    assert port == 0
    assert passed is tuples


def test_where_has_one_output_and_lets_the_rest_go() -> None:
    operator = FilterOp(box_of(source(SCHEMA).where("v > 10")), ())
    assert leaving(operator, train(20, 7, None)) == {0: [20]}
    assert leaving(operator, train(1, 2)) == {}


def test_map_computes_only_what_somebody_needs() -> None:
    box = box_of(source(SCHEMA).map(ts="ts", twice="v * 2", heavy="v * v"))
    ((_, computed),) = MapOp(box, {"ts", "twice"}).process(0, train(1, None, 3))
    assert computed.to_pydict() == {"ts": [0, 1, 2], "twice": [2, None, 6]}


def test_map_keeps_the_number_of_tuples_when_no_attribute_is_needed() -> None:
    # count(*) over a map needs no attribute, but it needs every tuple.
    box = box_of(source(SCHEMA).map(twice="v * 2"))
    ((_, computed),) = MapOp(box, set()).process(0, train(1, 2, 3))
    assert computed.num_rows == 3


def test_union_passes_tuples_on_in_the_order_of_its_own_attributes() -> None:
    net = pk.Network("net")
    one = net.source("one", pk.memory([], schema={"ts": "int64", "v": "int64"}))
    two = net.source("two", pk.memory([], schema={"v": "int64", "ts": "int64"}))
    operator = UnionOp(box_of(pk.union(one, two)), {"ts", "v"})
    ((_, same),) = operator.process(0, train(1, 2))
    ((_, turned),) = operator.process(1, train(1, 2).select(["v", "ts"]))
    assert same.column_names == turned.column_names == ["ts", "v"]
    assert turned.equals(train(1, 2))


def test_tuples_of_a_union_carry_arrival_numbers_all_or_none() -> None:
    # One of its inputs may have them for another box.
    net = pk.Network("net")
    one, two = (net.source(name, pk.memory([], schema={"ts": "int64", "v": "int64"})) for name in ("one", "two"))
    sequenced = train(1, 2).append_column(SEQ, pa.array([7, 8]))
    box = box_of(pk.union(one, two))
    ((_, without),) = UnionOp(box, {"ts", "v"}).process(0, sequenced)
    ((_, kept),) = UnionOp(box, {"ts", "v", SEQ}).process(0, sequenced)
    assert without.column_names == ["ts", "v"]
    assert kept.column_names == ["ts", "v", SEQ]


def test_filter_carries_on_only_what_somebody_needs() -> None:
    tuples = train(20, 7, 30).append_column(SEQ, pa.array([1, 2, 3]))
    ((_, passed),) = FilterOp(box_of(source(SCHEMA).where("v > 10")), {"ts"}).process(0, tuples)
    assert passed.to_pydict() == {"ts": [0, 2], SEQ: [1, 3]}


def test_filters_that_are_combined_ask_each_only_of_the_tuples_that_are_left() -> None:
    stream = source(SCHEMA).where("v > 5")
    first, second = box_of(stream), box_of(stream.where("ts % 2 = 0"))
    parts = (("first", first.predicates[0]), ("second", second.predicates[0]))
    operator = CombinedFilterOp(CombinedFilter("both", first.inputs, parts), {"v"})
    tuples = train(20, 7, None, 1, 11)
    ((port, passed),) = operator.process(0, tuples)
    assert (port, passed.to_pydict()) == (0, {"v": [20, 11]})
    assert [(part.name, part.taken, part.left) for part in operator.parts_done()] == [("first", 5, 3), ("second", 3, 2)]
    assert list(operator.process(0, train(1, 2))) == []
    assert [(part.name, part.taken, part.left) for part in operator.parts_done()] == [("first", 2, 0)]
