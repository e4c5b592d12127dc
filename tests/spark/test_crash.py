"""Exactly once: whatever dies in the middle of a batch, every output has every row, and no row twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest

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

APP = Path(__file__).with_name("crash_network.py")
OUTPUTS = ("events", "flows", "totals", "pairs")
FILES = 36
PER_FILE = 80
KILLS = 10
BROKEN = "900,k1,not a number,-1"


def _write_input(folder: Path) -> pa.Table:
    """36 files of each input; all tuples that can be decoded, as one table."""
    rng = random.Random(7)
    (folder / "steady").mkdir(parents=True)
    (folder / "ragged").mkdir()
    everything = []
    for number in range(FILES):
        base = number * 50
        steady = [(base + at * 50 // PER_FILE, f"k{rng.randrange(9)}", rng.randrange(1000)) for at in range(PER_FILE)]
        # At most 30 behind what was read before: except every ninth file, which brings some tuples far too late.
        ragged = [(base + rng.randrange(50) - 20, f"k{rng.randrange(9)}", rng.randrange(1000)) for _ in range(PER_FILE)]
        if number % 9 == 8:
            ragged[3:6] = [(base - 200 + at, "k1", at) for at in range(3)]
        tables = {}
        for at, (name, rows) in enumerate((("steady", steady), ("ragged", ragged))):
            ids = [(number * 2 + at) * PER_FILE + row for row in range(PER_FILE)]
            columns = [list(column) for column in zip(*rows, strict=True)]
            tables[name] = pa.table([*columns, ids], names=["ts", "k", "v", "id"])
        everything += tables.values()
        pq.write_table(tables["steady"], folder / "steady" / f"{number:03d}.parquet")
        file = folder / "ragged" / f"{number:03d}.csv"
        pacsv.write_csv(tables["ragged"], file)
        if number == 17:
            lines = file.read_text().splitlines()
            file.write_text("\n".join([*lines[:40], BROKEN, *lines[40:]]) + "\n")
    return pa.concat_tables(everything)


@dataclass
class Life:
    """One process of the run, in a session of its own, so that all of it can be killed: driver, JVM, workers."""

    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    def begin(arguments: Iterable[Path], log: Path) -> Life:
        # The JVM lives for a few batches only: the quick compiler alone starts it sooner.
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(APP), *map(str, arguments)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return Life(process, log)

    def members(self) -> list[int]:
        """Every process of the session: the JVM and its worker daemon have process groups of their own."""
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
                if os.getsid(pid) == self.process.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(pid)
        return found

    def groups(self) -> set[int]:
        found = {self.process.pid}
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                found.add(os.getpgid(pid))
        return found

    def kill(self, groups: Iterable[int] = ()) -> None:
        """Kill everything, these process groups at once: looking for them would let the batch go on."""
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while alive := self.members():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"processes that SIGKILL does not end: {alive}"
            time.sleep(0.01)
        self.process.wait()

    def finish(self, seconds: float = 300) -> dict[str, Any]:
        """Wait for the end; what the run told."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.kill()
        text = self.log.read_text(errors="replace")
        assert code == 0, text
        return json.loads(next(line for line in text.splitlines() if line.startswith("TOLD ")).removeprefix("TOLD "))


@dataclass(frozen=True)
class Watched:
    """What a run leaves on disk, from which its killer sees how far it is."""

    checkpoint: Path
    out: Path

    def newest(self, moment: str) -> int:
        """The newest batch that has come to a moment of the protocol; for Delta tables the number of commits."""
        match moment:
            case "planned":
                return _newest(self.checkpoint / "spark" / "offsets")
            case "staged":
                return _newest(self.out / "events", "part-")
            case "stage 1 saved":
                return _newest(self.checkpoint / "state" / "1" / "0")
            case "stage 2 saved":
                return _newest(self.checkpoint / "state" / "2" / "0")
            case "delta commit":
                return _newest(self.out / "events" / "_delta_log")
            case "last delta commit":
                return _newest(self.out / "totals" / "_delta_log")
            case "board":
                return _newest(self.checkpoint / "board")
            case "spark commit":
                return _newest(self.checkpoint / "spark" / "commits")
        raise AssertionError(moment)

    def is_inside_a_batch(self) -> bool:
        """Whether a batch is planned that Spark has not committed, so that it must be done again."""
        return self.newest("planned") > self.newest("spark commit")


