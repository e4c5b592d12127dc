"""`penstock.testing`: networks on scripts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.errors import QueryError
from penstock.testing import assert_rows, play, shard

SCHEMA = {"ts": "int64", "link": "string"}
N = {"n": "count(*)"}


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark_ready")
    return str(request.param)


def counting(connector: Any = None, **options: Any) -> pk.Network:
    """Packets counted in windows of 10."""
    net = pk.Network("counting")
    packets = net.source("packets", connector or pk.memory([], schema=SCHEMA), **options)
    packets.aggregate(N, size=10, name="count").output("counts")
    return net


def two() -> pk.Network:
    net = pk.Network("two")
    one, other = (net.source(name, pk.memory([], schema=SCHEMA), progress=pk.ordered()) for name in ("one", "other"))
    pk.union(one, other, name="both").aggregate(N, size=10, name="count").output("counts")
    return net


def test_results_late_tuples_and_marks(engine: str) -> None:
    script = {"packets": [(3, "a"), (12, "b"), (8, "a"), (21, "a"), (2, "b")]}
    played = play(counting(progress=pk.delayed(5)), script, engine=engine)
    assert_rows(played["counts"], [(0, 2), (10, 1), (20, 1)])
    assert_rows(played.late("packets"), [(2, "b")])
    assert played.marks("packets") == [-2, 7, 7, 16, math.inf]
    assert played.marks("count") == [-10, 0, 0, 10, math.inf]
    assert played.batches("counts")[3] == [{"ts": 0, "n": 2}]


def test_shards_and_the_clock(engine: str) -> None:
    policy = pk.ordered(idle=pk.heartbeat(every="1 second", skew="5 seconds", unit="s"))
    script = [
        {"packets": [pk.clock(2), shard("east", (1, "x")), shard("west", (2, "x"))]},
        {"packets": [pk.clock(12), shard("east", (12, "x"))]},
        pk.clock(25),
    ]
    played = play(counting(progress=policy), script, end=False, engine=engine)
    assert played.marks("packets") == [1, 7, 20]
    assert [len(rows) for rows in played.batches("counts")] == [0, 0, 2]


def test_the_connector_of_the_application_is_not_opened_and_its_outputs_are_kept(tmp_path: Path) -> None:
    net = pk.Network("app")
    packets = net.source("packets", pk.files(str(tmp_path / "none"), "csv", schema=SCHEMA, follow=True))
    packets.where("link <> 'x'").output("files", to=pk.parquet(str(tmp_path / "out")))
    played = play(net, {"packets": [(1, "a"), {"ts": 2, "link": "x"}]})
    assert_rows(played["files"], [{"ts": 1, "link": "a"}])
    assert not (tmp_path / "out").exists()


def test_a_train_of_several_elements_is_judged_as_one() -> None:
    rows = [(9, "a"), (1, "a"), (2, "a")]
    assert play(counting(progress=pk.ordered()), {"packets": rows}).late("packets").num_rows == 2
    assert play(counting(progress=pk.ordered()), {"packets": rows}, train=2).late("packets").num_rows == 1
    assert play(counting(progress=pk.ordered()), [{"packets": rows}]).late("packets").num_rows == 0


def test_inputs_of_elements_end_one_by_one_and_inputs_of_batches_together() -> None:
    played = play(two(), {"one": [(1, "a"), (15, "a")], "other": [(2, "a")]})
    assert played.marks("other") == [math.inf, math.inf]
    assert played.marks("both") == [1, math.inf]
    played = play(two(), [{"one": [(1, "a")]}, {"one": [(15, "a")]}, {"other": [(2, "a")]}], end=False)
    assert played.marks("both") == [-math.inf, -math.inf, 2]
    (waits,) = played.result.waiting()
    assert waits.culprits == (("other", "0"),)


def test_punctuation_speaks_for_a_shard_or_for_all() -> None:
    script = [shard("a", (1, "x"), pk.punctuation(ts=20)), shard("b", (2, "x")), pk.punctuation(ts=30)]
    played = play(counting(progress=pk.punctuated()), {"packets": script}, end=False)
    assert played.marks("packets") == [-math.inf, -math.inf, 30]


def test_an_input_with_shards_by_a_column_keeps_them() -> None:
    connector = pk.memory([], schema=SCHEMA, shard_by="link")
    script = [(5, "fast"), (1, "slow"), {"ts": 40, "link": "fast"}, pk.punctuation(ts=30, link="slow")]
    played = play(counting(connector, progress=pk.ordered()), {"packets": script}, end=False)
    assert played.marks("packets") == [-math.inf, 1, 1, 30]
    assert_rows(played.batches("counts")[3], [(0, 2)])


def test_records_that_do_not_fit_are_refused() -> None:
    played = play(counting(), {"packets": [("soon", "a"), (1, "a"), (None, "b")]})
    assert played.errors("packets")["reason"].to_pylist() == [
        "column 'ts': 'soon' is no int64",
        "ts is NULL: a tuple must have its progressing attribute",
    ]


def test_timestamps_that_are_added_come_from_the_clock_of_the_script() -> None:
    net = pk.Network("stamped")
    net.source("s", pk.memory([], schema={"link": "string"}), timestamps="internal").output("all")
    times = ["2026-01-01 10:00:00", "2026-01-01 10:00:09"]
    played = play(net, {"s": [pk.clock(times[0]), ("a",), pk.clock(times[1]), ("b",)]}, train=2)
    assert_rows(played["all"], [(times[0], "a"), (times[1], "b")], ordered=True)


def test_elements_are_as_they_left() -> None:
    played = play(counting(progress=pk.ordered()), {"packets": [(1, "a"), (11, "a")]})
    assert [str(element) for element in played.elements("counts")] == [
        "punctuation(ts=0)",
        "{'ts': 0, 'n': 1}",
        "{'ts': 10, 'n': 1}",
        "punctuation(ts=inf)",
    ]


def test_an_empty_script_ends_the_inputs() -> None:
    assert play(counting(), {"packets": []}).marks("packets") == [math.inf]
    assert play(counting(), []).marks("packets") == [math.inf]
    assert play(counting(), [], end=False).marks("packets") == []


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ({"packet": []}, {}, "the network has no input 'packet'\n  expected: one of packets"),
        ({}, {}, "the script says nothing of the input 'packets'"),
        ({"packets": "rows"}, {}, "a script needs a list of elements"),
        ([(1, "a")], {}, "an entry of the script is no batch"),
        ([{"packets": []}], {"train": 2}, "train= does not go with a list of batches"),
        ({"packets": []}, {"train": 0}, "a train has at least one element"),
        ({"packets": [pk.clock(5), pk.clock(4)]}, {}, "the clock of the script goes back\n  found: 4.0 s in batch 1"),
        ({"packets": [shard("a", (1, "x")), (2, "x")]}, {}, "a row of the script does not say of which shard it is"),
        ({"packets": [shard("a", pk.clock(1))]}, {}, "a shard brings rows and punctuation"),
        ({"packets": [pk.punctuation(at=1)]}, {}, "states 'at', which is not in the schema"),
        ({"packets": []}, {"engine": "steam"}, "unknown engine 'steam'"),
    ],
)
def test_what_cannot_be_played_is_refused(script: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError) as refused:
        play(counting(), script, **options)
    assert said in str(refused.value)


def test_punctuation_must_state_a_progressing_attribute() -> None:
    net = pk.Network("net")
    net.source("s", pk.memory([], schema={"ts": "int64", "other": "int64"})).output("all")
    with pytest.raises(QueryError, match="states 'other', on which the input makes no progress"):
        play(net, {"s": [pk.punctuation(other=1)]})


def test_marks_are_asked_of_streams_that_have_some() -> None:
    net = pk.Network("flows")
    both = {"begin": pk.delayed(5), "end": pk.ordered()}
    flows = net.source("flows", pk.memory([], schema={"begin": "int64", "end": "int64"}), progress=both)
    flows.map(length='"end" - "begin"', name="lengths").output("all")
    played = play(net, {"flows": [(1, 9)]}, end=False)
    assert (played.marks("flows", "begin"), played.marks("flows", "end")) == ([-4], [9])
    for arguments, said in (
        (("flow",), "there is no stream 'flow'"),
        (("flows",), "'flows' makes progress on 2 attributes"),
        (("flows", "length"), "'flows' makes no progress on 'length'"),
        (("lengths",), "'lengths' makes no progress"),
    ):
        with pytest.raises(QueryError, match=said):
            played.marks(*arguments)
