"""ets: the experiment of ets.md section 6. How long tuples wait because another input is silent.

Two inputs with Poisson arrivals in real time, 50 and 0.05 tuples a second, a filter behind each that passes 95 %, and
the order-preserving merge. Timestamps are internal, so only silence makes tuples wait. The cases:

- *none*: nobody speaks for a silent input (A in the paper);
- *10s* ... *0.1s*: heartbeats of the slow input, at these intervals (B);
- *on-demand*: an input states how far it is when the merge waits (C);
- *latent*: timestamps that nobody waits for, the best there can be (D).

`--rows` are arrivals of the fast input, so 6,000 rows take two minutes a case. Measured, after some seconds in which
the query settles: the mean time from the moment a tuple was due to the moment it left; the share of time in which the
merge held tuples back; the most tuples that the merge held, and that were anywhere between arrival and departure; the
batches run; and how often something was stated in the place of the slow input. Then the fast input stops, too, and the
batches are counted that run all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
from rich.console import RenderableType
from rich.table import Table

from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.our_ets import OrderedUnion, Seen
from penstock_bench.poisson import Integers, Poisson

FAST_RATE: Final = 50.0
SLOW_RATE: Final = 0.05
SEED: Final = 7
PASSES: Final = 95
SETTLE_US: Final = 5_000_000
"""The first batches of a query are slower than those that follow."""
LEAD_US: Final = 2_000_000
"""From the start of the query to the first arrival."""
QUIET_US: Final = 10_000_000
"""How long the run goes on when the fast input has stopped."""
HEARTBEATS: Final = ("10s", "3s", "1s", "0.3s", "0.1s")
CASES: Final = ("none", *HEARTBEATS, "on-demand", "latent")
SAME_LATENCY: Final = 1.2
"""A rate of heartbeats has the same latency as on demand if it is at most so many times as long."""
BAR: Final = 48


class EnablingTimestamps:
    """The benchmark."""

    name = "ets"
    summary = "an ordered union of a busy and an almost silent input: how long tuples wait, and for how much memory"
    size = Size(rows=6_000, groups=2)
    growth: Sequence[tuple[str, str]] = ()

    @property
    def peers(self) -> Sequence[Peer]:
        return [_peer(case) for case in CASES]

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        written(size.rows)  # tuples arrive as the run goes

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        engine: OrderedUnion = named(self.peers, job.peer).load()
        clock.stage("starting")
        engine.warm_up()
        origin = time.time_ns() // 1000 + LEAD_US
        fast, slow = inputs(origin, job.size.rows)
        seen = Seen()
        run = engine.start(fast, slow, job.scratch, seen)
        clock.start()
        last = int(fast.due()[-1])
        settle, quiet = min(SETTLE_US, (last - origin) // 4), min(QUIET_US, last - origin)
        while time.time_ns() // 1000 < last + settle + quiet and not run.wait(1.0):
            pass
        clock.stop()
        run.stop()
        return summarise(seen, fast, slow, (origin + settle, last), (last + settle, last + settle + quiet))

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return detail["wrong"]

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What the JSON has besides: the figures of every case, and the ratios that are aimed at."""
        figures = {
            run.case: {key: value for key, value in run.detail.items() if key not in ("wrong", "rows")}
            for run in results.values()
        }
        return {"ets": figures, "aims": aims(figures)}

    def shown(self, found: Mapping[str, Any]) -> list[RenderableType]:
        """The figures side by side, and Fig. 7 and 8 of the paper as bars."""
        figures = found["ets"]
        parts = [
            _figures(figures),
            _bars("mean latency in ms (log scale; Fig. 7)", {c: f["latency_ms"] for c, f in figures.items()}),
            _bars("peak queue in tuples (log scale; Fig. 8)", {c: f["peak_queue"] for c, f in figures.items()}),
        ]
        return [*parts, _aims(found["aims"])] if found["aims"] else parts


ETS: Final = EnablingTimestamps()


def _peer(case: str) -> Peer:
    every = f"{round(float(case.removesuffix('s')) * 1000)} ms" if case in HEARTBEATS else None
    arguments = ("latent" if case == "latent" else "internal", every, case == "on-demand")
    return Peer(OURS, "penstock_bench.our_ets:OrderedUnion", "an ordered union", case=case, arguments=arguments)


def inputs(origin: int, rows: int) -> tuple[Poisson, Poisson]:
    """The fast input, which stops after so many arrivals, and the slow one, which outlasts it."""
    return Poisson(FAST_RATE, SEED, origin, rows), Poisson(SLOW_RATE, SEED + 1, origin, rows)