def _newest(folder: Path, prefix: str = "") -> int:
    try:
        names = [name.removeprefix(prefix) for name in os.listdir(folder) if name.startswith(prefix)]
    except FileNotFoundError:
        return -1
    numbers = [name.split(".")[0].split("-")[0] for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


# Where the ten kills fall, and for how long at most the batch may go on after that, in seconds.
MOMENTS = [
    ("planned", 0.3),
    ("stage 1 saved", 0.0),
    ("staged", 0.0),
    ("delta commit", 0.0),
    ("board", 0.0),
    ("stage 2 saved", 0.01),
    ("last delta commit", 0.0),
    ("spark commit", 0.0),
    ("spark commit", 0.6),
    ("delta commit", 0.02),
]


def _kill_at(life: Life, watched: Watched, moment: str, batches: int, delay: float) -> None:
    """Kill when the moment has come `batches` more times than when this life began."""
    aim = watched.newest(moment) + batches
    groups, looked = life.groups(), time.monotonic()
    try:
        while watched.newest(moment) < aim:
            assert life.process.poll() is None, life.log.read_text(errors="replace")
            if time.monotonic() - looked > 0.5:
                groups, looked = life.groups(), time.monotonic()
            time.sleep(0.003)  # moments of a batch are further apart than this
        time.sleep(delay)
    finally:
        life.kill(groups)


def _rows(out: Path, name: str) -> Counter[tuple[Any, ...]]:
    table = pa.table(deltalake.DeltaTable(str(out / name)).to_pyarrow_table())
    return Counter(tuple(row.values()) for row in table.select(sorted(table.column_names)).to_pylist())


def _account(table: Path) -> tuple[int, int]:
    """Transactions, and data files on disk.

    A batch committed twice would show here even where its files, which have the same names, count once; and a replay
    that came to other bytes would have left files that no transaction lists.
    """
    return deltalake.DeltaTable(str(table)).version(), len(list(table.glob("*.parquet")))


def _expected(tuples: pa.Table) -> dict[str, Counter[tuple[Any, ...]]]:
    """The outputs, computed by DuckDB over the whole input at once; columns in order of their names."""
    flows = duckdb.sql(
        "SELECT k, CAST(median(v) AS DOUBLE) AS m, count(*) AS n, CAST(sum(v) AS BIGINT) AS s,"
        " CAST(floor(ts / 20.0) * 20 AS BIGINT) AS ts FROM tuples GROUP BY ALL"
    )
    totals = duckdb.sql(
        "SELECT count(*) AS groups, CAST(sum(n) AS BIGINT) AS t, CAST(floor(ts / 100.0) * 100 AS BIGINT) AS ts"
        " FROM flows GROUP BY ALL ORDER BY ALL"
    )
    events = duckdb.sql("SELECT id, k, ts, v FROM tuples WHERE v % 7 = 0")
    pairs = duckdb.sql(
        f"WITH owned AS (SELECT *, id // {PER_FILE} % 2 AS input FROM tuples)"
        " SELECT l.id AS l, r.id AS r, least(l.ts, r.ts) AS ts"
        " FROM (FROM owned WHERE input = 0) l FULL JOIN (FROM owned WHERE input = 1) r"
        " ON l.k = r.k AND abs(l.ts - r.ts) <= 3"
    )
    return {
        "pairs": Counter(pairs.fetchall()),
        "events": Counter(events.fetchall()),
        "flows": Counter(flows.fetchall()),
        "totals": Counter(totals.fetchall()),
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_kills_leave_the_rows_of_an_undisturbed_run(tmp_path: Path) -> None:
    tuples = _write_input(tmp_path / "data")
    calm = Life.begin((tmp_path / "data", tmp_path / "calm", tmp_path / "calm-out"), tmp_path / "calm.log").finish()
    assert calm["batch"] >= 30
    assert calm["refused"] == [BROKEN]
    assert len(calm["late"]) >= 9

    rng = random.Random(20)
    watched = Watched(tmp_path / "killed", tmp_path / "killed-out")
    inside = 0
    for number, (moment, longest) in enumerate(MOMENTS):
        life = Life.begin((tmp_path / "data", watched.checkpoint, watched.out), tmp_path / f"life-{number}.log")
        _kill_at(life, watched, moment, rng.randint(1, 3), rng.uniform(0, longest))
        inside += watched.is_inside_a_batch()
    assert inside >= KILLS // 2, "the kills missed the batches, so nothing was tried"
    last = Life.begin((tmp_path / "data", watched.checkpoint, watched.out), tmp_path / "last.log").finish()

    assert len(MOMENTS) == KILLS
    assert last == calm
    late = set(calm["late"])
    on_time = tuples.filter(pa.array(i not in late for i in tuples["id"].to_pylist()))
    expected = _expected(on_time)
    for name in OUTPUTS:
        assert _rows(tmp_path / "calm-out", name) == expected[name]
        assert _rows(watched.out, name) == expected[name]
        assert _account(watched.out / name) == _account(tmp_path / "calm-out" / name)


# The same protocol in one process, a crash at every step of every batch, for every kind of target.

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
    for stage in (1, 2):
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
                assert _account(tmp_path / "crashed" / f"{name}-{kind}") == _account(
                    tmp_path / "calm" / f"{name}-{kind}"
                )
        counted = sum(row["n"] for row in _read(tmp_path / "crashed", kind, crashed, "flows"))
        assert counted == record.inputs["a"].taken == len(SCRIPT) - record.inputs["a"].late


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
