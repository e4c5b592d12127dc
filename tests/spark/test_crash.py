"""The protocol of a batch in one process: a crash at every step of every batch, for every kind of target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest
from tests.spark.lives import account_of

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.board import Board, Record
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset, offset_text
from penstock.runtime.opening import open_job
from penstock.runtime.outlet import Outlet
from penstock.runtime.planner import Planner
from penstock.runtime.result import Result
from penstock.runtime.settings import Settings
from penstock.runtime.stage import run_stage
from penstock.runtime.train import from_batches, to_batch
from penstock.storage.folder import Folder

SCRIPT = [(at * 3 % 50 + at, f"k{at % 5}", at) for at in range(60)]
STEPS = ("intake staged", "one bucket saved", "stages saved", "targets committed", "board posted")
TARGETS: dict[str, Callable[[str], Any]] = {
    "results": lambda path: None,
    "parquet": pk.parquet,
    "csv": pk.csv,
    "jsonl": pk.jsonl,
    "delta": pk.delta,
}


def _job(folder: Path) -> Job:
    """Three streams, from the intake and from either stage, each to every kind of target."""
    net = pk.Network("crash")
    schema = {"ts": "int64", "k": "string", "v": "int64"}
    source = net.source("a", pk.memory(SCRIPT, schema=schema, train=12), progress=pk.delayed(30))
    flows = source.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=10, by=["k"])
    streams = {"even": source.where("v % 2 = 0"), "flows": flows, "totals": flows.aggregate({"t": "sum(n)"}, size=30)}
    for kind, target in TARGETS.items():
        for name, stream in streams.items():
            stream.output(f"{name}-{kind}", to=target(str(folder / f"{name}-{kind}")))
    job = open_job(compile_network(net.network), Settings(buckets=2), Folder(str(folder / "checkpoint")), cores=2)
    job.release()
    return job


class Crash(Exception):  # noqa: N818 - it is one, and no error of anything
    """The process dies here."""


def _run_batch(job: Job, start: Offset, end: Offset, batch: int, crash_at: str | None = None) -> Record:
    """One batch as a process runs it that has just started: nothing is remembered but what is on disk."""

    def step(name: str) -> None:
        if name == crash_at:
            raise Crash

    job = open_job(job.plan, job.settings, job.checkpoint, cores=2)
    try:
        return _run_opened(job, start, end, batch, step)
    finally:
        job.release()  # as the end of a process does


def _run_opened(job: Job, start: Offset, end: Offset, batch: int, step: Callable[[str], None]) -> Record:
    planner, offset = Planner(job), offset_text(end)
    rows = [row for share in planner.assignments(start, end) for row in read_assignment(job, share, batch)]
    step("intake staged")
    for stage in range(1, job.plan.stages + 1):
        arrived = list(from_batches(to_batch(row) for row in rows))
        rows = []
        for bucket in (0, 1):
            rows += run_stage(job, stage, bucket, batch, [row for row in arrived if row.bucket == bucket])
            step("one bucket saved")
    step("stages saved")
    with pytest.MonkeyPatch.context() as patch:
        post = Board.post
        patch.setattr(Board, "post", lambda self, record: (step("targets committed"), post(self, record)))
        record = Outlet(job).commit(batch, rows, offset)
    step("board posted")
    return record


def _state_bytes(job: Job) -> dict[str, bytes]:
    root = Path(job.checkpoint.path) / "state"
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*.state"))}


def _read(folder: Path, kind: str, job: Job, name: str) -> list[dict[str, Any]]:
    place = folder / f"{name}-{kind}"
    match kind:
        case "results":
            return Result(job)[f"{name}-{kind}"].to_pylist()
        case "delta":
            return deltalake.DeltaTable(str(place)).to_pyarrow_table().to_pylist()
    readers = {"parquet": pq.read_table, "csv": pacsv.read_csv, "jsonl": pajson.read_json}
    assert not list((place / "_staging").iterdir())
    return pa.concat_tables(readers[kind](file) for file in sorted(place.glob(f"part-*.{kind}"))).to_pylist()


def _without_time(record: Record) -> dict[str, Any]:
    told = record.to_json()
    for work in told["boxes"].values():
        del work["seconds"]
    del told["epoch"]
    return told


@pytest.mark.parametrize("crash_at", STEPS)
def test_a_batch_done_again_after_a_crash_changes_nothing(crash_at: str, tmp_path: Path) -> None:
    calm, crashed = _job(tmp_path / "calm"), _job(tmp_path / "crashed")
    start = Planner(calm).initial()
    batch, record = 0, Record()
    while (end := Planner(calm).latest(start)) != start:
        record = _run_batch(calm, start, end, batch)
        with pytest.raises(Crash):
            _run_batch(crashed, start, end, batch, crash_at)
        written = _state_bytes(crashed)
        again = _run_batch(crashed, start, end, batch)
        rewritten = _state_bytes(crashed)
        this_version = [name for name in written if name.endswith(f"{batch:08d}.state")]
        assert [written[name] for name in this_version] == [rewritten[name] for name in this_version]
        assert rewritten == _state_bytes(calm)
        assert _without_time(again) == _without_time(record)
        start, batch = end, batch + 1
    assert batch == 5
    assert record.ended
    for kind in TARGETS:
        for name in ("even", "flows", "totals"):
            rows = _read(tmp_path / "crashed", kind, crashed, name)
            assert len(rows) == record.outputs[f"{name}-{kind}"] > 0
            assert sorted(rows, key=str) == sorted(_read(tmp_path / "calm", kind, calm, name), key=str)
            if kind == "delta":
                assert account_of(tmp_path / "crashed" / f"{name}-{kind}") == account_of(
                    tmp_path / "calm" / f"{name}-{kind}"
                )
        counted = sum(row["n"] for row in _read(tmp_path / "crashed", kind, crashed, "flows"))
        assert counted == record.inputs["a"].taken == len(SCRIPT) - record.inputs["a"].late


ELEMENTS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "p": "string"}
LIVES = [
    *(("insert", at, None, None, f"p{at % 4}") for at in range(12)),
    *(("adjust", at, at + 9, None, f"p{at % 4}") for at in range(12)),
    ("stable", 8, None, None, None),
    ("adjust", 9, 9, 18, "p1"),
    ("adjust", 3, 30, 12, "p3"),
    ("adjust", 5, 99, 98, "p1"),
]


def _temporal_job(folder: Path) -> Job:
    """A temporal stream, whose current state and whose facts are shown."""
    net = pk.Network("crash")
    connector = pk.temporal(pk.memory(LIVES, schema=ELEMENTS, train=7))
    stream = net.source("a", connector, progress=pk.punctuated())
    stream.output("now", to=pk.current(pk.delta(str(folder / "now"), compact=2)))
    stream.output("shown", to=pk.current(pk.console()))
    stream.as_facts().output("facts")
    job = open_job(compile_network(net.network), Settings(buckets=2), Folder(str(folder / "checkpoint")), cores=2)
    job.release()
    return job


@pytest.mark.parametrize("crash_at", STEPS)
def test_the_current_state_is_right_whenever_a_run_has_crashed(crash_at: str, tmp_path: Path) -> None:
    calm, crashed = _temporal_job(tmp_path / "calm"), _temporal_job(tmp_path / "crashed")
    start, batch, record = Planner(calm).initial(), 0, Record()
    while (end := Planner(calm).latest(start)) != start:
        record = _run_batch(calm, start, end, batch)
        with pytest.raises(Crash):
            _run_batch(crashed, start, end, batch, crash_at)
        assert _without_time(_run_batch(crashed, start, end, batch)) == _without_time(record)
        assert _state_bytes(crashed) == _state_bytes(calm)
        states = [deltalake.DeltaTable(str(tmp_path / run / "now")).to_pyarrow_table() for run in ("calm", "crashed")]
        assert sorted(states[0].to_pylist(), key=str) == sorted(states[1].to_pylist(), key=str)
        start, batch = end, batch + 1
    assert (batch, record.ended, record.inputs["a"].refused) == (4, True, 1)
    events = {(row["p"], row["vs"], row["ve"]) for row in states[1].to_pylist()}
    assert len(events) == states[1].num_rows == 11
    assert ("p3", 3, 30) in events
    assert sorted(Result(crashed)["facts"].to_pylist(), key=str) == sorted(states[1].to_pylist(), key=str)


def test_a_callback_gets_a_batch_again_only_if_it_had_not_returned(tmp_path: Path) -> None:
    """At least once, under the same number: dying inside the call repeats it, dying after it does not."""
    calls: list[tuple[int, list[int]]] = []

    def consume(table: pa.Table, batch: int) -> None:
        calls.append((batch, table["v"].to_pylist()))
        if len(calls) == 2:
            raise Crash

    net = pk.Network("crash")
    source = net.source("a", pk.memory([(1, 10), (2, 20)], schema={"ts": "int64", "v": "int64"}, train=1))
    source.output("seen", to=pk.callback(consume))
    job = open_job(compile_network(net.network), Settings(), Folder(str(tmp_path / "checkpoint")), cores=1)
    job.release()
    start, batch = Planner(job).initial(), 0
    while (end := Planner(job).latest(start)) != start:
        if batch == 1:
            with pytest.raises(pk.QueryError, match="the callback failed on batch 1"):
                _run_batch_without_stages(job, start, end, batch)
        _run_batch_without_stages(job, start, end, batch)
        _run_batch_without_stages(job, start, end, batch)
        start, batch = end, batch + 1
    assert calls == [(0, [10]), (1, [20]), (1, [20])]


def _run_batch_without_stages(job: Job, start: Offset, end: Offset, batch: int) -> Record:
    job = open_job(job.plan, job.settings, job.checkpoint, cores=2)
    try:
        shares = Planner(job).assignments(start, end)
        rows = [row for share in shares for row in read_assignment(job, share, batch)]
        return Outlet(job).commit(batch, rows, offset_text(end))
    finally:
        job.release()
