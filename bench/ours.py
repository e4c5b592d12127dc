"""Penstock's side of the benchmarks: the public API, as a user would write it."""

from __future__ import annotations

from pathlib import Path

import penstock as pk
from penstock_bench.throughput import CORES
from penstock_bench.traffic import SCHEMA


class Flows:
    """q4 as a network: one input, one Aggregate, one output in Parquet."""

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        net = pk.Network("q4")
        packets = net.source("M", pk.files(str(data)), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
        flows = packets.aggregate({"n": "count(*)"}, on="ts", size="1 minute", by=["srcIP", "destIP"])
        flows.output("flows", to=pk.parquet(str(out)))
        net.run(master=f"local[{CORES}]")

    def close(self) -> None:
        """The session ends with the process."""


class WatchedFlows:
    """The same, started, watched until the packets have ended and nothing waits any more, and stopped."""

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        net = pk.Network("q4")
        packets = net.source("M", pk.files(str(data)), schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
        flows = self._links(net, packets).aggregate({"n": "count(*)"}, on="ts", size="1 minute", by=["srcIP", "destIP"])
        flows.output("flows", to=pk.parquet(str(out)))
        run = net.start(master=f"local[{CORES}]")
        run.wait_for(lambda r: "M" in r.shards and r.shards["M"]["0"].ended and not r.waiting, 600)
        run.stop()

    def close(self) -> None:
        """The session ends with the process."""

    def _links(self, net: pk.Network, packets: pk.Stream) -> pk.Stream:
        return packets


class FlowsWithHeartbeats(WatchedFlows):
    """United with a link that is silent and speaks by a heartbeat every second: it holds windows back.

    That link never ends, which is why the run is watched.
    """

    def open(self, scratch: Path) -> None:
        self._silent = scratch / "control"
        self._silent.mkdir()

    def _links(self, net: pk.Network, packets: pk.Stream) -> pk.Stream:
        silent = pk.files(str(self._silent / "*.parquet"), follow=True)
        control = net.source("control", silent, schema=SCHEMA, on="ts", progress=pk.heartbeat(every="1 second"))
        return pk.union(packets, control)
