"""q4: a count per minute and pair of addresses over disordered packets, with results in Parquet.

The warm-up is 100,000 packets in sixteen files, with a window that closes. What is right: equality, both ways, with
what DuckDB counts over the same files. A native Spark query emits a window once its watermark has passed the window's
end, and leaves the last ones in its state, so it is held to the windows that end at or before the largest time minus
2 seconds; a peer that sees the end of the input is held to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Size, named
from penstock_bench.throughput import WARM_UP_FILES, Batch, answer, files, largest_us
from penstock_bench.traffic import DELAY_US, Traffic, write

WINDOW_US: Final = 60_000_000
WARM_UP_ROWS: Final = 100_000
# 1,000 packets a second make 100 s of event time: one window closes, so emission is warmed up too.
WARM_UP_RATE: Final = 1_000

COUNTS_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', ts) AS ts, srcIP, destIP, count(*) AS n
    FROM read_parquet({files}) GROUP BY ALL
"""


class FlowCounts:
    """The benchmark."""

    name = "q4"
    summary = "count per minute and address pair, packets up to 2 s late, Parquet to Parquet"
    size = Size(rows=20_000_000, groups=131_072)
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.ours:Flows", "this system"),
        Peer(
            "spark-rocksdb",
            "penstock_bench.native:RocksDBFlows",
            "Spark Structured Streaming, RocksDB state",
            sees_end=False,
        ),
        Peer(
            "spark-hdfs",
            "penstock_bench.native:HDFSFlows",
            "Spark Structured Streaming, HDFS-backed state",
            sees_end=False,
        ),
        Peer("duckdb", "penstock_bench.q4:DuckDBFlows", "one batch query, no stream, no state"),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write(Traffic(size.rows, size.groups), data / "packets", written)
        warm_up = Traffic(WARM_UP_ROWS, size.groups, rate=WARM_UP_RATE, file_rows=WARM_UP_ROWS // WARM_UP_FILES, seed=5)
        write(warm_up, data / "warm-up")
        expect(data / "packets", data / "expected.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        return answer(named(self.peers, job.peer), job, clock, folder="packets")

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        peer = named(self.peers, job.peer)
        expected = job.data / "expected.parquet"
        return difference(expected, job.data / "packets", job.scratch / "out", all_windows=peer.sees_end)


Q4: Final = FlowCounts()


class DuckDBFlows(Batch):
    def query(self, data: Path) -> str:
        return COUNTS_SQL.format(files=files(data))


def expect(packets: Path, file: Path) -> None:
    """Write what the right answer is."""
    throughput.expect(COUNTS_SQL.format(files=files(packets)), file)


def difference(expected: Path, packets: Path, out: Path, *, all_windows: bool) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are equal."""
    closed = None if all_windows else largest_us(packets) - DELAY_US
    return throughput.difference(expected, out, by=("srcIP", "destIP"), window_us=WINDOW_US, closed_us=closed)
