"""q4: a count per minute and pair of addresses over disordered packets, with results in Parquet.

What is timed, for every peer alike: from the start of the query to the last result committed. Before that, in the same
process and session, each peer has answered the same query over a small separate set (100,000 packets in sixteen files,
with a window that closes), so that nobody pays for starting a JVM or a first query inside the timed part. Every run
has a fresh process tree, two cores, and its own checkpoint; peers take turns, and the best round counts.

What is right: equality, both ways, with what DuckDB counts over the same files. A native Spark query emits a window
once its watermark has passed the window's end, and leaves the last ones in its state, so it is held to the windows that
end at or before the largest time minus 2 seconds; a peer that sees the end of the input is held to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb

from penstock_bench.contract import OURS, Clock, Job, Peer, Size
from penstock_bench.traffic import DELAY_US, Traffic, write

WINDOW_US: Final = 60_000_000
CORES: Final = 2
WARM_UP_ROWS: Final = 100_000
WARM_UP_FILES: Final = 16  # more than one batch for every peer
# 1,000 packets a second make 100 s of event time: one window closes, so emission is warmed up too.
WARM_UP_RATE: Final = 1_000

COUNTS_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', ts) AS ts, srcIP, destIP, count(*) AS n
    FROM read_parquet({files}) GROUP BY ALL
"""


class Engine(Protocol):
    """A peer at work."""

    def open(self, scratch: Path) -> None:
        """Bring the session up."""

    def run(self, data: Path, out: Path) -> None:
        """Answer the query over a folder of packets; returns when the last result is committed under `out`.

        The results are Parquet files with the columns ts (the window's start), srcIP, destIP, n.
        """

    def close(self) -> None:
        """Free what is held."""


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

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write(Traffic(size.rows, size.groups), data / "packets", written)
        warm_up = Traffic(WARM_UP_ROWS, size.groups, rate=WARM_UP_RATE, file_rows=WARM_UP_ROWS // WARM_UP_FILES, seed=5)
        write(warm_up, data / "warm-up")
        expect(data / "packets", data / "expected.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = next(peer for peer in self.peers if peer.name == job.peer)
        engine: Engine = peer.load()
        clock.stage("starting")
        engine.open(job.scratch)
        clock.stage("warm-up")
        engine.run(job.data / "warm-up", job.scratch / "warm-up")
        clock.start()
        engine.run(job.data / "packets", job.scratch / "out")
        clock.stop()
        engine.close()
        return {}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        peer = next(peer for peer in self.peers if peer.name == job.peer)
        expected = job.data / "expected.parquet"
        return difference(expected, job.data / "packets", job.scratch / "out", all_windows=peer.sees_end)


Q4: Final = FlowCounts()


class DuckDBFlows:
    """The floor of what the query costs: one pass, in memory, no stream."""

    def open(self, scratch: Path) -> None:
        self._scratch = scratch
        self._connection = _connect()

    def run(self, data: Path, out: Path) -> None:
        out.mkdir(parents=True)
        counts = COUNTS_SQL.format(files=_files(data))
        self._connection.execute(f"COPY ({counts}) TO {_text(out / 'flows.parquet')} (FORMAT parquet)")

    def close(self) -> None:
        self._connection.close()


def expect(packets: Path, file: Path) -> None:
    """Write what the right answer is."""
    with _connect() as connection:
        connection.execute(f"COPY ({COUNTS_SQL.format(files=_files(packets))}) TO {_text(file)} (FORMAT parquet)")


def difference(expected: Path, packets: Path, out: Path, *, all_windows: bool) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are equal."""
    if not any(out.rglob("*.parquet")):
        return "no results at all"
    columns = "epoch_us(ts) AS start, srcIP, destIP, n"
    results = _text(out / "**" / "*.parquet")
    with _connect() as connection:
        connection.execute(
            f"CREATE TABLE got AS SELECT {columns} FROM read_parquet({results}, hive_partitioning=false)"
        )
        connection.execute(f"CREATE TABLE want AS SELECT {columns} FROM read_parquet({_text(expected)})")
        if not all_windows:
            largest = _one(connection, f"SELECT epoch_us(max(ts)) FROM read_parquet({_files(packets)})")
            connection.execute(f"DELETE FROM want WHERE start + {WINDOW_US} > {largest - DELAY_US}")
        if _one(connection, "SELECT count(*) FROM want") == 0:
            return "no window closes in so few rows: nothing to compare"
        missing = _one(connection, "SELECT count(*) FROM (FROM want EXCEPT ALL FROM got)")
        extra = _one(connection, "SELECT count(*) FROM (FROM got EXCEPT ALL FROM want)")
    return f"{missing} results missing or wrong, {extra} that should not be there" if missing or extra else None


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": CORES})
    connection.execute("SET enable_progress_bar = false")  # the benchmark has one of its own
    return connection


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _files(folder: Path) -> str:
    return _text(folder / "*.parquet")


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
