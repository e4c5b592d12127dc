"""Fast availability: two plans of one query, each slow on other data, and results as early as from the better one.

Two processes count the different values of every second, each by a plan of its own. One plan is slow on small
values, the other on large ones. (Their work is only pretended: they wait a while for each such value.) For some seconds
all values are small, then all are large, and so on: so each plan falls behind and catches up again. This process merges
both with `pk.lmerge`, and follows whichever is ahead. In the end it tells how late the counts of each plan came, and
those of the merge, and compares them with what DuckDB counts.

    python examples/merging/fast_availability.py

"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from checking import wait_until

import penstock as pk

PLANS = ("slow-on-small", "slow-on-large")
EVERY = 1.0
"""Seconds between two files of values; also the length of a window."""
WINDOW_US = int(EVERY * 1e6)
PER_FILE = 100
LARGEST = 1000
WAIT = 0.013
"""Seconds that a plan waits for a value that it is slow on: 1.3 for a second of them."""
PHASE = 5
"""Files in a row with small values, or with large ones."""
SCHEMA = {"ts": "timestamp[us]", "x": "int64"}


def different(plan: str) -> Any:
    """How many different values a window has; the same answer by both plans, but not in the same time."""

    def count(window: Any) -> int:
        values = np.asarray(window["x"])
        slow = values < LARGEST / 2 if plan == PLANS[0] else values >= LARGEST / 2
        time.sleep(WAIT * int(slow.sum()))
        return len(np.unique(values))

    return pk.window_function(final=count, returns="int64", columns=["x"])


def counting(place: Path, plan: str) -> pk.Network:
    """The query, by one of its plans."""
    net = pk.Network(f"counting-{plan}")
    values = net.source("values", pk.files(str(place / "values"), follow=True), schema=SCHEMA, progress=pk.ordered())
    counts = values.aggregate({"n": different(plan)}, on="ts", size=f"{WINDOW_US} microseconds", name="counts")
    counts.output("counts", to=pk.delta(str(place / plan)))
    return net


class Counts:
    """The counts of a stream: by the begin of their window how many, in which batch, and when they came."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[int, int, float]] = {}
        self.rows = 0

    def read(self, tuples: pa.Table, batch: int) -> None:
        now = time.monotonic()
        self.rows += tuples.num_rows
        for at, n in zip(tuples["ts"].cast(pa.int64()).to_pylist(), tuples["n"].to_pylist(), strict=True):
            self.found[at // WINDOW_US] = (n, batch, now)


def merging(place: Path, seen: dict[str, Counts]) -> pk.Network:
    """The counts of both plans as one stream; and, to compare, as they come."""
    net = pk.Network("merging")
    schema = {"ts": "timestamp[us]", "n": "int64"}
    copies = [
        net.source(plan, pk.delta(str(place / plan), follow=True), schema=schema, on="ts", progress=pk.ordered())
        for plan in PLANS
    ]
    for plan, copy in zip(PLANS, copies, strict=True):
        copy.output(f"of {plan}", to=pk.callback(seen[plan].read))
    pk.lmerge(*copies, name="merged").output("of both", to=pk.callback(seen["merged"].read))
    return net


class Values:
    """Writes files of values, small or large ones."""

    def __init__(self, place: Path) -> None:
        self._folder, self._hidden = place / "values", place / "hidden"
        self._folder.mkdir()
        self._hidden.mkdir()
        self._random = random.Random(1)
        self.came: list[float] = []
        """When each file came."""

    def write(self, low: int, high: int, *, later: int = 0, count: int = PER_FILE) -> None:
        number = len(self.came) + later
        at = [(number * PER_FILE + place) * WINDOW_US // PER_FILE for place in range(count)]
        rows = {"ts": pa.array(at, pa.timestamp("us")), "x": [self._random.randrange(low, high) for _ in at]}
        file = self._hidden / f"{number:06d}.parquet"
        pq.write_table(pa.table(rows), file)
        file.rename(self._folder / file.name)
        self.came.append(time.monotonic())


def begin(place: Path, plan: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, __file__, "--plan", plan, "--place", str(place)]
    with (place / f"{plan}.log").open("ab") as log:
        return subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was asked to end; kill it, if it does not."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_plan(place: Path, plan: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # A batch takes one file: so that it does not wait for those behind it.
    options: dict[str, Any] = {"master": "local[1]", "buckets": 1, "train_rows": PER_FILE}
    run = counting(place, plan).start(checkpoint=str(place / f"{plan}-checkpoint"), **options)
    try:
        run.wait()
    finally:
        run.stop()


def merge_plans(place: Path, phases: int) -> dict[str, object]:
    """Let both plans count, follow the better one, and tell what was seen."""
    values, seen = Values(place), {name: Counts() for name in (*PLANS, "merged")}
    plans = [begin(place, plan) for plan in PLANS]
    try:
        run = merging(place, seen).start(checkpoint=str(place / "merging"), master="local[1]", buckets=1)
        try:
            for _ in range(3):
                values.write(0, LARGEST)
            wait_until(lambda: all(len(counts.found) >= 2 for counts in seen.values()))
            first = len(values.came)
            due = time.monotonic()
            for number in range(phases * PHASE):
                large = number // PHASE % 2
                values.write(large * LARGEST // 2, (large + 1) * LARGEST // 2)
                due += EVERY
                time.sleep(max(0.0, due - time.monotonic()))
            values.write(0, LARGEST)
            # A last value, a minute on: so that all windows before it close.
            values.write(0, LARGEST, later=int(60 / EVERY), count=1)
            right = expected(place)
            wait_until(lambda: all(len(counts.found) >= len(right) for counts in seen.values()))
        finally:
            run.stop()
    finally:
        for process in plans:
            process.terminate()
        for process in plans:
            end(process)
    return told(seen, right, values.came, range(first, first + phases * PHASE))


def told(seen: dict[str, Counts], right: dict[int, int], came: list[float], windows: range) -> dict[str, object]:
    merged, (one, other) = seen["merged"], (seen[plan] for plan in PLANS)
    first = {at: min(one.found[at][1], other.found[at][1]) for at in windows}
    ahead = [one.found[at][1] < other.found[at][1] for at in windows if one.found[at][1] != other.found[at][1]]
    # A window is over when the first value behind it has come: then its count is due.
    late = {name: [counts.found[at][2] - came[at + 1] for at in windows] for name, counts in seen.items()}
    return {
        "missing": len(right.keys() - merged.found.keys()),
        "wrong": sum(right.get(at) != n for at, (n, _, _) in merged.found.items()) + merged.rows - len(merged.found),
        "windows": len(windows),
        "later_than_the_better_plan": sum(merged.found[at][1] > batch for at, batch in first.items()),
        "ahead": {PLANS[0]: sum(ahead), PLANS[1]: len(ahead) - sum(ahead)},
        "mean_delay_s": {name: round(statistics.mean(own), 2) for name, own in late.items()},
        "longest_delay_s": {name: round(max(own), 2) for name, own in late.items()},
    }


def expected(place: Path) -> dict[int, int]:
    """What DuckDB counts in every window but the last, which stays open."""
    found = duckdb.sql(
        f"SELECT epoch_us(ts) // {WINDOW_US} AS w, count(DISTINCT x) FROM '{place}/values/*.parquet' "
        "GROUP BY w ORDER BY w"
    )
    return dict(found.fetchall()[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--phases", type=int, default=4, help="how often the values change from small to large and back"
    )
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--plan", choices=PLANS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.plan:
        run_plan(Path(given.place), given.plan)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = merge_plans(Path(folder), given.phases)
    print(json.dumps(found))
    sys.exit(0 if found["missing"] == found["wrong"] == 0 else 1)


if __name__ == "__main__":
    main()
