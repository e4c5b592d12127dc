"""q7: packets of one link matched with replies on another within a band of time, counted per minute.

    SELECT count(*) [RANGE 1 min, SLIDE 1 min, WA M1.ts] FROM M1, M2
    WHERE M1.ts >= M2.ts - n AND M1.ts <= M2.ts + n
      AND M1.srcIP = M2.destIP AND M1.destIP = M2.srcIP AND M1.srcPort = M2.destPort AND M1.destPort = M2.srcPort

The cases are bands n of 1, 10 and 60 seconds over the same packets; `rows` are those of both links, half on each.

The warm-up is 200,000 packets in sixteen files a link, in which windows close in every band. What is right: equality,
both ways, with what DuckDB joins and counts over the same files. A native Spark query emits a window once no match for
it can come any more, which is when its watermark has passed the window's end by the band, so it is held to those
windows; a peer that sees the end of the input is held to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Size, named
from penstock_bench.conversations import Replies, Requests
from penstock_bench.throughput import WARM_UP_FILES, Batch, answer, files, largest_us
from penstock_bench.traffic import DELAY_US, write

WINDOW_US: Final = 60_000_000
BANDS: Final[Mapping[str, int]] = {"1s": 1, "10s": 10, "60s": 60}
"""Each case's band, in seconds."""
WARM_UP_ROWS: Final = 100_000
# 200 s of event time a link: the window of the second minute closes even in the widest band.
WARM_UP_RATE: Final = 500

MATCHES_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', m1.ts) AS ts, count(*) AS n
    FROM read_parquet({m1}) AS m1 JOIN read_parquet({m2}) AS m2
    ON m1.srcIP = m2.destIP AND m1.destIP = m2.srcIP AND m1.srcPort = m2.destPort AND m1.destPort = m2.srcPort
    AND m1.ts >= m2.ts - INTERVAL '{band} seconds' AND m1.ts <= m2.ts + INTERVAL '{band} seconds'
    GROUP BY ALL
"""


def _peers(case: str) -> Sequence[Peer]:
    band = (BANDS[case],)
    return (
        Peer(OURS, "penstock_bench.our_q7:Matches", "this system", case=case, arguments=band),
        Peer(
            "spark-rocksdb",
            "penstock_bench.native_q7:RocksDBMatches",
            "Spark Structured Streaming, RocksDB state",
            sees_end=False,
            case=case,
            arguments=band,
        ),
        Peer(
            "spark-hdfs",
            "penstock_bench.native_q7:HDFSMatches",
            "Spark Structured Streaming, HDFS-backed state",
            sees_end=False,
            case=case,
            arguments=band,
        ),
        Peer(
            "duckdb",
            "penstock_bench.q7:DuckDBMatches",
            "one batch query, no stream, no state",
            case=case,
            arguments=band,
        ),
    )


class BandJoin:
    """The benchmark."""

    name = "q7"
    summary = "two links joined within 1, 10 and 60 s on addresses and ports, matches counted per minute"
    size = Size(rows=10_000_000, groups=400_000)
    peers: Sequence[Peer] = tuple(peer for case in BANDS for peer in _peers(case))
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write_links(data / "links", size.rows, size.groups, written)
        write_links(data / "warm-up", 2 * WARM_UP_ROWS, size.groups, rate=WARM_UP_RATE, files_a_link=WARM_UP_FILES)
        for case, band in BANDS.items():
            expect(data / "links", band, data / f"expected-{case}.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        return answer(named(self.peers, job.peer), job, clock, folder="links")

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        peer = named(self.peers, job.peer)
        expected = job.data / f"expected-{peer.case}.parquet"
        band = None if peer.sees_end else BANDS[peer.case]
        return difference(expected, job.data / "links", job.scratch / "out", band=band)


Q7: Final = BandJoin()


class DuckDBMatches(Batch):
    def __init__(self, band: int) -> None:
        self._band = band

    def query(self, data: Path) -> str:
        return matches_sql(data, self._band)


def write_links(
    folder: Path,
    rows: int,
    groups: int,
    written: Callable[[int], None] = lambda rows: None,
    *,
    rate: int = 5_000,
    files_a_link: int = 20,
) -> None:
    """Half of the packets on each link."""
    half = max(rows // 2, 1)
    write(Requests(half, groups, rate=rate, file_rows=-(-half // files_a_link)), folder / "m1", written)
    write(Replies(half, groups, rate=rate, file_rows=-(-half // files_a_link)), folder / "m2", written)


def expect(links: Path, band: int, file: Path) -> None:
    """Write what the right answer is."""
    throughput.expect(matches_sql(links, band), file)


def matches_sql(links: Path, band: int) -> str:
    return MATCHES_SQL.format(m1=files(links / "m1"), m2=files(links / "m2"), band=band)


def difference(expected: Path, links: Path, out: Path, *, band: int | None) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are equal.

    With `band`, only the windows for which no match can come any more are asked for.
    """
    closed = None
    if band is not None:
        closed = min(largest_us(links / "m1"), largest_us(links / "m2")) - DELAY_US - band * 1_000_000
    return throughput.difference(expected, out, window_us=WINDOW_US, closed_us=closed)
