"""point-query: one value of the storage key, out of all that a connection point holds.

Packets pass a connection point with the storage key `srcIP`, in a run like any other. Then the packets of one address
are counted by minute, from the point. `penstock` filters by the key, so that files and row groups are left out that
cannot have the address. `full-read` asks the same in words that no statistics can answer, `srcIP + 0 = ...`, and reads
everything. DuckDB asks the files of the point, and is the floor: it need not know the order of arrival.

Bytes are counted where they are read: all that Python processes of the run got from read calls in the timed part, by
the system's own count, so footers that are read twice, modules and notes of the run are in it. The share is that of the
bytes that the files of the point have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import deltalake
import numpy as np
import psutil
from rich.console import RenderableType
from rich.table import Table

import penstock as pk
from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.throughput import CORES, WARM_UP_FILES, Batch, files, text
from penstock_bench.traffic import SCHEMA, Traffic, address, write

MINUTE_US: Final = 60_000_000
RATE: Final = 10_000
"""Packets a second of event time."""
WARM_UP_ROWS: Final = 200_000
FULL: Final = "full-read"
MOST_SHARE, LEAST_FACTOR = 0.05, 10.0
COUNTS_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', ts) AS ts, count(*) AS n FROM read_parquet({files})
    WHERE srcIP = {key} GROUP BY ALL
"""


class PointQuery:
    """The benchmark."""

    name = "point-query"
    summary = "the packets of one storage key from a connection point, by statistics and by reading everything"
    size = Size(rows=50_000_000, groups=1 << 20)
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.point_query:Counts", "this system", arguments=("srcIP = {key}",)),
        Peer(
            FULL,
            "penstock_bench.point_query:Counts",
            "this system, by a filter that no statistics answer",
            arguments=("srcIP + 0 = {key}",),
        ),
        Peer("duckdb", "penstock_bench.point_query:DuckDBCounts", "one batch query of the files of the point"),
    )
    growth: Sequence[tuple[str, str]] = ((FULL, OURS),)

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        warm_up = Traffic(WARM_UP_ROWS, size.groups, RATE, file_rows=WARM_UP_ROWS // WARM_UP_FILES, seed=5)
        for folder, traffic in (("warm-up", warm_up), ("history", Traffic(size.rows, size.groups, RATE))):
            place = data / folder
            write(traffic, place / "packets", written if folder == "history" else lambda rows: None)
            key = key_of(size)
            if not (place / "key.json").exists():
                # In a process of its own: its session must not run beside those that are measured.
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    pool.submit(make_point, place).result()
                (place / "key.json").write_text(json.dumps(key))
            query = COUNTS_SQL.format(files=files(place / "packets"), key=key)
            throughput.expect(query, place / "expected.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        engine = named(self.peers, job.peer).load()
        clock.stage("starting")
        engine.open(job.scratch)
        clock.stage("warm-up")
        engine.run(job.data / "warm-up", job.scratch / "warm-up")
        before = bytes_read()
        clock.start()
        engine.run(job.data / "history", job.scratch / "out")
        clock.stop()
        read, held = bytes_read() - before, point_bytes(job.data / "history")
        engine.close()
        return {"read_bytes": read, "point_bytes": held, "share": read / held}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return throughput.difference(
            job.data / "history" / "expected.parquet", job.scratch / "out", window_us=MINUTE_US
        )

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What each has read, and what that comes to."""
        read = {name: {**run.detail, "seconds": run.seconds} for name, run in results.items()}
        aims = []
        if OURS in results:
            aims.append({"what": "bytes read", "found": read[OURS]["share"], "aim": f"at most {MOST_SHARE:.0%}"})
        if OURS in results and FULL in results:
            factor = results[FULL].seconds / results[OURS].seconds
            aims.append({"what": "times faster than a full read", "found": factor, "aim": f"at least {LEAST_FACTOR:g}"})
        return {"point_query": {"read": read, "aims": aims}}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        told = found["point_query"]
        shown = Table(title="what was read of the point", title_justify="left")
        for heading in ("peer", "seconds", "MB read", "MB in the point", "share"):
            shown.add_column(heading, justify="left" if heading == "peer" else "right")
        for name, own in told["read"].items():
            sizes = (f"{own[part] / 1e6:,.1f}" for part in ("read_bytes", "point_bytes"))
            shown.add_row(name, f"{own['seconds']:.2f}", *sizes, f"{own['share']:.1%}")
        aims = Table(title="aims", title_justify="left")
        for heading in ("what", "found", "aim"):
            aims.add_column(heading)
        for aim in told["aims"]:
            value = f"{aim['found']:.1%}" if aim["found"] < 1 else f"{aim['found']:.1f}"
            aims.add_row(aim["what"], value, aim["aim"])
        return shown, aims


POINT_QUERY: Final = PointQuery()


class Counts:
    """The point as an input, a filter, an Aggregate, and an output in Parquet."""

    def __init__(self, condition: str) -> None:
        self._condition = condition

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        key = json.loads((data / "key.json").read_text())
        net = pk.Network("point-query")
        packets = net.source("packets", pk.connection_point(str(data / "point")))
        mine = packets.where(self._condition.format(key=key))
        mine.aggregate({"n": "count(*)"}, on="ts", size="1 minute").output("counts", to=pk.parquet(str(out)))
        net.run(master=f"local[{CORES}]")

    def close(self) -> None:
        """The session ends with the process."""


class DuckDBCounts(Batch):
    def query(self, data: Path) -> str:
        uris = deltalake.DeltaTable(str(data / "point")).file_uris()
        listed = "[" + ", ".join(text(Path(uri.removeprefix("file://"))) for uri in uris) + "]"
        return COUNTS_SQL.format(files=listed, key=json.loads((data / "key.json").read_text()))


def key_of(size: Size) -> int:
    """An address that packets have."""
    return int(address(np.array([17 % max(1, int(size.groups**0.5))]))[0])


def make_point(place: Path) -> None:
    """Let packets pass a connection point."""
    net = pk.Network("history")
    packets = net.source(
        "packets", pk.files(str(place / "packets")), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds")
    )
    packets.connection_point("point", path=str(place / "point"), key="srcIP")
    net.run(master=f"local[{CORES}]", durability="process")


def point_bytes(place: Path) -> int:
    """What the files of a point have, in bytes."""
    return sum(deltalake.DeltaTable(str(place / "point")).get_add_actions(flatten=True)["size_bytes"].to_pylist())


def bytes_read() -> int:
    """What this process and those that it has started have got from read calls, but for Java's."""
    here = psutil.Process()
    total = 0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):
            if process.name() != "java":
                total += process.io_counters().read_chars
    return total
