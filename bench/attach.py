"""attach: what the others feel while a query that was attached reads a long history (aurora.md 2.1).

A network counts packets per second; a connection point keeps them. First `rows` packets pass: the history. Then a file
of live packets comes every quarter of a second. After a while a query is attached since the beginning, which counts per
minute and pair of addresses, as `q4` does; live packets go on coming until it has caught up, and a while longer.

- *latency* is the time from the arrival of a live file to the commit of the batch that takes it.
- *catch-up* is the number of packets that the point holds when the query is attached, by the seconds until the query
  has caught up with the live ones.
- *alone* is the same count over the same files, by a run of its own that does nothing else: what `q4` measures.

What is right: equality, for all windows that have closed, with what DuckDB counts over all files.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import RenderableType
from rich.table import Table

from penstock_bench import q4
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.traffic import Traffic, write

RATE: Final = 100_000
LIVE_ROWS: Final = 25_000
"""Packets of a live file: a quarter of a second of them."""
EVERY_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 15.0
"""How long live packets alone are measured, before the query is attached and after it has caught up."""
WRITTEN_BEFORE: Final = 240
"""Live files of the first minute."""
PATIENCE_SECONDS: Final = 900.0
SHARES: Final = ("0.3", "1")
ALONE: Final = "alone"
MOST_LATENCY: Final = 1.5
LEAST_RATE: Final = 1 / 3


class Engine(Protocol):
    """A run to which a query can be attached."""

    def start(self, folder: Path, scratch: Path) -> None:
        """Start on a folder that will grow; returns when all files that are there have been read."""

    def arrivals(self) -> Sequence[tuple[float, int]]:
        """After every batch: the time, and how many packets have been read by then."""

    def attach(self) -> None:
        """Attach the query."""

    def caught_up(self) -> float | None:
        """When the query had read all history; None before."""

    def stop(self) -> None:
        """End the run."""


class AttachedQuery:
    """The benchmark."""

    name = "attach"
    summary = "a query attached to a connection point: latency of live results while it reads the history"
    size = Size(rows=20_000_000, groups=131_072)
    rounds = 1
    peers: Sequence[Peer] = (
        *(
            Peer(
                OURS, "penstock_bench.our_attach:Attaching", f"share={share}", case=f"share-{share}", arguments=(share,)
            )
            for share in SHARES
        ),
        Peer(OURS, "penstock_bench.ours:Flows", "the same count in a run of its own", case=ALONE),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write(Traffic(size.rows, size.groups, rate=RATE), data / "packets", written)

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        if peer.case == ALONE:
            return _alone(peer, job, clock)
        return _attached(peer.load(), job, clock)

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        alone = named(self.peers, job.peer).case == ALONE
        packets = job.data / "packets" if alone else job.scratch / "in"
        expected = job.scratch / "expected.parquet"
        q4.expect(packets, expected)
        return q4.difference(expected, packets, job.scratch / "out", all_windows=alone)

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        figures = {run.case: dict(run.detail) for run in results.values()}
        return {"attach": figures, "aims": _aims(figures)}

    def shown(self, found: Mapping[str, Any]) -> list[RenderableType]:
        rows = Table(title="live results while a history is read", title_justify="left")
        for column in ("case", "before", "during", "times", "95 % before", "95 % during", "catch-up in M rows/s"):
            rows.add_column(column, justify="left" if column == "case" else "right")
        for case, own in found["attach"].items():
            if case == ALONE:
                rows.add_row(case, "", "", "", "", "", f"{own['rate'] / 1e6:.2f}")
                continue
            times = own["during_ms"] / own["before_ms"]
            ms = [f"{own[key]:,.0f} ms" for key in ("before_ms", "during_ms", "before_95_ms", "during_95_ms")]
            rows.add_row(case, *ms[:2], f"{times:.2f}", *ms[2:], f"{own['rate'] / 1e6:.2f}")
        aims = Table("what", "found", "aim")
        for aim in found["aims"]:
            aims.add_row(aim["what"], aim["found"], aim["aim"])
        return [rows, aims]


ATTACH: Final = AttachedQuery()


def _alone(peer: Peer, job: Job, clock: Clock) -> dict[str, Any]:
    engine = peer.load()
    clock.stage("warm-up")
    few = job.scratch / "few"
    few.mkdir()
    write(Traffic(100_000, job.size.groups, rate=1_000), few / "packets")
    engine.open(job.scratch)
    engine.run(few / "packets", job.scratch / "warm")
    clock.start()
    began = time.perf_counter()
    engine.run(job.data / "packets", job.scratch / "out")
    seconds = time.perf_counter() - began
    clock.stop()
    return {"rate": job.size.rows / seconds}


def _attached(engine: Engine, job: Job, clock: Clock) -> dict[str, Any]:
    folder = job.scratch / "in"
    folder.mkdir()
    live = _Live(folder, job)
    for file in sorted((job.data / "packets").glob("*.parquet")):
        shutil.copy(file, folder / file.name)
    clock.stage("history passes")
    engine.start(folder, job.scratch)
    clock.stage("live alone")
    began = time.monotonic()
    live.send(lambda: time.monotonic() - began > QUIET_SECONDS)
    clock.start()
    attached = time.monotonic()
    history = engine.arrivals()[-1][1]
    engine.attach()
    live.send(lambda: engine.caught_up() is not None)
    clock.stop()
    clock.stage("live again")
    caught = engine.caught_up() or time.monotonic()
    live.send(lambda: time.monotonic() - caught > QUIET_SECONDS)
    live.settle(engine)
    engine.stop()
    latencies = live.latencies(engine.arrivals())
    before = [ms for at, ms in latencies if began + 2 < at <= attached]
    during = [ms for at, ms in latencies if attached < at <= caught]
    return {
        "before_ms": statistics.median(before),
        "during_ms": statistics.median(during),
        "before_95_ms": _most(before),
        "during_95_ms": _most(during),
        "rate": history / (caught - attached),
        "history": history,
        "seconds": caught - attached,
        "attached": attached - began,
        "caught": caught - began,
        "series": [[round(at - began, 3), round(ms, 1)] for at, ms in latencies],
    }


class _Live:
    """Files of live packets, which follow those of the history in event time.

    Most are written before anything is measured: in life, it is others who write them.
    """

    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder
        self._scratch = job.scratch
        self._first = job.size.rows // LIVE_ROWS
        self._traffic = Traffic(10 * job.size.rows, job.size.groups, rate=RATE, file_rows=LIVE_ROWS, seed=9)
        self._history = job.size.rows
        self.sent: list[float] = []
        for number in range(WRITTEN_BEFORE):
            self._write(number)

    def _write(self, number: int) -> Path:
        import pyarrow.parquet as pq

        file = self._scratch / f"live-{number:06d}.parquet"
        if not file.exists():
            pq.write_table(self._traffic.packets(self._first + number), file)
        return file

    def send(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        due = time.monotonic()
        while not done() and time.monotonic() < deadline:
            hidden = self._write(len(self.sent))
            due = max(due + EVERY_SECONDS, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            self.sent.append(time.monotonic())
            hidden.rename(self._folder / hidden.name)

    def settle(self, engine: Engine) -> None:
        """Wait until all that was sent has been read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        wanted = self._history + len(self.sent) * LIVE_ROWS
        while engine.arrivals()[-1][1] < wanted and time.monotonic() < deadline:
            time.sleep(0.05)

    def latencies(self, arrivals: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
        """When each file came, and how many milliseconds later it had been read and its batch committed."""
        found, at = [], 0
        for number, moved in enumerate(self.sent):
            wanted = self._history + (number + 1) * LIVE_ROWS
            while at < len(arrivals) and arrivals[at][1] < wanted:
                at += 1
            if at == len(arrivals):
                break
            found.append((moved, (arrivals[at][0] - moved) * 1e3))
        return found


def _most(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def _aims(figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    found = []
    few = figures.get(f"share-{SHARES[0]}")
    if few is not None:
        times = few["during_ms"] / few["before_ms"]
        found.append(
            {
                "what": f"latency during / before, share={SHARES[0]}",
                "found": f"{times:.2f}",
                "aim": f"at most {MOST_LATENCY}",
            }
        )
        if ALONE in figures:
            share = few["rate"] / figures[ALONE]["rate"]
            found.append(
                {
                    "what": f"catch-up / alone, share={SHARES[0]}",
                    "found": f"{share:.2f}",
                    "aim": f"at least {LEAST_RATE:.2f}",
                }
            )
    return found
