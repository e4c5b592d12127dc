"""failover: copies that burst or are held up, and what comes of their LMerge (lmerge.md VI-E, Fig. 8 and 9).

Every copy is a folder that a thread fills at planned times, 5,000 elements a second, a fifth of them out of order, each
with a text of 100 bytes. A network on Spark merges them.

- `bursts` (Fig. 8): of `--groups` copies one in 200 to 333 elements is held up on its way, for 20 ms, give or take 5.
  What gathers behind it comes all at once.
- `long-bursts`: the same, but ten times as rarely and for ten times as long. A batch takes longer than 20 ms, so it
  hides short bursts.
- `congestion` (Fig. 9): of three copies every element is held up like that for some seconds, of each at another time,
  but once of two at the same time.

`--rows` are the elements of a copy. *Rate* is in elements a second, in stretches of 250 ms: of an input those that the
network has read, of the output those that it has committed. *Variation* is the standard deviation of the rate over its
mean. *Gap* is the longest time in which the rate is below a tenth of its mean. *Behind* is by how many seconds a stream
was behind its source, at most. The first two seconds do not count, nor what follows when the sources have ended. What
has left is compared with what came.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.delays import RATE, bursty, congested
from penstock_bench.our_failover import OUTPUT, Merging, difference, elements, most_behind, rates, write_copy

WIDTH_S: Final = 0.25
SETTLE_S: Final = 2.0
"""How long a run may take to come into its stride."""
PROBABILITIES: Final = (0.003, 0.005)
"""How many elements are held up, of the calmest and of the wildest copy."""
PERIODS: Final = (((0.15, 0.25),), ((0.35, 0.45), (0.6, 0.7)), ((0.62, 0.74),))
"""Of every congested copy: when, as shares of the whole time."""
LONG: Final = 10.0
"""How many times as long delays are in long bursts, and how many times as rare."""
QUIET: Final = 0.1
"""Below such a share of the mean rate a stream stands still."""
WARM_ROWS: Final = 10_000


class Failover:
    """The benchmark."""

    name = "failover"
    summary = "copies that burst or stall: how steady the output of their merge is"
    size = Size(rows=30 * RATE, groups=4)
    rounds = 1
    peers: Sequence[Peer] = tuple(
        Peer(OURS, "penstock_bench.our_failover:Merging", summary, case=case)
        for case, summary in (
            ("bursts", "elements are held up at random"),
            ("long-bursts", "more rarely, and for longer"),
            ("congestion", "all are, for some seconds"),
        )
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        for peer in self.peers:
            _write(peer.case, size, data / peer.case)
            _write(peer.case, Size(WARM_ROWS, size.groups), data / f"{peer.case} warm-up")
        written(size.rows)

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        prepared = job.data / peer.case
        names = sorted(folder.name for folder in prepared.iterdir())
        clock.stage("warm-up")
        Merging().merge(names, job.data / f"{peer.case} warm-up", job.scratch / "warm-up")
        merging: Merging = peer.load()
        clock.start()
        feeding = merging.merge(names, prepared, job.scratch)
        clock.stop()
        found, seconds = rates(merging.noted, feeding.began, WIDTH_S), job.size.rows / RATE
        behind = most_behind(merging.noted, feeding.began, SETTLE_S, seconds)
        return {
            "rows": job.size.rows * len(names),
            "rates": found,
            "batches": len(merging.noted),
            "missed_ms": round(feeding.missed * 1e3, 1),
            "figures": {name: own | {"behind_s": behind[name]} for name, own in figures(found, seconds).items()},
        }

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return difference(elements(job.size.rows), job.scratch / "out") or None

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        return {"failover": {run.case: {**run.detail, "width_s": WIDTH_S} for run in results.values()}}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        return [grid(case, own) for case, own in found["failover"].items()]


FAILOVER: Final = Failover()


def _write(case: str, size: Size, place: Path) -> None:
    whole = elements(size.rows)
    if case != "congestion":
        chances, longer = np.linspace(*PROBABILITIES, size.groups), 1.0 if case == "bursts" else LONG
        times = [bursty(size.rows, float(chance), seed, longer) for seed, chance in enumerate(chances)]
    else:
        times = [congested(size.rows, periods, seed) for seed, periods in enumerate(PERIODS)]
    for number, own in enumerate(times):
        write_copy(whole, own, place / f"copy{number + 1}", 100 + number)


def figures(found: Mapping[str, Sequence[float]], seconds: float) -> dict[str, dict[str, float]]:
    """How steady every stream was, while elements came."""
    told = {}
    for name, rate in found.items():
        counted = np.array(rate[int(SETTLE_S / WIDTH_S) : int(seconds / WIDTH_S)])
        mean = float(counted.mean()) if len(counted) else 0.0
        quiet = [len([*run]) for low, run in itertools.groupby(counted < QUIET * mean) if low]
        told[name] = {
            "variation": float(counted.std() / mean) if mean else 0.0,
            "gap_s": max(quiet, default=0) * WIDTH_S,
            "least": float(min(counted, default=0.0)),
            "most": float(max(counted, default=0.0)),
        }
    return told


def grid(case: str, own: Mapping[str, Any]) -> Table:
    """How steady the copies were, and the output."""
    shown = Table(title=f"{case}: {own['batches']} batches, rates in elements/s", title_justify="left")
    for heading in ("stream", "variation", "longest gap in s", "behind in s", "lowest rate", "highest rate"):
        shown.add_column(heading, justify="left" if heading == "stream" else "right")
    for name, each in own["figures"].items():
        amounts = (f"{each[what]:.2f}" for what in ("variation", "gap_s", "behind_s"))
        extremes = (f"{each[what]:,.0f}" for what in ("least", "most"))
        shown.add_row(name, *amounts, *extremes, style="bold" if name == OUTPUT else "")
    return shown
