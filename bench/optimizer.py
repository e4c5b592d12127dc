"""optimizer: six filters and maps in the worst order, and data that changes in the middle of the run (aurora.md 3.1).

Requests are counted by region and minute. Before that come two maps, a digest and an upper-case text, and four filters:
one on a number, cheap; and three with regular expressions. In the first half of the data `api` lets 5 % through and
`bots` 95 %, in the second half it is the other way round. Three peers run the same boxes:

- `penstock`: in the worst order, `optimize="on"`;
- `as-written`: in the worst order, as it is;
- `by-hand`: in the best order, which is changed by hand just where the data changes.

Every batch is one file. What is told of each half is the *steady* rate, that of the median of its last batches; what a
row costs in the boxes there, in time on a core, so that waiting for one does not count; and how many batches of the
half had run when the last change of order took effect in it (*found*). Right is what DuckDB answers over these files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import RenderableType
from rich.table import Table

from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.throughput import files

BATCHES: Final = 32
HALF: Final = BATCHES // 2
STEADY: Final = 6
"""How many batches at the end of a half are looked at."""
WINDOW_US: Final = 60_000_000
WINDOWS: Final = 16
WARM_UP_ROWS: Final = 40_000
WARM_UP_BATCHES: Final = 4
AT_MOST: Final = 10
"""Batches that finding an order may take."""
TEXTS: Final = 4_096
AGENTS: Final = ("Mozilla/5.0 (compatible; bot{} +https://b.example)", "Mozilla/5.0 (X11; Linux x86_64; rv {})")
PATHS: Final = ("/api/v1/accounts/cafe-{}/orders/77", "/static/images/banner-{}.0/cafe7")
SHARES: Final = ((0.95, 0.05), (0.05, 0.95))
"""Of requests that pass `bots` and `api`, in each half."""
AS_WRITTEN: Final = "as-written"
BY_HAND: Final = "by-hand"

EXPECTED_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', ts) AS ts, region, count(*) AS n,
        max(md5(agent || path)) AS digest, min(upper(path)) AS shown
    FROM read_parquet({files})
    WHERE regexp_matches(agent, 'bot[0-9]+') AND regexp_matches(path, '/api/v[0-9]')
        AND regexp_matches(path, '[a-f]+.*[0-9]+$') AND status < 450
    GROUP BY ALL
"""


class Optimizer:
    """The benchmark."""

    name = "optimizer"
    summary = "six filters and maps in the worst order, data that changes: the optimizer against an order by hand"
    size = Size(rows=8_000_000, groups=16)
    rounds = 1
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.our_optimizer:Optimized", "the worst order, optimize='on'"),
        Peer(AS_WRITTEN, "penstock_bench.our_optimizer:AsWritten", "the worst order, as it is"),
        Peer(BY_HAND, "penstock_bench.our_optimizer:ByHand", "the best order, changed by hand"),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write(size, data / "requests", written)
        write(Size(WARM_UP_ROWS, size.groups), data / "warm-up", lambda rows: None, batches=WARM_UP_BATCHES)
        throughput.expect(EXPECTED_SQL.format(files=files(data / "requests")), data / "expected.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        engine = named(self.peers, job.peer).load()
        clock.stage("warm-up")
        engine.run(job.data / "warm-up", job.scratch / "warm-up", WARM_UP_ROWS // WARM_UP_BATCHES)
        clock.start()
        batches = engine.run(job.data / "requests", job.scratch / "out", max(1, job.size.rows // BATCHES))
        clock.stop()
        return {"batches": batches}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        if len(detail["batches"]) < BATCHES:
            return f"{len(detail['batches'])} batches instead of {BATCHES}"
        by = ("region", "digest", "shown")
        return throughput.difference(job.data / "expected.parquet", job.scratch / "out", by=by, window_us=WINDOW_US)

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """Of every peer its batches, the steady rate of each half, and when the order was found."""
        return {"optimizer": {name: _told(run) for name, run in results.items()}}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        told = found["optimizer"]
        shown = Table(title="steady rate of each half, M rows/s (us/row in the boxes)", title_justify="left")
        for heading in ("", "first half", "found after", "second half", "found after"):
            shown.add_column(heading, justify="right" if heading else "left")
        for name, own in told.items():
            cells = [
                cell
                for half in own["halves"]
                for cell in (
                    f"{half['rows_per_s'] / 1e6:.2f} ({half['us_per_row']:.2f})",
                    "" if half["found"] is None else f"{half['found']} batches",
                )
            ]
            shown.add_row(name, *cells)
        return (shown, *([aims(told)] if {OURS, BY_HAND} <= told.keys() else []))


OPTIMIZER: Final = Optimizer()


def write(size: Size, folder: Path, written: Callable[[int], None], batches: int = BATCHES) -> None:
    """A file of requests for every batch."""
    folder.mkdir(parents=True, exist_ok=True)
    random, rows = np.random.default_rng(12), max(1, size.rows // batches)
    step = WINDOW_US * WINDOWS // (rows * batches)
    for batch in range(batches):
        bots, api = SHARES[2 * batch // batches]
        numbers = np.arange(batch * rows, (batch + 1) * rows)
        table = pa.table(
            {
                "ts": pa.array(numbers * max(1, step), pa.timestamp("us")),
                "region": random.integers(0, size.groups, rows),
                "status": random.integers(0, 500, rows),
                "agent": _texts(random.random(rows) < bots, random, AGENTS),
                "path": _texts(random.random(rows) < api, random, PATHS),
            }
        )
        pq.write_table(table, folder / f"{batch:04d}.parquet")
        written(rows)


def _texts(which: npt.NDArray[np.bool_], random: np.random.Generator, kinds: tuple[str, str]) -> pa.Array:
    """Texts of two kinds, some thousand different ones of each."""
    known = pa.array([text.format(number) for text in kinds for number in range(TEXTS)])
    return known.take(pa.array(random.integers(0, TEXTS, len(which)) + np.where(which, 0, TEXTS)))


def aims(told: Mapping[str, Any]) -> Table:
    shown = Table(title="aims", title_justify="left")
    for heading in ("what", "found", "aim"):
        shown.add_column(heading)
    for number, half in enumerate(("first", "second")):
        ours, hand = (told[name]["halves"][number] for name in (OURS, BY_HAND))
        share = ours["rows_per_s"] / hand["rows_per_s"]
        shown.add_row(f"rate of the {half} half / by hand", f"{share:.0%}", ">= 90%")
        cost = ours["us_per_row"] / hand["us_per_row"]
        shown.add_row(f"cost of a row in the {half} half / by hand", f"{cost:.0%}", "<= 110%")
        found = "not at all" if ours["found"] is None else f"{ours['found']} batches"
        shown.add_row(f"order of the {half} half found after", found, f"<= {AT_MOST} batches")
    return shown


def _told(run: Run) -> dict[str, Any]:
    batches = run.detail["batches"][:BATCHES]
    halves = []
    for first in (0, HALF):
        own = batches[first : first + HALF]
        changes = [at for at, batch in enumerate(own) if batch["version"] != own[-1]["version"]]
        before = batches[first - 1]["version"] if first else 1
        seconds = median(batch["seconds"] for batch in own[-STEADY:])
        halves.append(
            {
                "rows_per_s": own[-1]["rows"] / seconds,
                "us_per_row": median(batch["cpu"] for batch in own[-STEADY:]) * 1e6 / own[-1]["rows"],
                "found": len(changes) if own[-1]["version"] != before else None,
            }
        )
    return {"batches": batches, "halves": halves}
