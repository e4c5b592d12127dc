"""Which tuples are of no use any more: by the rule of every box between an input and a merge."""

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
from penstock.progress.usefulness import floors_of, floors_of_inputs, only_useful

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


def best(stream: pk.Stream) -> pk.Stream:
    return stream.top(1, by="v", on="ts", size=10)


def joined(left: pk.Stream, right: pk.Stream, **options: Any) -> pk.Stream:
    """Two units before, four units after."""
    return left.join(right, "l.k = r.k", on="ts", band=(2, 4), **options)


def near(left: pk.Stream, right: pk.Stream, **options: Any) -> pk.Stream:
    return left.resample(right, {"n": "count(*)"}, on=("ts", "ts"), size=3, **options)


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
        pytest.param(lambda net, a, b: merge(a.dedupe(by=["k"], on="ts")), {"ts": 25}, id="dedupe"),
        pytest.param(lambda net, a, b: merge(a.cleanse(by="k")), {"ts": 25}, id="cleanse"),
        pytest.param(lambda net, a, b: merge(pk.merge(b, a)), {"ts": 25}, id="sorted union"),
        pytest.param(lambda net, a, b: merge(best(a).map(ts="window")), {"ts": 30}, id="top, by the windows"),
        pytest.param(lambda net, a, b: merge(best(a).map(ts="ts")), {"ts": 20}, id="top: all who share a window"),
        pytest.param(lambda net, a, b: merge(joined(a, b).map(ts="l_ts")), {"ts": 25}, id="join, the left side"),
        pytest.param(lambda net, a, b: merge(joined(b, a).map(ts="l_ts")), {"ts": 23}, id="join, the right side"),
        pytest.param(lambda net, a, b: merge(joined(a, b).map(ts="r_ts")), {"ts": 21}, id="join, by the other time"),
        pytest.param(lambda net, a, b: merge(joined(a, b, progress="min")), {"ts": 25}, id="join, the least time"),
        pytest.param(lambda net, a, b: merge(joined(a, b, progress="max")), {"ts": 21}, id="join, the greatest time"),
        pytest.param(
            lambda net, a, b: merge(joined(a, b, how="left").map(ts="l_ts")), {"ts": 25}, id="left join, left side"
        ),
        pytest.param(
            lambda net, a, b: merge(joined(b, a, how="left").map(ts="l_ts")), {"ts": 23}, id="left join, right side"
        ),
        pytest.param(
            lambda net, a, b: merge(joined(a, b, how="full", progress="min")), {"ts": 21}, id="full join: partners"
        ),
        pytest.param(lambda net, a, b: merge(joined(a, b, how="anti")), {"ts": 25}, id="anti join, left side"),
        pytest.param(lambda net, a, b: merge(joined(b, a, how="anti")), {"ts": 23}, id="anti join, right side"),
        pytest.param(lambda net, a, b: merge(near(a, b)), {"ts": 25}, id="resample, left side"),
        pytest.param(lambda net, a, b: merge(near(b, a)), {"ts": 22}, id="resample, right side"),
        pytest.param(
            lambda net, a, b: merge(near(b, a, assuming=pk.order(on="ts"))), {}, id="resample with an order of its own"
        ),
        pytest.param(lambda net, a, b: merge(a.bsort(slack=2, on="ts")), {}, id="bsort: tuples push each other out"),
        pytest.param(
            lambda net, a, b: merge(counted(a, size=10, by="k", flush="lazy", table=4)), {}, id="a table of fixed size"
        ),
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


def test_boxes_are_told_of_the_floors_of_all_that_enters_them() -> None:
    net = pk.Network("net")
    a, b = (net.source(name, pk.memory([], schema=SCHEMA), progress=pk.ordered()) for name in "ab")
    pairs = joined(a.where("v > 0", name="seen to"), b.map(ts="ts + 1", k="k", name="moved"), name="pairs")
    merge(pairs.map(ts="l_ts", name="renamed").where("ts > 0", name="chosen"))
    b.output("raw")
    found = floors_of(compile_network(net.network).network, {"merged": Marks({"ts": 25})})
    assert found.inputs == {"a": {"ts": 25}}
    # The input leaves out already what the filter behind it need not see, and the map cannot carry the floor.
    assert found.boxes == {
        "pairs": ({"ts": 25}, {"ts": 23}),
        "renamed": ({"l_ts": 25},),
        "chosen": ({"ts": 25},),
        "merged": ({"ts": 25},),
    }


def test_a_box_leaves_out_what_another_reader_of_its_input_needs() -> None:
    net = pk.Network("net")
    a = net.source("a", pk.memory([], schema=SCHEMA), progress=pk.ordered())
    merge(a.where("v > 0", name="costly"))
    a.output("raw")
    found = floors_of(compile_network(net.network).network, {"merged": Marks({"ts": 25})})
    assert found.inputs == {}
    assert found.boxes["costly"] == ({"ts": 25},)


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_tuples_below_a_floor_are_left_out_whatever_the_type_of_their_time(kind: pa.DataType) -> None:
    days = pa.array([3, 1, 2, None, 5], pa.int32() if pa.types.is_date32(kind) else pa.int64())
    tuples = pa.table({"ts": days.cast(kind)})
    found = only_useful(tuples, {"ts": 3}).column("ts")
    assert found.to_pylist() == tuples.column("ts").take([0, 3, 4]).to_pylist()
    assert only_useful(tuples, {"ts": 1}) is tuples
    assert only_useful(tuples.slice(0, 0), {"ts": 1}).num_rows == 0
    assert only_useful(tuples.slice(3, 1), {"ts": 1}).num_rows == 1
