"""High availability: one query runs twice, a copy is killed, and the result misses nothing.

Two processes count packets per half second and address, each on its own, and each writes its counts to a Delta table
of its own. This process merges both tables into one stream with `pk.lmerge`. While packets come in, one copy is killed
with SIGKILL at a random moment, and started again some seconds later. In the end the merged counts are compared with
what DuckDB counts over all packets.

    python examples/merging/high_availability.py                one kill
    python examples/merging/high_availability.py --kills 10     ten, one after the other

"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from checking import difference, wait_until

import penstock as pk

COPIES = ("left", "right")
WINDOW = "500 milliseconds"
EVERY = 0.25
"""Seconds between two files of packets."""
PER_FILE = 250
STEP_US = int(EVERY * 1e6) // PER_FILE
SCHEMA = {"ts": "timestamp[us]", "address": "int64", "bytes": "int64"}
AWAY, SETTLE = 6.0, 5.0


def counting(place: Path, copy: str) -> pk.Network:
    """The query: packets and bytes per window and address."""
    net = pk.Network(f"counting-{copy}")
    files = pk.files(str(place / "packets"), follow=True)
    packets = net.source("packets", files, schema=SCHEMA, on="ts", progress=pk.delayed("200 milliseconds"))
    counts = packets.aggregate({"n": "count(*)", "total": "sum(bytes)"}, on="ts", size=WINDOW, by="address")
    counts.output("counts", to=pk.delta(str(place / copy)))
    return net


def merging(place: Path, seen: list[tuple[float, int]]) -> pk.Network:
    """Both copies of the counts as one stream."""
    net = pk.Network("merging")
    copies = [
        net.source(copy, pk.delta(str(place / copy), follow=True), schema=counts_schema(), on="ts") for copy in COPIES
    ]
    merged = pk.lmerge(*copies, name="merged")
    merged.output("counts", to=pk.parquet(str(place / "merged")))
    merged.output("watched", to=pk.callback(lambda tuples, batch: seen.append((time.monotonic(), tuples.num_rows))))
    return net


def counts_schema() -> dict[str, str]:
    return {"ts": "timestamp[us]", "address": "int64", "n": "int64", "total": "int64"}


class Packets(threading.Thread):
    """Writes a file of packets every quarter of a second, until it is told to end."""

    def __init__(self, place: Path) -> None:
        super().__init__(daemon=True)
        self._folder = place / "packets"
        self._hidden = place / "hidden"
        self._folder.mkdir()
        self._hidden.mkdir()
        self._enough = threading.Event()
        self._random = random.Random(1)

    def run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._enough.wait(max(0.0, due - time.monotonic())):
            self._write(number, range(PER_FILE))
            due, number = due + EVERY, number + 1
        # A last packet, a minute on: so that all windows before it close.
        self._write(number + int(60 / EVERY), range(1))

    def end(self) -> None:
        self._enough.set()
        self.join()

    def _write(self, number: int, places: range) -> None:
        at = [(number * PER_FILE + place) * STEP_US for place in places]
        rows = {"ts": pa.array(at, pa.timestamp("us")), "address": [self._random.randrange(20) for _ in at]}
        rows["bytes"] = [self._random.randrange(40, 1500) for _ in at]
        file = self._hidden / f"{number:06d}.parquet"
        pq.write_table(pa.table(rows), file)
        file.rename(self._folder / file.name)


def begin(place: Path, copy: str) -> subprocess.Popen[bytes]:
    """Start a copy, in a session of its own, so that all of it can be killed: driver, JVM and workers."""
    arguments = [sys.executable, __file__, "--copy", copy, "--place", str(place)]
    with (place / f"{copy}.log").open("ab") as log:
        return subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)


def commits(place: Path, copy: str) -> int:
    """How many times a copy has written to its table so far."""
    return max((int(file.stem) for file in (place / copy / "_delta_log").glob("*.json")), default=0)


def run_copy(place: Path, copy: str) -> None:
    """Count until the process is killed."""
    counting(place, copy).start(checkpoint=str(place / f"{copy}-checkpoint"), master="local[1]", buckets=1).wait()


def merge_under_kills(place: Path, kills: int, seed: int, away: float, settle: float) -> dict[str, object]:
    """Run both copies and the merge, kill copies, and tell what was seen."""
    chance = random.Random(seed)
    packets, seen = Packets(place), list[tuple[float, int]]()
    copies = {copy: begin(place, copy) for copy in COPIES}
    packets.start()
    run = merging(place, seen).start(checkpoint=str(place / "merging-checkpoint"), master="local[1]", buckets=2)
    try:
        wait_until(lambda: all((place / copy / "_delta_log").exists() for copy in COPIES) and len(seen) > 2)
        time.sleep(settle)
        began, killed = time.monotonic(), []
        for number in range(kills):
            time.sleep(chance.uniform(0.0, 2.0))
            copy = COPIES[number % len(COPIES)]
            os.killpg(copies[copy].pid, signal.SIGKILL)
            copies[copy].wait()
            killed.append(time.monotonic())
            print(f"killed '{copy}'", flush=True)
            time.sleep(away)
            told = commits(place, copy)
            copies[copy] = begin(place, copy)
            # With the other one killed before this one is back, there would be nobody to go on.
            wait_until(lambda copy=copy, told=told: commits(place, copy) > told + 1)
            time.sleep(settle)
        ended = time.monotonic()
        packets.end()
        total = expected(place).num_rows
        wait_until(lambda: sum(rows for _, rows in seen) >= total)
    finally:
        run.stop()
        for process in copies.values():
            # They survive that: whoever starts them again finds them where they were.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    times = [at for at, _ in seen if began <= at <= ended]
    pauses = [(later - earlier, earlier) for earlier, later in itertools.pairwise(times)]
    near = [pause for pause, at in pauses if any(moment - 1.5 < at < moment + away for moment in killed)]
    return {
        **difference(expected(place), pq.read_table(place / "merged")),
        "kills": kills,
        "results": sum(rows for _, rows in seen),
        "usual_pause_s": round(sorted(pause for pause, _ in pauses)[len(pauses) // 2], 3),
        "longest_pause_at_kills_s": round(max(near, default=0.0), 3),
        "longest_pause_s": round(max(pause for pause, _ in pauses), 3),
    }


def expected(place: Path) -> pa.Table:
    """What DuckDB counts over all packets, but for the last one, whose window stays open."""
    packets, start = f"'{place}/packets/*.parquet'", f"time_bucket(INTERVAL '{WINDOW}', p.ts)"
    return duckdb.sql(
        f"SELECT {start} AS ts, address, count(*) AS n, sum(bytes)::BIGINT AS total "
        f"FROM {packets} p WHERE p.ts < (SELECT max(ts) FROM {packets}) GROUP BY {start}, address"
    ).to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1, help="how many times a copy is killed")
    parser.add_argument(
        "--away", type=float, default=AWAY, help="seconds until a copy that was killed is started again"
    )
    parser.add_argument("--settle", type=float, default=SETTLE, help="seconds after its return until the next kill")
    parser.add_argument("--seed", type=int, default=1, help="which moments are random")
    parser.add_argument("--place", help="where the files are; a new temporary folder if not given")
    parser.add_argument("--copy", choices=COPIES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.copy:
        run_copy(Path(given.place), given.copy)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = merge_under_kills(Path(given.place or folder), given.kills, given.seed, given.away, given.settle)
    print(json.dumps(found))
    sys.exit(0 if found["missing"] == found["too_many"] == 0 else 1)


if __name__ == "__main__":
    main()
