"""A network that changes six times while it runs:
`python change_network.py <input folder> <checkpoint> <output folder> <batches between changes, or "never"> <way>`.

The flows and the pairs are the same in all versions. A process that starts goes on with the form of the network that
belongs to the batch it has come to. Prints what the run has counted when it ends by itself.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

import penstock as pk
from penstock.runtime.board import Board, Record
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string", "v": "int64", "id": "int64"}
TRAIN_ROWS = 96
FORMS = 6
CHANGED = "highest"
"""The box whose definition changes, so that its state must be given up."""


def network(data: str, out: str, form: int) -> pk.Network:
    """The network after so many changes."""
    net = pk.Network("changing")
    steady = net.source("steady", pk.files(f"{data}/steady"), schema=SCHEMA, progress=pk.ordered())
    ragged = net.source("ragged", pk.files(f"{data}/ragged"), schema=SCHEMA, progress=pk.delayed(75))
    both = pk.union(steady, ragged, name="both")
    flows = both.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=20, by=["k"], name="flows")
    flows.output("flows", to=pk.delta(f"{out}/flows"))
    pairs = steady.join(ragged, "l.k = r.k", on="ts", size=3, how="full", progress="min", name="pairs")
    pairs.map(ts="ts", l="l_id", r="r_id", name="ids").output("pairs", to=pk.delta(f"{out}/pairs"))
    few = both.where("v % 7 = 0" if form < 3 else "v % 11 = 0", name="few")  # 3: a filter's predicate
    few.output("few", to=pk.delta(f"{out}/few"))
    size = 50 if form < 5 else 70  # 5: an aggregate's window
    both.aggregate({"m": "max(v)"}, on="ts", size=size, name=CHANGED).output("highest")
    if form == 1:  # 1: a box is added; 2: and removed
        both.aggregate({"n": "count(*)"}, on="ts", size=10, name="extra").output("extra")
    if form >= 4:  # 4: a second stage
        flows.aggregate({"t": "sum(n)"}, size=100, name="totals").output("totals")
    if form >= FORMS:  # 6: an output
        steady.output("copy")
    return net


class Changing:
    """One process of the run."""

    def __init__(self, data: str, checkpoint: str, out: str, every: str, way: str) -> None:
        self.data, self.out, self.checkpoint, self.way = data, out, checkpoint, way
        self.every = None if every == "never" else int(every)
        self.run: pk.Run | None = None
        self.moments: list[float] = []

    def form(self, batch: int) -> int:
        """How often the network has changed when a batch is done."""
        return 0 if self.every is None else min(FORMS, (batch + 1) // self.every)

    def start(self) -> pk.Run:
        form = self.form(Board(Folder(self.checkpoint).child("board")).newest())
        options: dict[str, Any] = {"checkpoint": self.checkpoint, "train_rows": TRAIN_ROWS, "buckets": 2, "tasks": 2}
        net = network(self.data, self.out, form)
        try:
            self.run = net.start(**options, way=self.way, on_batch=self.batch)
        except pk.QueryError as refused:
            if f"discard=['{CHANGED}']" not in str(refused):
                raise
            self.run = net.start(**options, way=self.way, on_batch=self.batch, discard=[CHANGED])
        return self.run

    def batch(self, record: Record) -> None:
        self.moments.append(time.monotonic())
        form = self.form(record.batch)
        if self.run is not None and form != self.form(record.batch - 1):
            changed = network(self.data, self.out, form)
            self.run.change(changed, discard=[CHANGED] if form == 5 else [], seconds=0)


def main(data: str, checkpoint: str, out: str, every: str, way: str) -> dict[str, Any]:
    life = Changing(data, checkpoint, out, every, way)
    run = life.start()
    run.wait()
    record = run.result.record()
    return {
        "batch": record.batch,
        "ended": record.ended,
        "inputs": {name: asdict(count) for name, count in record.inputs.items()},
        "outputs": {name: record.outputs[name] for name in ("flows", "pairs")},
        "late": sorted(run.result.late("ragged")["id"].to_pylist()),
        "versions": [[v.number, v.batch, [*v.added, *v.removed, *v.changed]] for v in run.versions()],
        "seconds": [round(b - a, 3) for a, b in zip(life.moments, life.moments[1:], strict=False)],
    }


if __name__ == "__main__":
    print("TOLD " + json.dumps(main(*sys.argv[1:])), flush=True)
