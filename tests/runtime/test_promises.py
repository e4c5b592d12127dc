"""Promises: a disordered input is told, with what was declared and what would have been kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.runtime.promises import length_text
from penstock.runtime.work import InputCount


def network(rows: list[Any], *, kind: str = "int64", train: int = 2, **options: Any) -> pk.Network:
    net = pk.Network("net")
    net.source("in", pk.memory(rows, schema={"ts": kind, "k": "string"}, train=train), **options).output("out")
    return net


def told(net: pk.Network, **options: Any) -> list[str]:
    """What is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net.run("local", **options)
    return [str(w.message) for w in caught if issubclass(w.category, pk.PromiseWarning)]


DISORDERED = [(t, "a") for t in (3, 9, 7, 12, 4, 15)]


@pytest.mark.parametrize("train", [1, 2, 3, 6])
def test_what_is_seen_does_not_depend_on_the_train(train: int) -> None:
    """In one train nothing is late, in six two tuples are; the disorder is the same."""
    result = network(DISORDERED, train=train, progress=pk.ordered()).run("local")
    (promise,) = result.promises()
    assert (promise.input, promise.attribute, promise.bound) == ("in", "ts", 0)
    assert (promise.largest, promise.most, promise.kept) == (8, 8, False)
    assert promise.suggestion == "progress=pk.delayed(8)"
    assert str(promise) == (
        "input 'in': ts is up to 8 behind the largest before it, 99.9% of the tuples up to 8; declared: ordered; "
        "progress=pk.delayed(8) would be kept"
    )


@pytest.mark.parametrize("train", [1, 2, 3, 6])
def test_what_is_suggested_is_kept(train: int) -> None:
    result = network(DISORDERED, train=train, progress=pk.delayed(8)).run("local")
    assert result.record().inputs["in"].late == 0
    (promise,) = result.promises()
    assert promise.kept
    assert promise.suggestion is None
    assert str(promise).endswith("declared: delayed by 8, which they keep")


def test_an_input_in_order_is_no_matter() -> None:
    rows = [(t, "a") for t in (1, 1, 2, 5)]
    assert network(rows).run("local").promises() == []
    assert told(network(rows)) == []


def test_the_first_disorder_of_an_input_without_a_promise_is_a_warning_once(tmp_path: Path) -> None:
    options = {"checkpoint": str(tmp_path / "run")}
    (message,) = told(network(DISORDERED), **options)
    assert message == (
        "input 'in' is out of order, and no progress= was given: ts is up to 2 behind so far, and such tuples are late "
        "or not as trains happen to be cut; progress=pk.delayed(2) would keep them"
    )
    assert told(network(DISORDERED), **options) == []


@pytest.mark.parametrize("progress", [pk.ordered(), pk.delayed(5), {"ts": pk.ordered()}])
def test_who_has_made_a_promise_is_not_warned(progress: Any) -> None:
    assert told(network(DISORDERED, progress=progress)) == []


def test_a_decreasing_attribute_is_measured_downwards() -> None:
    rows = [(t, "a") for t in (20, 11, 14, 3)]
    (promise,) = network(rows, progress=pk.ordered(descending=True)).run("local").promises()
    assert (promise.largest, promise.suggestion) == (3, "progress=pk.delayed(3, descending=True)")
    kept = network(rows, train=1, progress=pk.delayed(3, descending=True)).run("local")
    assert kept.record().inputs["in"].late == 0


def test_times_are_suggested_as_lengths_of_time() -> None:
    rows = [(f"2024-01-01 00:0{m}:00", "a") for m in (5, 3, 9)]
    result = network(rows, kind="timestamp[us]", progress=pk.on_demand(skew="5 seconds")).run("local")
    (promise,) = result.promises()
    assert promise.suggestion == 'progress=pk.delayed("2 minutes", idle=…)'


def test_of_several_attributes_the_disordered_one_is_named() -> None:
    net = pk.Network("net")
    schema = {"end": "int64", "start": "int64"}
    flows = pk.memory([(10, 2), (11, 9), (22, 1)], schema=schema, train=1)
    net.source("flows", flows, progress={"end": pk.ordered(), "start": pk.delayed(5)}).output("out")
    (promise,) = net.run("local").promises()
    assert promise.suggestion == 'progress={"start": pk.delayed(8), …}'
    assert "declared: delayed by 5" in str(promise)


