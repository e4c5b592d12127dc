"""feedback: two plans of one query, each slow for other values, merged with feedback and without (lmerge.md Fig. 10).

Both plans select elements by a function in Python. One is slow for small values of X, the other for large ones;
stretches of small and large values alternate. Each plan is a network in a process of its own, and writes to a Delta
table.

- *udf0*, *udf1*: a plan alone
- *lmerge*: both plans, and a third process that merges their results; it follows whichever is ahead
- *feedback*: the same, and the plan that lags is told what it need not do any more

Measured is the time from the start to the last result. What is right: every element that is to be selected, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import RenderableType
from rich.table import Table

from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named

MIDDLE: Final = 50
"""Values of X below it are small."""
SLOW_US: Final = 1_600
"""What a row costs that a plan is slow for: as in the paper, where 100,000 of them take 163 seconds."""
QUICK_US: Final = 3
Points = list[tuple[float, int]]
"""When so many results were there."""
ALONE: Final = ("udf0", "udf1")
WITHOUT: Final = "lmerge"
WITH: Final = "feedback"
STRETCH: Final = (1 / 20, 3 / 20)
"""How long a stretch is, as a share of all elements: 10,000 to 30,000 of 200,000."""
LEAST_GAIN: Final = 3.0


class Engine(Protocol):
    """A plan, or both of them merged."""

    def measure(self, job: Job, clock: Clock) -> Points:
        """Run to the last result."""


def wanted(x: Any) -> Any:
    """What both plans select, of a value or of an array of them."""
    return x % 2 == 0


def elements(rows: int) -> pa.Table:
    """Elements in order of time, in alternating stretches of small and large values.

    >>> found = elements(200_000).column("x").to_numpy() < MIDDLE
    >>> int(np.count_nonzero(found[1:] != found[:-1]))
    9
    """
    random = np.random.default_rng(6)
    x, small = np.zeros(0, np.int64), True
    while len(x) < rows:
        length = int(random.integers(max(1, int(STRETCH[0] * rows)), max(2, int(STRETCH[1] * rows))))
        low = 0 if small else MIDDLE
        x, small = np.concatenate([x, random.integers(low, low + MIDDLE, length)]), not small
    return pa.table({"ts": np.arange(rows, dtype=np.int64), "x": x[:rows]})


class Feedback:
    """The benchmark."""

    name = "feedback"
    summary = "two plans of one query, each slow for other values: merged with feedback and without"
    size = Size(rows=200_000, groups=2)
    rounds = 1
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.our_feedback:Alone", "slow for small values, alone", case=ALONE[0], arguments=(0,)),
        Peer(OURS, "penstock_bench.our_feedback:Alone", "slow for large values, alone", case=ALONE[1], arguments=(1,)),
        Peer(OURS, "penstock_bench.our_feedback:Merged", "both, merged", case=WITHOUT, arguments=(False,)),
        Peer(OURS, "penstock_bench.our_feedback:Merged", "both, merged with feedback", case=WITH, arguments=(True,)),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        folder = data / "elements"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(elements(size.rows), folder / "0.parquet", row_group_size=1 << 14)
        written(size.rows)

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        engine: Engine = named(self.peers, job.peer).load()
        clock.stage("warm-up")
        return _figures(engine.measure(job, clock))

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        case = named(self.peers, job.peer).case
        if case in ALONE:
            found = deltalake.DeltaTable(str(job.scratch / case)).to_pyarrow_table(columns=["ts"])
        else:
            found = ds.dataset(str(job.scratch / "out"), format="parquet").to_table(columns=["ts"])
        return difference(elements(job.size.rows), found)

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        figures = {run.case: {"seconds": run.seconds, **run.detail} for run in results.values()}
        return {"feedback": figures, "cost_us": [SLOW_US, QUICK_US], "aims": _aims(figures)}

    def shown(self, found: Mapping[str, Any]) -> list[RenderableType]:
        slow, quick = found["cost_us"]
        title = f"time until the last result; a call of a function takes {slow:,} or {quick:,} us"
        rows = Table(title=title, title_justify="left")
        for column in ("case", "seconds", "results", "batches"):
            rows.add_column(column, justify="left" if column == "case" else "right")
        for case, own in found["feedback"].items():
            rows.add_row(case, f"{own['seconds']:,.1f}", f"{own['results']:,}", f"{own['batches']:,}")
        aims = Table("what", "found", "aim")
        for aim in found["aims"]:
            aims.add_row(aim["what"], aim["found"], aim["aim"])
        return [rows, aims]


FEEDBACK: Final = Feedback()


def difference(all_elements: pa.Table, found: pa.Table) -> str | None:
    """What is wrong with the results; None if every element that is to be selected is there, once."""
    stamps, x = (all_elements.column(name).to_numpy() for name in ("ts", "x"))
    expected, times = stamps[wanted(x)], np.sort(found.column("ts").to_numpy())
    if np.array_equal(times, expected):
        return None
    missing, twice = len(np.setdiff1d(expected, times)), len(times) - len(np.unique(times))
    return f"{missing:,} of {len(expected):,} are missing, {twice:,} are there more than once"


def _figures(points: Points) -> dict[str, Any]:
    began = points[0][0]
    return {
        "results": points[-1][1],
        "batches": len(points),
        "series": [[round(at - began, 3), results] for at, results in points],
    }


def _aims(figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    if WITH not in figures or WITHOUT not in figures:
        return []
    gain = figures[WITHOUT]["seconds"] / figures[WITH]["seconds"]
    return [{"what": "times faster with feedback", "found": f"{gain:.2f}", "aim": f"at least {LEAST_GAIN:g}"}]
