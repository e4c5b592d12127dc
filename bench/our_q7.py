"""Penstock's side of q7: the public API, as a user would write it."""

from __future__ import annotations

from pathlib import Path

import penstock as pk
from penstock_bench.throughput import CORES
from penstock_bench.traffic import SCHEMA

CONVERSATION = "l.srcIP = r.destIP AND l.destIP = r.srcIP AND l.srcPort = r.destPort AND l.destPort = r.srcPort"


class Matches:
    """Two inputs, a Join, an Aggregate over what it finds, one output in Parquet."""

    def __init__(self, band: int) -> None:
        self._band = f"{band} seconds"

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        net = pk.Network("q7")
        m1, m2 = (
            net.source(link, pk.files(str(data / link)), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
            for link in ("m1", "m2")
        )
        matches = m1.join(m2, CONVERSATION, on=("ts", "ts"), size=self._band)
        counts = matches.aggregate({"n": "count(*)"}, on="l_ts", size="1 minute").map(ts="l_ts", n="n")
        counts.output("matches", to=pk.parquet(str(out)))
        net.run(master=f"local[{CORES}]")

    def close(self) -> None:
        """The session ends with the process."""
