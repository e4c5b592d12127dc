"""What the benchmarks of throughput share: one query, Parquet to Parquet, timed as a whole and held against DuckDB.

What is timed, for every peer alike: from the start of the query to the last result committed. Before that, in the same
process and session, each peer has answered the same query over a small separate set, so that nobody pays for starting a
JVM or a first query inside the timed part; and the data are in the memory of the system, so that nobody waits for a
disk. Every run has a fresh process tree, two cores, and its own checkpoint; peers
take turns, and the best round counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb

from penstock_bench.contract import Clock, Job, Peer

CORES: Final = 2
WARM_UP_FILES: Final = 16  # more than one batch for every peer
_BLOCK: Final = 1 << 22


class Engine(Protocol):
    """A peer at work."""

    def open(self, scratch: Path) -> None:
        """Bring the session up."""

    def run(self, data: Path, out: Path) -> None:
        """Answer the query over a folder of data; returns when the last result is committed, as Parquet, under `out`.

        The results have the columns ts (the window's start), those of the group, and n.
        """

    def close(self) -> None:
        """Free what is held."""


class Batch:
    """The floor of what a query costs: DuckDB, one pass, no stream. `query` makes it from a folder of data."""

    def query(self, data: Path) -> str:
        raise NotImplementedError

    def open(self, scratch: Path) -> None:
        self._connection = connect()

    def run(self, data: Path, out: Path) -> None:
        out.mkdir(parents=True)
        self._connection.execute(f"COPY ({self.query(data)}) TO {text(out / 'results.parquet')} (FORMAT parquet)")

    def close(self) -> None:
        self._connection.close()


def answer(peer: Peer, job: Job, clock: Clock, *, folder: str) -> Mapping[str, Any]:
    """Put a peer to work on `folder` of the job's data, after a warm-up; its results are then under `out`.

    An engine that has something to say of its last run says it with `told`.
    """
    engine: Engine = peer.load()
    clock.stage("starting")
    engine.open(job.scratch)
    clock.stage("warm-up")
    engine.run(job.data / "warm-up", job.scratch / "warm-up")
    _bring_into_memory(job.data / folder)
    clock.start()
    engine.run(job.data / folder, job.scratch / "out")
    clock.stop()
    engine.close()
    return engine.told() if hasattr(engine, "told") else {}


def _bring_into_memory(folder: Path) -> None:
    """Have the system keep the data in memory: else who comes first, or after a pause, would wait for the disk."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb", buffering=0) as content:
            while content.read(_BLOCK):
                pass


def expect(query: str, file: Path) -> None:
    """Write what the right answer is."""
    with connect() as connection:
        connection.execute(f"COPY ({query}) TO {text(file)} (FORMAT parquet)")


def difference(
    expected: Path, out: Path, *, by: Sequence[str] = (), window_us: int, closed_us: int | None = None
) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are equal.

    A peer that does not see the end of the input is held to the windows that end at or before `closed_us`.
    """
    if not any(out.rglob("*.parquet")):
        return "no results at all"
    columns = ", ".join(("epoch_us(ts) AS start", *by, "n"))
    results = text(out / "**" / "*.parquet")
    with connect() as connection:
        connection.execute(
            f"CREATE TABLE got AS SELECT {columns} FROM read_parquet({results}, hive_partitioning=false)"
        )
        connection.execute(f"CREATE TABLE want AS SELECT {columns} FROM read_parquet({text(expected)})")
        if closed_us is not None:
            connection.execute(f"DELETE FROM want WHERE start + {window_us} > {closed_us}")
        if one(connection, "SELECT count(*) FROM want") == 0:
            return "no window closes in so few rows: nothing to compare"
        missing = one(connection, "SELECT count(*) FROM (FROM want EXCEPT ALL FROM got)")
        extra = one(connection, "SELECT count(*) FROM (FROM got EXCEPT ALL FROM want)")
    return f"{missing} results missing or wrong, {extra} that should not be there" if missing or extra else None


def largest_us(folder: Path) -> int:
    """The largest time in a folder of packets."""
    with connect() as connection:
        return one(connection, f"SELECT epoch_us(max(ts)) FROM read_parquet({files(folder)})")


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": CORES})
    connection.execute("SET enable_progress_bar = false")  # the benchmark has one of its own
    return connection


def one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def files(folder: Path) -> str:
    """The packets of a folder, as SQL text."""
    return text(folder / "*.parquet")


def text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
