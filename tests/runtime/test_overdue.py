"""Shards and batches that are overdue are told of, until they return."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.jobs import job_of

import penstock as pk
from penstock.progress.extremes import NOTHING, Extremes
from penstock.runtime.board import Record
from penstock.runtime.job import Job
from penstock.runtime.overdue import failures

SECOND = 1_000_000


def job(tmp_path: Path, **options: str) -> Job:
    net = pk.Network("net")
    net.source(
        "in", pk.memory([(1, "a"), (2, "b")], schema={"ts": "int64", "k": "string"}, shard_by="k"), **options
    ).output("out")
    return job_of(net, tmp_path)


def test_a_shard_is_overdue_until_it_delivers_again(tmp_path: Path) -> None:
    asked = job(tmp_path, overdue="10 seconds")

    def told(now: int, **shards: Extremes) -> list[tuple[str | None, float]]:
        record = Record(shards={"in": shards})
        return [(f.shard, f.seconds) for f in failures(asked, record, now * SECOND, 5 * SECOND, 60 * SECOND)]

    heard = Extremes(largest=1, at=8 * SECOND)
    assert told(17, a=heard) == []
    assert told(18, a=heard) == [("a", 10.0)]
    #  one that never spoke is counted from the start of the run
    assert told(15, a=heard, b=NOTHING) == [("b", 10.0)]
    assert told(30, a=Extremes(largest=3, at=29 * SECOND), b=Extremes(ended=True)) == []


def test_before_the_first_batch_the_declaration_says_which_shards_there_are(tmp_path: Path) -> None:
    found = failures(job(tmp_path, overdue="10 seconds"), Record(), 20 * SECOND, 5 * SECOND, 60 * SECOND)
    assert [f.shard for f in found] == ["a", "b"]
    assert "silent for 15.0 s, 10 s are allowed; never heard of; whoever needs it waits for it" in str(found[0])


def test_an_input_without_a_limit_is_never_overdue(tmp_path: Path) -> None:
    assert failures(job(tmp_path), Record(), 10**15, 0, 60 * SECOND) == []


def test_a_batch_that_is_planned_and_not_committed_is_overdue(tmp_path: Path) -> None:
    asked = job(tmp_path)
    for log, batches in (("offsets", ("3", "4")), ("commits", ("3",))):
        asked.spark.child(log).make()
        for number in batches:
            asked.spark.child(log).write(number, b"")
    begun = asked.spark.child("offsets").changed("4")
    assert failures(asked, Record(), begun + 59 * SECOND, 0, 60 * SECOND) == []
    (found,) = failures(asked, Record(), begun + 61 * SECOND, 0, 60 * SECOND)
    assert (found.what, found.input) == ("batch 4", None)
    asked.spark.child("commits").write("4", b"")
    assert failures(asked, Record(), begun + 61 * SECOND, 0, 60 * SECOND) == []
