"""A stage: deterministic, whatever the order in which Spark hands over its rows."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.boxes.assume.verb import assume
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.notes import Note
from penstock.runtime.planner import Planner
from penstock.runtime.stage import run_stage
from penstock.runtime.train import Row


def network() -> pk.Network:
    net = pk.Network("net")
    rows = [(t, "abc"[t % 3], t) for t in range(30)]
    streams = [
        net.source(name, pk.memory(rows, schema={"ts": "int64", "k": "string", "v": "int64"}, train=20))
        for name in ("one", "two")
    ]
    counts = pk.union(*streams).aggregate({"n": "count(*)", "m": "median(v)"}, size=7, advance=3, by="k")
    counts.aggregate({"t": "sum(n)"}, size=21).output("totals")
    return net


def arrived(job: Job) -> list[Row]:
    planner = Planner(job)
    start = planner.initial()
    return [r for a in planner.assignments(start, planner.latest(start)) for r in read_assignment(job, a, 0)]


def state_bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.state")}


@pytest.mark.parametrize("seed", range(4))
def test_a_retry_writes_the_same_bytes_in_any_order_of_its_rows(tmp_path: Path, seed: int) -> None:
    job = job_of(network(), tmp_path)
    for_stage = [r for r in arrived(job) if r.bucket == 1]
    left = list(run_stage(job, 1, 1, 0, for_stage))
    written = state_bytes(tmp_path)
    assert written
    random.Random(seed).shuffle(for_stage)
    again = list(run_stage(job, 1, 1, 0, for_stage))
    assert state_bytes(tmp_path) == written
    assert [r.tuples() for r in again if r.is_train] == [r.tuples() for r in left if r.is_train]


def test_rows_for_later_places_pass_through_untouched(tmp_path: Path) -> None:
    job = job_of(network(), tmp_path)
    row, *_ = Note("elsewhere", marks={"counts": Marks({"ts": 3})}).rows(2, 1)
    row = replace(row, bucket=1)
    assert row in list(run_stage(job, 1, 1, 0, [row]))


def test_progress_is_not_repeated_to_the_next_stage(tmp_path: Path) -> None:
    job = job_of(network(), tmp_path)
    told = [r for r in run_stage(job, 1, 0, 0, []) if r.stage == 2]
    assert {r.bucket for r in told} == {0, 1}, "every bucket of the next stage is told"
    assert [r for r in run_stage(job, 1, 0, 1, []) if r.stage == 2] == []


@pytest.mark.parametrize("buckets", [1, 3])
def test_an_order_assumed_without_groups_is_progress_for_every_bucket_behind_it(buckets: int) -> None:
    """Boxes without keys live in bucket 0; the others must not hold back what is behind them (needs two stages)."""
    net = pk.Network("net")
    rows = [(i, k, i * 10) for i, k in enumerate("aabbabab")]
    schema = {"ts": "int64", "k": "string", "v": "int64"}
    streams = [net.source(name, pk.memory(rows, schema=schema, train=2)) for name in ("x", "y")]
    both = pk.union(*(assume(stream, pk.order("v", 1)) for stream in streams))
    both.aggregate({"n": "count(*)"}, on="v", size=20, by="k").output("out")
    result = net.run("local", buckets=buckets)
    stated = [e.value[0][1] for e in result.elements("out") if not isinstance(e, dict)]
    assert stated == [0, 20, 40, math.inf]
