"""q9: packets of three links counted in windows of five minutes, a new one every minute.

    SELECT count(*) [RANGE 5 min, SLIDE 1 min, WA ts] FROM M1 UNION M2 UNION C

M1 and M2 are large, C carries one packet in a hundred. Whatever the number of rows, they are spread over three hours,
so that windows of an hour fill up. The cases are ranges: all peers answer with 5 minutes; ours also with 2 minutes and
with an hour, where every packet counts in 60 windows, to show what a wider range costs.

The warm-up is 102,000 packets in sixteen files a link, in which windows close. What is right: equality, both ways, with
what DuckDB counts over the same files. A native Spark query emits a window once its watermark has passed the window's
end, so it is held to the windows that end at or before the least of the links' largest times, minus 2 seconds; a peer
that sees the end of the input is held to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Size, named
from penstock_bench.throughput import WARM_UP_FILES, Batch, answer, files, largest_us
from penstock_bench.traffic import DELAY_US, Traffic, write

MINUTE_US: Final = 60_000_000
RANGES: Final[Mapping[str, int]] = {"5min": 5, "2min": 2, "60min": 60}
"""Each case's range, in minutes."""
LINKS: Final = ("m1", "m2", "c")
C_SHARE: Final = 100
"""One packet of so many is on C."""
FILES_A_LINK: Final = 10
SPAN_S: Final = 3 * 60 * 60
PAIRS: Final = 65_536
"""Pairs of addresses on a link: nobody asks for them here, but they are in the files."""
WARM_UP_ROWS: Final = 102_000
# The windows of 5 minutes that lie in the first 8 close, so emission is warmed up too.
WARM_UP_SPAN_S: Final = 10 * 60

# Every minute is counted once; a window adds the minutes that it covers.
COUNTS_SQL: Final = """
    SELECT minute - before * INTERVAL '1 minute' AS ts, sum(packets)::BIGINT AS n
    FROM (
        SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, count(*) AS packets
        FROM read_parquet([{files}]) GROUP BY ALL
    ), range({minutes}) AS window_starts(before)
    GROUP BY ALL
"""


class SlidingCounts:
    """The benchmark."""

    name = "q9"
    summary = "three links united and counted in windows of 5 minutes every minute; ours with 2 and 60 minutes too"
    size = Size(rows=100_000_000, groups=1)
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.our_q9:Counts", "this system", case="5min", arguments=(5,)),
        Peer(
            "spark-rocksdb",
            "penstock_bench.native_q9:RocksDBCounts",
            "Spark Structured Streaming, RocksDB state",
            sees_end=False,
            case="5min",
            arguments=(5,),
        ),
        Peer(
            "spark-hdfs",
            "penstock_bench.native_q9:HDFSCounts",
            "Spark Structured Streaming, HDFS-backed state",
            sees_end=False,
            case="5min",
            arguments=(5,),
        ),
        Peer(
            "spark-panes",
            "penstock_bench.native_q9:Panes",
            "Spark Structured Streaming, RocksDB state, rewritten by hand: minutes first",
            sees_end=False,
            case="5min",
            arguments=(5,),
        ),
        Peer(
            "duckdb",
            "penstock_bench.q9:DuckDBCounts",
            "one batch query, no stream, no state",
            case="5min",
            arguments=(5,),
        ),
        Peer(OURS, "penstock_bench.our_q9:Counts", "this system", case="2min", arguments=(2,)),
        Peer(OURS, "penstock_bench.our_q9:Counts", "this system", case="60min", arguments=(60,)),
    )
    growth: Sequence[tuple[str, str]] = ((f"{OURS}-60min", f"{OURS}-2min"),)

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write_links(data / "links", size.rows, written)
        write_links(data / "warm-up", WARM_UP_ROWS, span_s=WARM_UP_SPAN_S, files_a_link=WARM_UP_FILES)
        for case, minutes in RANGES.items():
            expect(data / "links", minutes, data / f"expected-{case}.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        return answer(named(self.peers, job.peer), job, clock, folder="links")

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        peer = named(self.peers, job.peer)
        expected = job.data / f"expected-{peer.case}.parquet"
        links, out = job.data / "links", job.scratch / "out"
        return difference(expected, links, out, minutes=RANGES[peer.case], all_windows=peer.sees_end)


Q9: Final = SlidingCounts()


class DuckDBCounts(Batch):
    def __init__(self, minutes: int) -> None:
        self._minutes = minutes

    def query(self, data: Path) -> str:
        return counts_sql(data, self._minutes)


def write_links(
    folder: Path,
    rows: int,
    written: Callable[[int], None] = lambda rows: None,
    *,
    span_s: int = SPAN_S,
    files_a_link: int = FILES_A_LINK,
) -> None:
    """Spread the packets over the links and `span_s` seconds. File i of every link covers the same time."""
    small = max(rows // C_SHARE, 1)
    half = max((rows - small) // 2, 1)
    for seed, (link, count) in enumerate(zip(LINKS, (half, half, small), strict=True), start=9):
        file_rows = -(-count // files_a_link)
        link_traffic = Traffic(count, PAIRS, rate=count, seconds=span_s, file_rows=file_rows, seed=seed)
        write(link_traffic, folder / link, written)


def expect(links: Path, minutes: int, file: Path) -> None:
    """Write what the right answer is."""
    throughput.expect(counts_sql(links, minutes), file)


def counts_sql(links: Path, minutes: int) -> str:
    return COUNTS_SQL.format(minutes=minutes, files=", ".join(files(links / link) for link in LINKS))


def difference(expected: Path, links: Path, out: Path, *, minutes: int, all_windows: bool) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are equal."""
    closed = None if all_windows else min(largest_us(links / link) for link in LINKS) - DELAY_US
    return throughput.difference(expected, out, window_us=minutes * MINUTE_US, closed_us=closed)
