"""calls: Python functions over the tuples of a window and group.

Ten million packets at 100,000 a second of event time, each up to 2 seconds late, in windows of 10 seconds. The function
counts the packets that are longer than the window's mean: one call for every window and group, with numpy arrays of the
whole window. The cases are how many groups there are, few and many; and the same packets stepped through one by one
with `init` and `incr`, which is what the arrays spare.

What is right: equality with what DuckDB computes over the same files. Its peer is the same question as one batch query
in SQL, so it is the floor of reading and grouping, not of calling Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import penstock as pk
from penstock_bench import throughput
from penstock_bench.contract import OURS, Clock, Job, Peer, Size, named
from penstock_bench.throughput import CORES, WARM_UP_FILES, Batch, answer, files
from penstock_bench.traffic import SCHEMA, Traffic, write

WINDOW_US: Final = 10_000_000
WARM_UP_ROWS: Final = 100_000
GROUPS: Final[Mapping[str, int]] = {"few": 1 << 4, "many": 1 << 14}
"""How many pairs of addresses the packets of a case have."""
CASES: Final[Mapping[str, str]] = {"few": "few", "many": "many", "stepwise": "few"}
"""The packets that each case is about."""

LONGER_SQL: Final = """
    WITH packets AS (
        SELECT time_bucket(INTERVAL '10 seconds', ts) AS ts, srcIP, destIP, len FROM read_parquet({files})
    ), means AS (SELECT ts, srcIP, destIP, avg(len) AS mean FROM packets GROUP BY ALL)
    SELECT ts, srcIP, destIP, count(*) FILTER (len > mean) AS n
    FROM packets JOIN means USING (ts, srcIP, destIP) GROUP BY ALL
"""


class Calls:
    """The benchmark."""

    name = "calls"
    summary = "a Python function over every window and group, few and many groups; and stepwise, packet by packet"
    size = Size(rows=10_000_000, groups=0)
    peers: Sequence[Peer] = (
        *(Peer(OURS, "penstock_bench.calls:Longer", "this system", case=case, arguments=(case,)) for case in CASES),
        *(
            Peer("duckdb", "penstock_bench.calls:DuckDBLonger", "the same in SQL, one batch query", case=case)
            for case in GROUPS
        ),
    )
    growth: Sequence[tuple[str, str]] = ((f"{OURS}-stepwise", f"{OURS}-few"),)

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        for case, groups in GROUPS.items():
            write(Traffic(size.rows, groups), data / case / "packets", written)
            warm_up = Traffic(WARM_UP_ROWS, groups, rate=1_000, file_rows=WARM_UP_ROWS // WARM_UP_FILES, seed=5)
            write(warm_up, data / case / "warm-up")
            throughput.expect(LONGER_SQL.format(files=files(data / case / "packets")), data / case / "expected.parquet")

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        return answer(peer, Job(job.bench, job.peer, job.size, _data(job), job.scratch), clock, folder="packets")

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        expected, out = _data(job) / "expected.parquet", job.scratch / "out"
        return throughput.difference(expected, out, by=("srcIP", "destIP"), window_us=WINDOW_US)


CALLS: Final = Calls()


def _data(job: Job) -> Path:
    return job.data / CASES[named(CALLS.peers, job.peer).case]


class Longer:
    """One input, one Aggregate with a Python function, one output in Parquet."""

    def __init__(self, case: str) -> None:
        self._function = STEPWISE if case == "stepwise" else WHOLE

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        net = pk.Network("calls")
        packets = net.source("M", pk.files(str(data)), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
        longer = packets.aggregate({"n": self._function}, size="10 seconds", by=["srcIP", "destIP"])
        longer.output("longer", to=pk.parquet(str(out)))
        net.run(master=f"local[{CORES}]")

    def close(self) -> None:
        """The session ends with the process."""


class DuckDBLonger(Batch):
    def query(self, data: Path) -> str:
        return LONGER_SQL.format(files=files(data))


def _whole(window: Any) -> int:
    lengths = window["len"]
    return int((lengths > lengths.mean()).sum())


def _start() -> list[int]:
    return []


def _step(lengths: list[int], row: dict[str, Any]) -> list[int]:
    lengths.append(row["len"])
    return lengths


def _final(lengths: list[int]) -> int:
    mean = sum(lengths) / len(lengths)
    return sum(length > mean for length in lengths)


WHOLE: Final = pk.window_function(final=_whole, returns="int64", columns="len")
STEPWISE: Final = pk.window_function(_start, _step, _final, returns="int64", columns="len")
