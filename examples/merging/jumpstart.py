"""Jumpstart: a query with long windows is started late, and is complete at once.

Packets come in, a minute of them every 0.3 seconds. One network has kept them in a connection point. Then somebody
wants to know the bytes of every address in the last 40 minutes, minute by minute. A query that starts with the live
packets alone is wrong for its first 40 minutes, as it lacks what was before. So the query merges two copies of the
stream: the history, from the connection point, and the live packets, which join when the result has come to where they
began. Then the history is not needed any more: the network is changed to one that has the live packets alone, and the
one that kept the history is stopped. All sums are compared with those of DuckDB over all packets.

    python examples/merging/jumpstart.py

"""

from __future__ import annotations

import argparse
import datetime as dt
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

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from checking import has_come_to, wait_until

import penstock as pk

EVERY = 0.3
"""Seconds in which a minute passes."""
PER_MINUTE = 120
WINDOW = 40
"""Minutes."""
BEFORE = 60
"""Minutes that have passed before the query is started."""
AFTER = 8
"""Minutes that both queries go on after the second one could be complete."""
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = {"ts": "timestamp[us]", "address": "int64", "bytes": "int64"}


class Packets(threading.Thread):
    """Writes a file of packets for every minute: those who collect get all of them, others from when they subscribe."""

    def __init__(self, place: Path) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._random = random.Random(1)
        self._enough = threading.Event()
        self._turn = threading.Lock()
        self._folders = ["packets"]
        for folder in ("packets", "live", "hidden"):
            (place / folder).mkdir()
        self.minute = 0
        """The minute that comes next."""
        self.count = BEFORE * PER_MINUTE
        """Packets that are there before it starts."""
        while self.minute < BEFORE:
            self._write(self.minute, PER_MINUTE)

    def run(self) -> None:
        due = time.monotonic()
        while not self._enough.wait(max(0.0, due - time.monotonic())):
            self._write(self.minute, PER_MINUTE)
            due += EVERY
        # A last packet, a day on: so that all windows before it close.
        self._write(self.minute + 24 * 60, 1)

    def subscribe(self) -> dt.datetime:
        """Send live packets, too; tells from when on there are all of them."""
        with self._turn:
            self._folders.append("live")
            return EPOCH + dt.timedelta(minutes=self.minute)

    def end(self) -> None:
        self._enough.set()
        if self.is_alive():
            self.join()

    def _write(self, minute: int, count: int) -> None:
        with self._turn:
            at = [(minute * 60 * PER_MINUTE + place * 60) * 1_000_000 // PER_MINUTE for place in range(count)]
            rows = {"ts": pa.array(at, pa.timestamp("us")), "address": [self._random.randrange(5) for _ in at]}
            rows["bytes"] = [self._random.randrange(40, 1500) for _ in at]
            for folder in self._folders:
                file = self._place / "hidden" / f"{minute:06d}.parquet"
                pq.write_table(pa.table(rows), file)
                file.rename(self._place / folder / file.name)
            self.minute += 1


class Reader:
    """Notes every sum, and when it came."""

    def __init__(self) -> None:
        self.sums: list[dict[str, Any]] = []

    def read(self, tuples: pa.Table, batch: int) -> None:
        now = time.monotonic()
        self.sums += [row | {"came": now} for row in tuples.to_pylist()]


def collecting(place: Path) -> pk.Network:
    """Keeps all packets."""
    net = pk.Network("collecting")
    packets = net.source("packets", pk.files(str(place / "packets"), follow=True), schema=SCHEMA, on="ts")
    packets.connection_point("kept", path=str(place / "kept"))
    return net


def kept(net: Any, place: Path) -> pk.Stream:
    """The history, and what is added to it."""
    stream: pk.Stream = net.source("history", pk.connection_point(str(place / "kept"), follow=True), on="ts")
    return stream


def live(net: Any, place: Path) -> pk.Stream:
    """The packets since somebody has subscribed to them."""
    files = pk.files(str(place / "live"), follow=True)
    stream: pk.Stream = net.source("live", files, schema=SCHEMA, on="ts", progress=pk.ordered())
    return stream


def summing(name: str, packets: Callable[[pk.Network], pk.Stream], reader: Reader) -> pk.Network:
    """The query. No two packets have the same time: so R3 is enough, whoever brings them."""
    net = pk.Network(name)
    merged = pk.lmerge(packets(net), case="R3", name="merged")
    size, advance = f"{WINDOW} minutes", "1 minute"
    sums = merged.aggregate({"total": "sum(bytes)"}, on="ts", size=size, advance=advance, by="address", name="sums")
    sums.output("sums", to=pk.callback(reader.read))
    return net


def start_late(place: Path) -> dict[str, object]:
    """Start the query late, with the history and without it, and tell when each was complete."""
    packets, quick, empty = Packets(place), Reader(), Reader()
    runs = []
    try:
        collector = collecting(place).start(checkpoint=str(place / "collecting"), master="local[2]", buckets=1)
        runs.append(collector)
        collector.wait_for(lambda record: "packets" in record.inputs and record.inputs["packets"].read >= packets.count)

        began, since = time.monotonic(), packets.subscribe()
        packets.start()
        run = summing("quick", lambda net: kept(net, place), quick).start(checkpoint=str(place / "quick"), buckets=1)
        runs.append(run)
        other = summing("empty", lambda net: live(net, place), empty).start(checkpoint=str(place / "empty"), buckets=1)
        runs.append(other)
        run.attach(lambda net: live(net, place), to="merged", from_time=since, name="live")
        wait_until(lambda: has_come_to(run, since))
        run.change(summing("quick", lambda net: live(net, place), quick))
        runs.remove(collector)
        collector.stop()

        last = since + dt.timedelta(minutes=AFTER)
        wait_until(lambda: all(any(row["ts"] > last for row in reader.sums) for reader in (quick, empty)))
        packets.end()
        right = expected(place)
        wait_until(lambda: len(quick.sums) >= len(right))
    finally:
        packets.end()
        for each in runs:
            each.stop()
    found = {(row["ts"], row["address"]): row["total"] for row in quick.sums}
    return {
        "missing": len(right.keys() - found.keys()),
        "wrong": sum(right.get(key) != total for key, total in found.items()) + len(quick.sums) - len(found),
        "results": len(quick.sums),
        "wrong_of_the_empty_one": sum(right.get((row["ts"], row["address"])) != row["total"] for row in empty.sums),
        "first_complete_after_s": first_complete(quick, right, since, began),
        "first_complete_of_the_empty_one_after_s": first_complete(empty, right, since, began),
    }


def first_complete(reader: Reader, right: dict[Any, int], since: dt.datetime, began: float) -> float:
    """When the first right sum came whose window ends after the query was started."""
    ends = since - dt.timedelta(minutes=WINDOW)
    came = (r["came"] for r in reader.sums if r["ts"] > ends and right.get((r["ts"], r["address"])) == r["total"])
    return round(min(came) - began, 2)


def expected(place: Path) -> dict[Any, int]:
    """What DuckDB adds up over all packets but the last, whose windows stay open."""
    packets = f"'{place}/packets/*.parquet'"
    found = duckdb.sql(
        f"SELECT time_bucket(INTERVAL 1 MINUTE, p.ts) - to_minutes(back) AS w, address, sum(bytes)::BIGINT "
        f"FROM {packets} p, range({WINDOW}) r(back) WHERE p.ts < (SELECT max(ts) FROM {packets}) GROUP BY w, address"
    )
    return {(begin, address): total for begin, address, total in found.fetchall()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = start_late(Path(folder))
    print(json.dumps(found))
    sys.exit(0 if found["missing"] == found["wrong"] == 0 else 1)


if __name__ == "__main__":
    main()
