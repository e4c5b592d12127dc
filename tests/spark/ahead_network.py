"""A network whose long history is read ahead by a query that is attached to it:
`python ahead_network.py <input folder> <checkpoint> <output folder> <"always" or batches before it is attached> <way>`.

With "always" the query is part of the network from the start. A process that starts goes on with what was attached
before. When all is read it prints what the run has counted, and in how many batches it took pieces.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

import penstock as pk
from penstock.language import attaching
from penstock.runtime.board import Record
from penstock.runtime.offsets import intake_offset

SCHEMA = {"ts": "int64", "k": "string", "v": "int64", "id": "int64"}
TRAIN_ROWS = 320
PIECE_ROWS = 400
PAST = "sums steady past"


class Counting:
    """One process of the run."""

    def __init__(self, data: str, checkpoint: str, out: str, after: str, way: str) -> None:
        self.data, self.out, self.checkpoint, self.way = data, out, checkpoint, way
        self.after = None if after == "always" else int(after)
        self.total = sum(pq.read_metadata(file).num_rows for file in Path(data, "steady").glob("*.parquet"))
        self.run: pk.Run | None = None
        self.taken = 0

    def sums(self, steady: pk.Stream) -> None:
        sums = steady.where("v % 7 != 0", name="most").aggregate(
            {"n": "count(*)", "s": "sum(v)"}, on="ts", size=40, by="k", name="sums"
        )
        sums.output("sums", to=pk.delta(f"{self.out}/sums"))

    def start(self) -> pk.Run:
        net = pk.Network("ahead")
        steady = net.source("steady", pk.files(f"{self.data}/steady", follow=True), schema=SCHEMA)
        steady = steady.connection_point("steady")
        flows = steady.aggregate({"n": "count(*)"}, on="ts", size=20, name="flows")
        flows.output("flows", to=pk.delta(f"{self.out}/flows"))
        if self.after is None:
            self.sums(steady)
        options = {"checkpoint": self.checkpoint, "train_rows": TRAIN_ROWS, "buckets": 2, "tasks": 2}
        self.run = net.start(**options, way=self.way, on_batch=self.batch)  # type: ignore[arg-type]
        return self.run

    def batch(self, record: Record) -> None:
        self.taken += bool(intake_offset(record.offset).pieces)
        if self.run is not None and self.after is not None and record.batch >= self.after and not self.run.attached():
            self.run.attach(self.sums, at="steady", name="sums", share=0.3, seconds=0)

    def all_read(self, record: Record) -> bool:
        past = record.shards.get(PAST, {}).values()
        caught_up = self.after is None or (bool(past) and all(seen.ended for seen in past))
        return record.inputs["steady"].read == self.total and caught_up


def main(data: str, checkpoint: str, out: str, after: str, way: str) -> dict[str, Any]:
    counting = Counting(data, checkpoint, out, after, way)
    # A history that is short enough for a test shall have several pieces.
    with mock.patch.object(attaching, "PIECE_ROWS", PIECE_ROWS):
        run = counting.start()
        record = run.wait_for(counting.all_read, 280)
        run.stop()
    return {"read": record.inputs["steady"].read, "taken": counting.taken}


if __name__ == "__main__":
    print("TOLD " + json.dumps(main(*sys.argv[1:])), flush=True)