def summarise(
    seen: Seen, fast: Poisson, slow: Poisson, busy: tuple[int, int], quiet: tuple[int, int]
) -> dict[str, Any]:
    """The figures of a case: of the time in which both inputs talk, and of one in which the fast input has stopped."""
    begin, end = busy
    passing = {"fast": _passing(fast), "slow": _passing(slow)}
    arrived = np.sort(np.concatenate(list(passing.values())))
    latencies = [now - tuples.column("due").to_numpy() for now, tuples in seen.emitted if begin <= now <= end]
    all_latencies = np.concatenate([np.zeros(0), *latencies])
    batches = [(now, held) for now, held in seen.batches if begin <= now <= end]
    left = dict.fromkeys(passing, 0)
    queue, wrong, last = [], None, None
    for now, tuples in seen.emitted:
        # Before a batch commits, everything that has arrived and not left before it is somewhere in the buffers.
        if begin <= now <= end:
            queue.append(int(np.searchsorted(arrived, now, "right")) - sum(left.values()))
        for name, moments in passing.items():
            own = tuples.column("due").filter(pc.equal(tuples.column("input"), name)).to_numpy()
            first = left[name]
            if not np.array_equal(own, moments[first : first + len(own)]):
                wrong = f"the tuples of '{name}' do not leave once and in order"
            left[name] += len(own)
        times = tuples.column("ts").to_numpy()
        if (np.diff(times) < np.timedelta64(0)).any() or (last is not None and times[0] < last):
            wrong = "the merged stream is not in order"
        last = times[-1]
    queue.append(int(np.searchsorted(arrived, end, "right")) - sum(left.values()))
    return {
        "rows": sum(left.values()),
        "wrong": wrong if latencies else "nothing left the network",
        "latency_ms": float(all_latencies.mean()) / 1e3 if len(all_latencies) else float("nan"),
        "p95_ms": float(np.percentile(all_latencies, 95)) / 1e3 if len(all_latencies) else float("nan"),
        "idle_share": _idle_share(batches, begin, end),
        "peak_held": max((held for _, held in batches), default=0),
        "peak_queue": max(queue),
        "batches": len(batches),
        "statements": sum(begin <= now <= end for now in seen.statements),
        "seconds": (end - begin) / 1e6,
        "waiting_at_the_end": batches[-1][1] if batches else 0,
        "quiet_batches": sum(quiet[0] <= now <= quiet[1] for now, _ in seen.batches),
    }


def _passing(arrivals: Poisson) -> Integers:
    """The moments of those arrivals that the filter lets through."""
    return arrivals.due()[arrivals.values() < PASSES]


def _idle_share(batches: Sequence[tuple[int, int]], begin: int, end: int) -> float:
    """The share of time in which the merge held something: a batch's state lasts until the next one's."""
    moments = [*(now for now, _ in batches), end]
    held = sum(moments[at + 1] - now for at, (now, rows) in enumerate(batches) if rows)
    return held / (end - begin)


def aims(figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """How the cases compare, beside what is aimed at."""
    found = []
    demand = figures.get("on-demand")
    if demand is None:
        return []

    def add(what: str, value: str, aim: str) -> None:
        found.append({"what": what, "found": value, "aim": aim})

    if "latent" in figures:
        add("latency, on demand / latent", f"{demand['latency_ms'] / figures['latent']['latency_ms']:.2f}", "<= 1.2")
    if "none" in figures:
        none = figures["none"]
        add("latency, none / on demand", f"{none['latency_ms'] / demand['latency_ms']:.0f}", ">= 50")
        add("tuples held by the merge, none / on demand", _times(none["peak_held"], demand["peak_held"]), ">= 100")
        add("tuples in all buffers, none / on demand", _times(none["peak_queue"], demand["peak_queue"]), ">= 100")
    for case in (c for c in HEARTBEATS if c in figures):
        own = figures[case]
        if own["latency_ms"] <= SAME_LATENCY * demand["latency_ms"]:
            beside = f"on demand / heartbeats every {case} (same latency)"
            add(f"batches a second, {beside}", f"{_a_second(demand):.2f} / {_a_second(own):.2f}", "fewer")
            quiet = f"{demand['quiet_batches']} / {own['quiet_batches']}"
            add(f"batches in {QUIET_US // 10**6} s of silence, {beside}", quiet, "fewer")
    return found


def _a_second(figures: Mapping[str, Any]) -> float:
    return float(figures["batches"] / figures["seconds"])


def _times(more: int, less: int) -> str:
    return f"{more / less:.0f}" if less else f"{more} / 0"


def _figures(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    title = f"an ordered union of {FAST_RATE:g} and {SLOW_RATE:g} tuples a second"
    caption = (
        "waiting: share of time in which the merge holds tuples; held, queue: peaks, in the merge and in all buffers; "
        f"stated: for the slow input; silent: batches in {QUIET_US // 10**6} s without tuples"
    )
    shown = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    shown.add_column("case")
    headings = ("latency ms", "p95 ms", "waiting", "held", "queue", "batches/s", "stated", "silent")
    for heading in headings:
        shown.add_column(heading, justify="right")
    for case, f in figures.items():
        shown.add_row(
            case,
            f"{f['latency_ms']:,.0f}",
            f"{f['p95_ms']:,.0f}",
            f"{f['idle_share']:.1%}",
            f"{f['peak_held']:,}",
            f"{f['peak_queue']:,}",
            f"{_a_second(f):.2f}",
            f"{f['statements']:,}",
            f"{f['quiet_batches']:,}",
        )
    return shown


def _aims(aims: Sequence[Mapping[str, str]]) -> Table:
    shown = Table(title="aims", title_justify="left")
    for heading in ("what", "found", "aim"):
        shown.add_column(heading)
    for aim in aims:
        shown.add_row(aim["what"], aim["found"], aim["aim"])
    return shown


def _bars(title: str, values: Mapping[str, float]) -> Table:
    shown = Table(title=title, title_justify="left", box=None, show_header=False)
    top = max(np.log10(max(values.values())), 1.0)
    for case, value in values.items():
        length = round(BAR * max(0.0, float(np.log10(max(value, 1.0)))) / float(top))
        shown.add_row(case, "█" * length, f"{value:,.0f}")
    return shown
