"""Penstock's side of q9: the public API, as a user would write it."""

from __future__ import annotations

from pathlib import Path

import penstock as pk
from penstock_bench.q9 import LINKS
from penstock_bench.throughput import CORES
from penstock_bench.traffic import SCHEMA


class Counts:
    """Three inputs, a Union, one Aggregate over sliding windows, one output in Parquet."""

    def __init__(self, minutes: int) -> None:
        self._range = f"{minutes} minutes"

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        net = pk.Network("q9")
        m1, m2, c = (
            net.source(link, pk.files(str(data / link)), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
            for link in LINKS
        )
        counts = pk.union(m1, m2, c).aggregate({"n": "count(*)"}, on="ts", size=self._range, advance="1 minute")
        counts.output("counts", to=pk.parquet(str(out)))
        net.run(master=f"local[{CORES}]")

    def close(self) -> None:
        """The session ends with the process."""