def test_where_the_tuples_promise_nothing_there_is_nothing_to_suggest() -> None:
    (promise,) = network(DISORDERED, progress=pk.punctuated()).run("local").promises()
    assert (promise.bound, promise.kept, promise.suggestion) == (None, True, None)
    assert str(promise).endswith("99.9% of the tuples up to 8; declared: punctuated")


@pytest.mark.parametrize("slack", [3, 1_000])
def test_a_slack_is_no_length_and_counts_as_kept_while_no_tuple_was_late(slack: int) -> None:
    (promise,) = network(DISORDERED, progress=pk.slack(slack)).run("local").promises()
    assert (promise.bound, promise.kept, promise.suggestion) == (None, True, None)
    assert str(promise).endswith(f"99.9% of the tuples up to 8; declared: slack of {slack:,} tuples")


def test_a_slack_that_was_not_kept_says_how_often_and_what_would_be() -> None:
    (promise,) = network(DISORDERED, progress=pk.slack(1)).run("local").promises()
    assert (promise.bound, promise.kept, promise.suggestion) == (None, False, "progress=pk.delayed(8)")
    assert str(promise).endswith(
        "declared: slack of 1 tuple, which 1 did not keep; progress=pk.delayed(8) would be kept"
    )


def test_groups_with_an_order_of_their_own_and_stamps_of_the_intake_are_not_measured() -> None:
    assert network(DISORDERED, progress=pk.ordered(by="k")).run("local").record().disorder == {}
    net = pk.Network("net")
    net.source("in", pk.memory([("a",), ("b",)], schema={"k": "string"}), timestamps="internal").output("out")
    assert net.run("local").record().disorder == {}


def test_records_that_were_refused_do_not_count() -> None:
    rows = [(5, "a"), (None, "a"), (6, "a")]
    assert network(rows, train=3).run("local").promises() == []


def test_each_shard_has_its_own_order() -> None:
    net = pk.Network("net")
    links = pk.memory([(5, "a"), (1, "b"), (6, "a"), (2, "b")], schema={"ts": "int64", "k": "string"}, shard_by="k")
    net.source("in", links).output("out")
    assert net.run("local").promises() == []


def test_tasks_that_share_a_shard_find_what_lies_between_them(data: Path) -> None:
    for name, times in (("a", [1, 2, 90]), ("b", [40, 91, 92])):
        pq.write_table(pa.table({"ts": pa.array(times, pa.int64())}), data / f"{name}.parquet")
    net = pk.Network("net")
    net.source("in", pk.files(str(data)), schema={"ts": "int64"}, progress=pk.ordered()).output("out")
    for tasks in (1, 2):
        (promise,) = net.run("local", tasks=tasks).promises()
        assert promise.largest == 50


@pytest.mark.parametrize(
    ("ticks", "kind", "text"),
    [
        (0, pa.int64(), "0"),
        (95, pa.int64(), "95"),
        (95, pa.date32(), "95 days"),
        (86_400_000, pa.date64(), "1 day"),
        (1, pa.timestamp("s"), "1 second"),
        (94_203_117, pa.timestamp("us"), "95 seconds"),
        (1_300_001, pa.timestamp("us"), "1301 ms"),
        (1_999_554, pa.timestamp("us"), "2 seconds"),
        (7, pa.timestamp("ns"), "7 ns"),
        (7_200, pa.timestamp("s"), "2 hours"),
        (40_000, pa.timestamp("s"), "12 hours"),
    ],
)
def test_lengths_are_rounded_up_to_what_people_write(ticks: int, kind: pa.DataType, text: str) -> None:
    assert length_text(ticks, kind) == text


def test_inputs_without_a_batch_are_in_the_record_with_zeros(tmp_path: Path) -> None:
    net = pk.Network("net")
    net.source("busy", pk.memory([(1,), (2,)], schema={"ts": "int64"}, train=1)).output("busy")
    net.source("quiet", pk.memory([], schema={"ts": "int64"})).output("quiet")
    first = []
    result = net.run("local", checkpoint=str(tmp_path / "run"), on_batch=first.append)
    assert first[0].inputs == {"busy": InputCount(1, 1), "quiet": InputCount()}
    assert result.record().inputs["quiet"] == InputCount()
