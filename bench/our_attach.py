"""Penstock's side of `attach`: a run with a connection point, and the query that comes later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import penstock as pk
from penstock.runtime.board import Record
from penstock_bench.throughput import CORES
from penstock_bench.traffic import SCHEMA

PAST = "flows packets past"


class Attaching:
    """Counts per second; later also those of `q4`."""

    def __init__(self, share: str) -> None:
        self._share = float(share)
        self._arrivals: list[tuple[float, int]] = [(0.0, 0)]
        self._caught: float | None = None

    def start(self, folder: Path, scratch: Path) -> None:
        self._out = scratch / "out"
        net = pk.Network("attach")
        files = pk.files(str(folder), follow=True)
        packets = net.source("packets", files, schema=SCHEMA, on="ts", progress=pk.delayed("2 seconds"))
        packets = packets.connection_point("packets")
        packets.aggregate({"n": "count(*)"}, on="ts", size="1 second", name="live").output("live")
        self._run = net.start(
            master=f"local[{CORES}]", checkpoint=str(scratch / "run"), buckets=CORES, tasks=CORES, on_batch=self._note
        )
        there = len(list(folder.glob("*.parquet")))
        self._run.wait_for(lambda record: record.batch >= 0, 600)
        # The history has passed when a while has brought nothing new.
        last = -1
        while there and (read := self._arrivals[-1][1]) != last:
            last = read
            time.sleep(5.0)

    def arrivals(self) -> Sequence[tuple[float, int]]:
        return self._arrivals

    def attach(self) -> None:
        def flows(packets: pk.Stream) -> None:
            counts = packets.aggregate(
                {"n": "count(*)"}, on="ts", size="1 minute", by=["srcIP", "destIP"], name="flows"
            )
            counts.output("flows", to=pk.parquet(str(self._out)))

        self._run.attach(flows, at="packets", since="beginning", share=self._share, seconds=0)

    def caught_up(self) -> float | None:
        return self._caught

    def stop(self) -> None:
        self._run.stop()

    def _note(self, record: Record) -> None:
        now = time.monotonic()
        self._arrivals.append((now, record.inputs["packets"].read))
        past = record.shards.get(PAST, {})
        if self._caught is None and past and all(seen.ended for seen in past.values()):
            self._caught = now
