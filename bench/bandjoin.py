"""bandjoin: memory, latency and time of a band join under a count, over the size of the band (Fig. 11, Q7 of oop.md).

    SELECT count(*) [RANGE 1 min, SLIDE 1 min, WA M1.ts] FROM M1, M2
    WHERE M1.ts >= M2.ts - n AND M1.ts <= M2.ts + n
      AND M1.srcIP = M2.destIP AND M1.destIP = M2.srcIP AND M1.srcPort = M2.destPort AND M1.destPort = M2.srcPort

Both links arrive in order and at the same time, 20 seconds of each in a batch. The pairs of a band come in disorder:
in order, they are sorted before they are counted. *Latency* is the time from the start of the batch that brings the
punctuation which closes a window to the moment its count is out (in either architecture they are the same batch); the
mean over windows, without those that the end of the input closes. *Work* is the time that all boxes took together, on
both cores; *seconds* are those of the whole run. Every band has a run of its own; `rows` are those of both links.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import RenderableType
from rich.table import Table

import penstock as pk
from penstock.runtime.board import Record
from penstock_bench.contract import Clock, Job, Size, named
from penstock_bench.conversations import Replies, Requests
from penstock_bench.held import (
    HeldBenchmark,
    Holding,
    Points,
    Question,
    answer,
    bars,
    difference,
    share,
    warm_up,
)
from penstock_bench.our_q7 import CONVERSATION
from penstock_bench.throughput import CORES

BANDS_S: Final = (1, 10, 30, 60)
SECONDS: Final = 240
BATCHES: Final = 12
WARM_UP: Final = 20
"""The part of the rows that is joined once before anything is measured."""

MATCHES_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', l.ts) AS l_ts, count(*) AS n FROM m1 AS l JOIN m2 AS r
    ON l.srcIP = r.destIP AND l.destIP = r.srcIP AND l.srcPort = r.destPort AND l.destPort = r.srcPort
    AND l.ts >= r.ts - INTERVAL '{band} seconds' AND l.ts <= r.ts + INTERVAL '{band} seconds' GROUP BY ALL
"""


class BandJoinHeld(HeldBenchmark):
    """The benchmark."""

    name = "bandjoin"
    summary = "a join within 1 to 60 s, counted per minute: memory, latency and time, in order and out of order"
    size = Size(rows=2_400_000, groups=400_000)
    parameter = "band"
    cases: Sequence[str] = ("",)

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        (architecture,) = named(self.peers, job.peer).arguments
        clock.stage("starting")
        warm_up(architecture)
        clock.stage("warm-up")
        small = links(Size(max(1, job.size.rows // WARM_UP), job.size.groups))
        timed(matches(*small, BANDS_S[0]), architecture, job.scratch / "warm-up")
        m1, m2 = links(job.size)
        points, wrong = {}, None
        clock.start()
        for band in BANDS_S:
            clock.stage(f"band of {band} s")
            asked = matches(m1, m2, band)
            point, result = timed(asked, architecture, job.scratch / f"checkpoint-{band}")
            points[f"{band}s"] = point
            wrong = wrong or difference(result, asked.expected)
        clock.stop()
        return {"points": points, "wrong": wrong, "rows": len(BANDS_S) * (m1.num_rows + m2.num_rows)}

    def aims(self, both: Mapping[str, Points]) -> list[dict[str, str]]:
        last = f"{BANDS_S[-1]}s"
        whats = {"tuples held": "rows", "bytes held": "bytes", "latency": "latency_ms"}
        whats |= {"work": "work_s", "time": "seconds"}
        return [
            {
                "what": f"{what}, out of order / in order at {last}",
                "found": f"{share(both, last, key):.0%}",
                "aim": "less",
            }
            for what, key in whats.items()
        ]

    def shown(self, found: Mapping[str, Any]) -> list[RenderableType]:
        (both,) = found["held"].values()
        times = Table(title="latency of a window, work of all boxes, and time of the run", title_justify="left")
        times.add_column("band", justify="right")
        for architecture in both:
            for what in ("latency ms", "work s", "seconds"):
                times.add_column(f"{architecture}\n{what}", justify="right")
        for value in next(iter(both.values())):
            own = [points[value] for points in both.values()]
            cells = [(f"{p['latency_ms']:.0f}", f"{p['work_s']:.2f}", f"{p['seconds']:.2f}") for p in own]
            times.add_row(value, *(cell for of_one in cells for cell in of_one))
        figures = [
            bars("(a) MB held", "band", {a: _in_mb(p) for a, p in both.items()}, "mb", ".2f"),
            bars("(b) latency in ms", "band", both, "latency_ms"),
            bars("(c) seconds of work", "band", both, "work_s", ".2f"),
        ]
        return [*super().shown(found)[:1], times, *figures, *super().shown(found)[2:]]


BANDJOIN: Final = BandJoinHeld()


def links(size: Size) -> tuple[pa.Table, pa.Table]:
    """Requests and replies, each in order of time."""
    half = max(1, size.rows // 2)
    rate = max(1, half // SECONDS)
    made = (kind(half, size.groups, rate=rate, file_rows=half).packets(0) for kind in (Requests, Replies))
    m1, m2 = (packets.sort_by("ts") for packets in made)
    return m1, m2


def matches(m1: pa.Table, m2: pa.Table, band: int) -> Question:
    net = pk.Network(f"bandjoin-{band}")
    left, right = (
        net.source(f"{band}s-{name}", pk.memory(own, train=-(-own.num_rows // BATCHES)), on="ts")
        for name, own in (("m1", m1), ("m2", m2))
    )
    pairs = left.join(right, CONVERSATION, on=("ts", "ts"), size=f"{band} seconds", name=f"{band}s-pairs")
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size="1 minute", name=f"{band}s-counts").output("matches")
    return Question(net, {"matches": answer(MATCHES_SQL.format(band=band), m1=m1, m2=m2)}, width=32)


def timed(asked: Question, architecture: str, checkpoint: Path) -> tuple[dict[str, float], pk.Result]:
    """One run: what it held, how long it took, and how long a window took that punctuation had closed."""
    holding = Holding(checkpoint, asked.width)
    committed: list[tuple[float, int]] = []

    def watch(record: Record) -> None:
        committed.append((time.perf_counter(), record.outputs.get("matches", 0)))
        holding(record)

    began = time.perf_counter()
    result = asked.net.run(
        master=f"local[{CORES}]", checkpoint=str(checkpoint), architecture=architecture, on_batch=watch
    )
    seconds = time.perf_counter() - began
    # A batch begins when the one before it is committed; the last one is the end of the input.
    latencies = [now - before for (before, left), (now, more) in pairwise(committed[:-1]) if more > left]
    (peak,) = holding.peaks.values()
    latency = statistics.mean(latencies) * 1e3 if latencies else float("nan")
    work = sum(box.seconds for box in result.record().boxes.values())
    return {**peak, "seconds": seconds, "work_s": work, "latency_ms": latency, "windows": len(latencies)}, result


def _in_mb(points: Points) -> dict[str, dict[str, float]]:
    return {value: {"mb": point["bytes"] / 2**20} for value, point in points.items()}
