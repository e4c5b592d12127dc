"""floor: what a micro-batch costs when it carries a single tuple, and how long a result takes to come out.

A windowed count (one second, no delay allowed), one tuple to a file, one file at a time: tuple i has the time i
seconds, so its arrival closes the window of tuple i - 1. The file is moved into the watched folder atomically once all
earlier batches are committed, and

- *latency* runs from that move to the moment a reader of the output sees the result of the window it closed. For a
  native Spark query that takes two batches: one that reads the tuple and moves the watermark, one that emits.
- *batch* is `triggerExecution`, as Spark's own query progress tells it, of the batches that carry the tuple; the parts
  are its phases, and `noDataBatch` the cost of the batch after it where there is one.

All are medians over `rows` tuples (30 unless told) after 10 more that warm up; with several rounds, those of the round
with the cheapest batch. Times are of one machine and one clock. `rows_per_s` is then tuples per second, one at a time.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import WorldError
from penstock_bench.contract import Clock, Job, Peer, Size

EPOCH_S: Final = 1_767_225_600  # 2026-01-01T00:00:00Z
WARM_UP_TUPLES: Final = 10
POLL_SECONDS: Final = 0.001
PATIENCE_SECONDS: Final = 60.0
GAP_SECONDS: Final = 0.02
"""Between tuples: lets the engine go idle, as it is when a lone tuple arrives."""

SCHEMA: Final = pa.schema([pa.field("ts", pa.timestamp("us", tz="UTC")), pa.field("v", pa.int32())])
PHASES: Final = ("latestOffset", "queryPlanning", "walCommit", "getBatch", "addBatch", "commitOffsets")


@dataclass(frozen=True)
class Result:
    """One result as a reader of the output sees it."""

    start: int
    """The window's start, in seconds since 1970."""
    n: int


class Engine(Protocol):
    """A peer at work. `suffix` says which kind of file it likes best: `.parquet` or `.json`."""

    suffix: str
    checkpoint: Path
    """The folder in which Spark keeps `offsets` and `commits`, known once started."""

    def start(self, folder: Path, scratch: Path) -> None:
        """Start the query on an empty folder that will grow; returns when it waits for files."""

    def results(self) -> Sequence[Result]:
        """All results that a reader of the output sees now, in any order; cheap enough to ask every millisecond."""

    def progress(self) -> Sequence[Mapping[str, Any]]:
        """Spark's progress of each batch since the start: `batchId`, `numInputRows`, `durationMs`."""

    def stop(self) -> None:
        """End the query and the session."""


class MicroBatchFloor:
    """The benchmark."""

    name = "floor"
    summary = "one tuple to a micro-batch: its cost, phase by phase, and the latency of a result"
    size = Size(rows=30, groups=1)
    peers: Sequence[Peer] = (
        Peer("penstock", "penstock_bench.our_floor:OneStage", "a count in one stage"),
        Peer("penstock-process", "penstock_bench.our_floor:ProcessOnly", "the same with durability='process'"),
        Peer("penstock-exchange", "penstock_bench.our_floor:ByExchange", "the same with way='exchange'"),
        Peer(
            "penstock-two-stages", "penstock_bench.our_floor:TwoStages", "a count per value, summed in a second stage"
        ),
        Peer("spark-rocksdb", "penstock_bench.native_floor:RocksDBFloor", "Spark windowed count, RocksDB state"),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        written(size.rows)  # tuples are written one by one, as the run goes

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = next(peer for peer in self.peers if peer.name == job.peer)
        engine: Engine = peer.load()
        folder = job.scratch / "in"
        folder.mkdir()
        clock.stage("starting")
        engine.start(folder, job.scratch)
        clock.stage("warm-up")
        drive(engine, folder, 0, WARM_UP_TUPLES)
        warm_up = last_batch(engine.checkpoint / "commits")
        clock.start()
        latencies = drive(engine, folder, WARM_UP_TUPLES, WARM_UP_TUPLES + job.size.rows)
        clock.stop()
        detail = summarise(latencies, [batch for batch in engine.progress() if batch["batchId"] > warm_up])
        detail["results"] = [[result.start, result.n] for result in engine.results()]
        engine.stop()
        return detail

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        # The window of the last tuple stays open: nothing has passed its end.
        closed = WARM_UP_TUPLES + job.size.rows - 1
        want = [[EPOCH_S + number, 1] for number in range(closed)]
        got = sorted(detail["results"])
        return None if got == want else f"{len(got)} results, {len(want)} expected: {got[:3]} ... {got[-3:]}"


FLOOR: Final = MicroBatchFloor()


def drive(engine: Engine, folder: Path, first: int, last: int) -> list[float]:
    """Send tuples `first` to `last - 1`, each when the one before is done; the latency of each result, in ms."""
    latencies = []
    for number in range(first, last):
        hidden = write_tuple(folder.parent, number, engine.suffix)
        time.sleep(GAP_SECONDS)
        moved = time.perf_counter()
        os.rename(hidden, folder / hidden.name)
        # The very first tuple closes nothing; tuple i makes i results.
        _wait(partial(_has_results, engine, number), f"the result that tuple {number} brings")
        latencies.append((time.perf_counter() - moved) * 1e3)
        _wait(partial(settled, engine.checkpoint, number + 1), f"the end of the batches of tuple {number}")
    return latencies


def write_tuple(folder: Path, number: int, suffix: str) -> Path:
    """A file with tuple `number`, outside the watched folder but on the same disk."""
    file = folder / f"{number:06d}{suffix}"
    at = datetime.fromtimestamp(EPOCH_S + number, UTC)
    if suffix == ".json":
        file.write_text(json.dumps({"ts": at.isoformat(), "v": 1}) + "\n")
    else:
        pq.write_table(pa.table([[at], [1]], schema=SCHEMA), file, compression="none")
    return file


def settled(checkpoint: Path, tuples: int) -> bool:
    """Whether every planned batch is committed, and there was at least one for each tuple."""
    planned, committed = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
    return planned == committed >= tuples - 1


def last_batch(log: Path) -> int:
    """The newest batch in one of Spark's logs, or -1. (Their number tells less: Spark deletes the oldest in time.)"""
    return max((int(name) for name in _names(log) if name.isdigit()), default=-1)


def summarise(latencies: Sequence[float], progress: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians, in ms. Batches that carried nothing and did nothing are idle polls, not batches."""
    full = [batch["durationMs"] for batch in progress if batch["numInputRows"] > 0]
    empty = [
        batch["durationMs"] for batch in progress if batch["numInputRows"] == 0 and "addBatch" in batch["durationMs"]
    ]
    parts = {phase: statistics.median(batch.get(phase, 0) for batch in full) for phase in PHASES}
    if empty:
        parts["noDataBatch"] = statistics.median(batch["triggerExecution"] for batch in empty)
    return {
        "batch_ms": statistics.median(batch["triggerExecution"] for batch in full),
        "latency_ms": statistics.median(latencies),
        "parts": parts,
    }


def _has_results(engine: Engine, count: int) -> bool:
    return len(engine.results()) >= count


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _wait(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > end:
            raise WorldError(f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)
