"""Cutover: the plan of a running query is replaced by another one, and whoever reads the result does not notice.

A network counts packets per second and address. Its only plan counts second by second. While packets come in, another
plan of the same query joins `merged`: it counts tenths of seconds first, and adds those up. It begins with the packets
of that moment, so it has all counts from the next whole second on. When the result has come to that second, the new
plan has joined. The network is then changed to one that has the new plan alone. In the end all counts are compared with
what DuckDB counts over all packets.

    python examples/merging/cutover.py

"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from checking import difference, has_come_to, wait_until

import penstock as pk

EVERY = 0.25
"""Seconds between two versions of the table of packets."""
PER_VERSION = 250
STEP_US = int(EVERY * 1e6) // PER_VERSION
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = {"ts": "timestamp[us]", "address": "int64", "bytes": "int64"}
COUNTS = {"n": "count(*)", "total": "sum(bytes)"}
SUMS = {"n": "sum(n)", "total": "sum(total)"}


def in_one_step(net: Any, place: Path) -> pk.Stream:
    """The old plan."""
    packets = net.source("packets", pk.delta(str(place / "packets"), follow=True), schema=SCHEMA, on="ts")
    return packets.aggregate(COUNTS, on="ts", size="1 second", by="address", name="counts")


def in_two_steps(net: Any, place: Path, since: int) -> pk.Stream:
    """The new plan. It reads the table of packets from a version on."""
    table = pk.delta(str(place / "packets"), since=since, follow=True)
    packets = net.source("packets since", table, schema=SCHEMA, on="ts")
    tenths = packets.aggregate(COUNTS, on="ts", size="100 milliseconds", by="address", name="tenths")
    return tenths.aggregate(SUMS, on="ts", size="1 second", by="address", name="counts of tenths")


def serving(place: Path, plan: Callable[[Any], pk.Stream], seen: Callable[[pa.Table, int], None]) -> pk.Network:
    """The network: what its plan counts goes through `merged`, so that another plan can take its place."""
    net = pk.Network("serving")
    merged = pk.lmerge(plan(net), name="merged")
    merged.output("counts", to=pk.parquet(str(place / "out")))
    merged.output("watched", to=pk.callback(seen))
    return net


class Packets(threading.Thread):
    """Adds packets to a table, four times a second, until it is told to end."""

    def __init__(self, place: Path) -> None:
        super().__init__(daemon=True)
        self._table = str(place / "packets")
        self._enough = threading.Event()
        self._random = random.Random(1)
        self.version = 0
        """The version of the table that comes next."""

    def run(self) -> None:
        due = time.monotonic()
        while not self._enough.wait(max(0.0, due - time.monotonic())):
            self._add(self.version, PER_VERSION)
            due, self.version = due + EVERY, self.version + 1
        # A last packet, a minute on: so that all seconds before it close.
        self._add(self.version + int(60 / EVERY), 1)

    def end(self) -> None:
        self._enough.set()
        self.join()

    def _add(self, number: int, packets: int) -> None:
        at = [(number * PER_VERSION + place) * STEP_US for place in range(packets)]
        rows = {"ts": pa.array(at, pa.timestamp("us")), "address": [self._random.randrange(20) for _ in at]}
        rows["bytes"] = [self._random.randrange(40, 1500) for _ in at]
        deltalake.write_deltalake(self._table, pa.table(rows), mode="append")


class Reader:
    """Whoever reads the result. It knows nothing of plans."""

    def __init__(self) -> None:
        self.rows = 0
        self.moments: list[float] = []

    def read(self, tuples: pa.Table, batch: int) -> None:
        self.rows += tuples.num_rows
        self.moments.append(time.monotonic())


def cut_over(place: Path, seconds: float) -> dict[str, object]:
    """Run the old plan for some seconds, both, and the new one for as long; tell what was seen."""
    packets, reader = Packets(place), Reader()
    old = serving(place, lambda net: in_one_step(net, place), reader.read)
    packets.start()
    run = old.start(checkpoint=str(place / "checkpoint"), master="local[2]", buckets=2)
    try:
        wait_until(lambda: len(reader.moments) >= 3)
        time.sleep(seconds)

        since = packets.version
        complete = EPOCH + dt.timedelta(seconds=int(since * EVERY) + 1)

        def new_plan(net: Any) -> pk.Stream:
            return in_two_steps(net, place, since)

        asked = time.monotonic()
        both = run.attach(new_plan, to="merged", from_time=complete)
        wait_until(lambda: has_come_to(run, complete))
        joined = time.monotonic()
        alone = run.change(serving(place, new_plan, reader.read))
        changed = time.monotonic()
        time.sleep(seconds)
        packets.end()
        wait_until(lambda: reader.rows >= expected(place).num_rows)
    finally:
        packets.end()
        run.stop()
    pauses = [(later - earlier, earlier) for earlier, later in itertools.pairwise(reader.moments)]
    return {
        **difference(expected(place), pq.read_table(place / "out")),
        "results": reader.rows,
        "batches_of_both": (alone.batch or 0) - (both.batch or 0),
        "seconds_until_joined": round(joined - asked, 2),
        "usual_pause_s": round(sorted(pause for pause, _ in pauses)[len(pauses) // 2], 2),
        "longest_pause_at_cutover_s": round(max(p for p, at in pauses if asked - 2 < at < changed + 2), 2),
    }


def expected(place: Path) -> pa.Table:
    """What DuckDB counts over all packets, but for the last second, which stays open."""
    tables = duckdb.connect()
    tables.register("packets", deltalake.DeltaTable(str(place / "packets")).to_pyarrow_table())
    return tables.sql(
        "SELECT time_bucket(INTERVAL 1 SECOND, p.ts) AS ts, address, count(*) AS n, sum(bytes)::BIGINT AS total "
        "FROM packets p WHERE p.ts < (SELECT max(ts) - INTERVAL 1 SECOND FROM packets) "
        "GROUP BY time_bucket(INTERVAL 1 SECOND, p.ts), address"
    ).to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each plan runs alone")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = cut_over(Path(folder), given.seconds)
    print(json.dumps(found))
    sys.exit(0 if found["missing"] == found["too_many"] == 0 else 1)


if __name__ == "__main__":
    main()
