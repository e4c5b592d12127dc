"""A network to which queries are attached while it runs:
`python attach_network.py <input folder> <checkpoint> <output folder> <batches between events, or "always"> <way>`.

With "always" the queries are part of the network from the start. Otherwise one is attached, then another, and then one
that is detached again. A process that starts goes on with what was attached before. Prints what the run has counted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import penstock as pk
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64", "k": "string", "v": "int64", "id": "int64"}
TRAIN_ROWS = 320
QUERIES = ("ordered", "joined")


class Attaching:
    """One process of the run."""

    def __init__(self, data: str, checkpoint: str, out: str, every: str, way: str) -> None:
        self.data, self.out, self.checkpoint, self.way = data, out, checkpoint, way
        self.every = None if every == "always" else int(every)
        self.run: pk.Run | None = None

    def ordered(self, steady: pk.Stream) -> None:
        """A box that would notice another order of arrival; of two inputs, that depends on how long trains are."""
        threes = steady.aggregate({"s": "sum(v)", "ts": "max(ts)"}, on=pk.TUPLE_NUMBER, size=3, by=["k"], name="threes")
        threes.output("threes", to=pk.delta(f"{self.out}/threes"))
        steady.where("v % 7 = 0", name="few").output("few", to=pk.delta(f"{self.out}/few"))

    def joined(self, flows: pk.Stream, both: pk.Stream) -> None:
        """Two histories; one of them lies behind a stage."""
        pairs = flows.join(both, "l.k = r.k and l.n > 3", on="ts", size=2, name="joined")
        pairs.map(ts="l_ts", n="n", id="id", name="ids").output("joined", to=pk.delta(f"{self.out}/joined"))

    def passing(self, both: pk.Stream) -> None:
        both.aggregate({"n": "count(*)"}, on="ts", size=9, name="passing").output("passing")

    def network(self) -> pk.Network:
        net = pk.Network("attaching")
        steady = net.source("steady", pk.files(f"{self.data}/steady"), schema=SCHEMA, progress=pk.ordered())
        steady = steady.connection_point("steady")
        ragged = net.source("ragged", pk.files(f"{self.data}/ragged"), schema=SCHEMA, progress=pk.delayed(75))
        both = pk.union(steady, ragged, name="both").connection_point("both", key="k")
        flows = both.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=20, by=["k"], name="flows")
        flows = flows.connection_point("flows")
        flows.output("flows table", to=pk.delta(f"{self.out}/flows"))
        if self.every is None:
            self.ordered(steady)
            self.joined(flows, both)
        return net

    def start(self) -> pk.Run:
        options = {"checkpoint": self.checkpoint, "train_rows": TRAIN_ROWS, "buckets": 2, "tasks": 2}
        self.run = self.network().start(**options, way=self.way, on_batch=self.batch)  # type: ignore[arg-type]
        return self.run

    def batch(self, record: Record) -> None:
        if self.run is None or self.every is None:
            return
        there = {query["name"] for query in self.run.attached()}
        past = (record.batch + 1) // self.every
        if past >= 1 and "ordered" not in there:
            self.run.attach(self.ordered, at="steady", name="ordered", share=0.5, seconds=0)
        elif past >= 2 and "joined" not in there:
            self.run.attach(self.joined, at=["flows", "both"], name="joined", seconds=0)
        elif past == 3 and "passing" not in there:
            self.run.attach(self.passing, at="both", since=100, name="passing", share=1, seconds=0)
        elif past >= 4 and "passing" in there:
            self.run.detach("passing", seconds=0)


def main(data: str, checkpoint: str, out: str, every: str, way: str) -> dict[str, Any]:
    run = Attaching(data, checkpoint, out, every, way).start()
    run.wait()
    record = run.result.record()
    return {
        "batch": record.batch,
        "ended": record.ended,
        "inputs": {name: asdict(record.inputs[name]) for name in ("steady", "ragged")},
        "late": sorted(run.result.late("ragged")["id"].to_pylist()),
        "attached": [query["name"] for query in run.attached()],
    }


if __name__ == "__main__":
    print("TOLD " + json.dumps(main(*sys.argv[1:])), flush=True)
