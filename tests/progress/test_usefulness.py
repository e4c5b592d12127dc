"""Which tuples of an input are of no use any more: by the rule of every box between it and a merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.floors import Floors
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.plan.compile import compile_network
from penstock.progress.usefulness import floors_of_inputs, only_useful

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
ELEMENTS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "k": "string"}


def floors(build: Callable[[Any, Any, pk.Stream], None], stable: int = 25) -> Floors:
    """What input `a` may leave out, when the output of the merge is stable up to a tick."""
    net = pk.Network("net")
    streams = [net.source(name, pk.memory([], schema=SCHEMA), progress=pk.ordered()) for name in "ab"]
    build(net, *streams)
    marks = {"merged": Marks({"ts": stable}), "merged.errors": Marks()}
    return floors_of_inputs(compile_network(net.network).network, marks).get("a", {})


def merge(*streams: pk.Stream, **options: Any) -> None:
    pk.lmerge(*streams, on="ts", name="merged", **{"feedback": True, **options}).output("all")


def counted(stream: pk.Stream, **options: Any) -> pk.Stream:
    return stream.aggregate({"n": "count(*)"}, on="ts", **options)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(lambda net, a, b: merge(a, b), {"ts": 25}, id="merge"),
        pytest.param(lambda net, a, b: merge(a, b, feedback=False), {}, id="a merge without feedback"),
        pytest.param(lambda net, a, b: merge(a.where("v > 0"), b.where("v > 0")), {"ts": 25}, id="filter"),
        pytest.param(lambda net, a, b: merge(*a.filter("v > 0")), {"ts": 25}, id="all ports of a filter"),
        pytest.param(lambda net, a, b: merge(pk.union(a, b)), {"ts": 25}, id="union"),
        pytest.param(lambda net, a, b: merge(a.map(ts="ts", w="v * 2")), {"ts": 25}, id="map that leaves the time"),
        pytest.param(
            lambda net, a, b: merge(a.map(t="ts", w="v").map(ts="t")), {"ts": 25}, id="maps that rename the time"
        ),
        pytest.param(lambda net, a, b: merge(a.map(ts="ts + 5")), {}, id="map that changes the time"),
        pytest.param(lambda net, a, b: merge(counted(a, size=10)), {"ts": 30}, id="windows: whole ones"),
        pytest.param(lambda net, a, b: merge(counted(a, size=30, advance=10)), {"ts": 30}, id="windows that overlap"),
        pytest.param(lambda net, a, b: merge(counted(a, size=10, by="k")), {"ts": 30}, id="windows of groups"),
        pytest.param(lambda net, a, b: merge(counted(a, size=10, origin="first")), {}, id="windows that tuples open"),
        pytest.param(lambda net, a, b: merge(a.dedupe(by=["k", "ts"], on="ts")), {}, id="another box"),
        pytest.param(lambda net, a, b: (merge(a, b), a.output("raw")), {}, id="another reader"),
        pytest.param(lambda net, a, b: merge(pk.lmerge(a, b, feedback=True), b), {"ts": 25}, id="a merge of merges"),
        pytest.param(lambda net, a, b: merge(pk.lmerge(a, b), b), {}, id="a merge that gives no feedback between"),
    ],
)
def test_a_floor_goes_upstream_by_the_rule_of_each_box(
    build: Callable[[Any, Any, pk.Stream], None], expected: Floors
) -> None:
    assert floors(build) == expected


def test_nothing_is_known_before_a_merge_has_come_anywhere() -> None:
    assert floors(lambda net, a, b: merge(a, b), stable=BEGINNING) == {}
    assert floors(lambda net, a, b: merge(counted(a, size=10)), stable=END) == {"ts": END}


def test_two_merges_of_one_input_agree_on_the_lower_one() -> None:
    net = pk.Network("net")
    a = net.source("a", pk.memory([], schema=SCHEMA), progress=pk.ordered())
    for name in ("one", "two"):
        pk.lmerge(a, name=name, feedback=True).output(f"{name} out")
    marks = {"one": Marks({"ts": 7}), "two": Marks({"ts": 4})}
    assert floors_of_inputs(compile_network(net.network).network, marks) == {"a": {"ts": 4}}


def test_events_that_may_still_be_revised_are_never_left_out() -> None:
    net = pk.Network("net")
    rows = pk.temporal(pk.memory([], schema=ELEMENTS))
    elements = net.source("in", rows, progress=pk.punctuated())
    with pytest.raises(pk.QueryError, match=r"case R4 of temporal streams has no feedback"):
        pk.lmerge(elements, elements, feedback=True)


def test_events_that_are_inserted_once_and_in_order_are_left_out_by_their_begin() -> None:
    net = pk.Network("net")
    a = net.source("a", pk.memory([], schema=SCHEMA), progress=pk.ordered()).as_temporal(start="ts")
    pk.lmerge(a, case="R1", name="merged", feedback=True).output("all")
    marks = {"merged": Marks({"sync": 25})}
    assert floors_of_inputs(compile_network(net.network).network, marks) == {"a": {"ts": 25}}


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_tuples_below_a_floor_are_left_out_whatever_the_type_of_their_time(kind: pa.DataType) -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([], schema={"ts": kind}), progress=pk.ordered()).output("all")
    (source,) = net.network.sources
    days = pa.array([3, 1, 2, 5], pa.int32() if pa.types.is_date32(kind) else pa.int64())
    tuples = pa.table({"ts": days.cast(kind)})
    assert (
        only_useful(source, tuples, {"ts": 3}).column("ts").to_pylist() == tuples.column("ts").take([0, 3]).to_pylist()
    )
    assert only_useful(source, tuples, {"ts": 1}) is tuples
    assert only_useful(source, tuples.slice(0, 0), {"ts": 1}).num_rows == 0
