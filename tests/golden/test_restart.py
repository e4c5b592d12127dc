"""A run that is interrupted and goes on from its checkpoint gives the answer of a run that was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import elements, same

import penstock as pk
from penstock.runtime.board import Record

ANSWER = """
 ts  k  n  mid
  0  x  5  4.0
  0  y  5  5.0
 10  x  5  14.0
 10  y  5  15.0
 20  x  2  21.0
 20  y  2  22.0
"""


def network() -> pk.Network:
    """Eight trains of three; windows, held values and a second stage live across every cut."""
    net = pk.Network("restart")
    rows = [(t, "xy"[t % 2], float(t)) for t in range(24)]
    source = net.source("in", pk.memory(rows, schema={"ts": "int64", "k": "string", "v": "double"}, train=3))
    counts = source.aggregate({"n": "count(*)", "mid": "median(v)"}, size=10, by="k")
    counts.output("counts")
    counts.aggregate({"n": "sum(n)"}, size=20).output("sums")
    return net


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("after", [0, 3, 6])
def test_a_local_run_goes_on_where_it_was_interrupted(after: int, tmp_path: Path) -> None:
    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    folder = str(tmp_path / "checkpoint")
    with pytest.raises(InterruptError):
        network().run("local", checkpoint=folder, buckets=2, on_batch=interrupt)
    batches: list[int] = []
    result = network().run("local", checkpoint=folder, buckets=2, on_batch=lambda record: batches.append(record.batch))
    assert batches == list(range(after + 1, 8))
    same(result["counts"], ANSWER)
    assert [e for e in elements(result, "sums") if e[0] != "p"] == [(0, 20), (20, 4)]
    whole = network().run("local", checkpoint=str(tmp_path / "whole"), buckets=2)
    assert elements(result, "counts") == elements(whole, "counts")


@pytest.mark.spark
def test_a_spark_run_goes_on_where_it_was_stopped(tmp_path: Path, spark_ready: object) -> None:
    folder = str(tmp_path / "checkpoint")
    run = network().start(checkpoint=folder, buckets=2)
    stopped_at = run.wait_for(lambda record: record.batch >= 1).batch
    run.stop()
    assert stopped_at < 7, "the run was over before it could be stopped"
    batches: list[int] = []
    result = network().run(checkpoint=folder, buckets=2, on_batch=lambda record: batches.append(record.batch))
    assert batches, "nothing was left to do"
    assert batches[-1] == 7
    same(result["counts"], ANSWER)
    assert [e for e in elements(result, "sums") if e[0] != "p"] == [(0, 20), (20, 4)]
    assert result.record().inputs["in"].read == 24


def test_a_run_that_has_ended_has_nothing_more_to_do(run: Runner, tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    net = pk.Network("once")
    net.source("in", pk.memory([(1,), (2,)], schema={"ts": "int64"})).aggregate({"n": "count(*)"}, size=10).output("o")
    for _ in range(2):
        result = run(net, checkpoint=folder)
        same(result["o"], "ts n \n 0 2")
        assert result.late("in").num_rows == 0
        assert result.record().batch == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("size", "the change would lose what parts of the network hold"),
        ("buckets", "was made with another number of buckets"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(change: str, reason: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")

    def run_with(size: int, buckets: int) -> None:
        net = pk.Network("mine")
        source = net.source("in", pk.memory([(1,)], schema={"ts": "int64"}))
        source.aggregate({"n": "count(*)"}, size=size).output("o")
        net.run("local", checkpoint=folder, buckets=buckets)

    run_with(10, 2)
    with pytest.raises(pk.QueryError, match=reason) as refused:
        run_with(20 if change == "size" else 10, 3 if change == "buckets" else 2)
    if change == "size":
        assert "box aggregate1: aggregate n=count(*) on ts, size 10, advance 10" in (refused.value.expected or "")
        assert "box aggregate1: aggregate n=count(*) on ts, size 20, advance 20" in (refused.value.found or "")


@pytest.mark.parametrize("last", [0, 1, 2])
def test_a_shard_is_overdue_at_the_same_time_of_a_script_however_often_the_run_is_stopped(
    last: int, tmp_path: Path
) -> None:
    script = [pk.clock(8), ("east", 8), ("west", 7)]
    for second in (10, 12, 14, 16):
        script += [pk.clock(second), ("east", second), pk.clock(second)]
    net = pk.Network("leaving")
    links = pk.memory(script, schema={"link": "string", "ts": "int64"}, train=3, shard_by="link")
    source = net.source("links", links, overdue="4 seconds", when_overdue="close")
    source.aggregate({"n": "count(*)"}, size=2).output("counts")

    def stop(record: Record) -> None:
        if record.batch == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        net.run("local", checkpoint=str(tmp_path / "stopped"), on_batch=stop)
    again = net.run("local", checkpoint=str(tmp_path / "stopped"))
    assert list(map(str, again.elements("counts"))) == list(map(str, net.run("local").elements("counts")))
