"""Penstock's side of `floor`: the same windowed count over the same files, as one stage and as two."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import penstock as pk
from penstock_bench.floor import SCHEMA, Result
from penstock_bench.throughput import CORES


class OneStage:
    """A global count: low-level halves in the intake, one stage."""

    suffix = ".json"
    durability = "power"
    way = "auto"

    def start(self, folder: Path, scratch: Path) -> None:
        self._out = scratch / "out"
        self._seen: dict[str, list[Result]] = {}
        net = pk.Network("floor")
        tuples = net.source("in", pk.files(str(folder), "jsonl", follow=True), schema=SCHEMA, progress=pk.ordered())
        self._counts(tuples).output("counts", to=pk.jsonl(str(self._out)))
        self._run = net.start(
            master=f"local[{CORES}]",
            checkpoint=str(scratch / "run"),
            buckets=CORES,
            tasks=CORES,
            durability=self.durability,
            way=self.way,
        )
        self.checkpoint = scratch / "run" / "spark"

    def results(self) -> Sequence[Result]:
        for name in os.listdir(self._out):
            if name.endswith(".jsonl") and name not in self._seen:
                rows = [json.loads(line) for line in (self._out / name).read_text().splitlines()]
                self._seen[name] = [Result(int(datetime.fromisoformat(r["ts"]).timestamp()), r["n"]) for r in rows]
        return [result for results in self._seen.values() for result in results]

    def progress(self) -> Sequence[Mapping[str, Any]]:
        # Every batch of this query carries a tuple. Spark counts none: the driver reads it, and no task of Spark's.
        return [{**batch, "numInputRows": int("addBatch" in batch["durationMs"])} for batch in self._run.batches()]

    def stop(self) -> None:
        self._run.stop()

    def _counts(self, tuples: pk.Stream) -> pk.Stream:
        return tuples.aggregate({"n": "count(*)"}, on="ts", size="1 second")


class ProcessOnly(OneStage):
    """The same, but a committed batch need not survive a power cut."""

    durability = "process"


class ByExchange(OneStage):
    """The same, but every batch moves through the exchange."""

    way = "exchange"


class TwoStages(OneStage):
    """A count per value, summed over all values: the second Aggregate groups by other keys, so it is a second stage."""

    def _counts(self, tuples: pk.Stream) -> pk.Stream:
        by_value = tuples.aggregate({"n": "count(*)"}, on="ts", size="1 second", by=["v"])
        return by_value.aggregate({"n": "sum(n)"}, on="ts", size="1 second")
