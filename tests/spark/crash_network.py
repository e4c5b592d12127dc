"""The network that `test_crash` kills: `python crash_network.py <input folder> <checkpoint> <output folder> <way>`.

A Parquet input in order, a CSV input with disorder, late tuples and a broken line; a stateless output, an Aggregate
by key, and an Aggregate of that one in a second stage; a full outer join, whose lonely tuples leave late, and without
duplicates. Prints what the run has counted when it ends by itself.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "int64", "id": "int64"}
TRAIN_ROWS = 164
"""A batch is one file of either input: each may take 82 rows, a file has 80 or 81, and a train ends with a part."""


def network(data: str, out: str) -> pk.Network:
    net = pk.Network("crash")
    steady = net.source("steady", pk.files(f"{data}/steady"), schema=SCHEMA, progress=pk.ordered())
    ragged = net.source("ragged", pk.files(f"{data}/ragged"), schema=SCHEMA, progress=pk.delayed(30))
    both = pk.union(steady, ragged)
    both.where("v % 7 = 0").output("events", to=pk.delta(f"{out}/events"))
    flows = both.aggregate({"n": "count(*)", "s": "sum(v)", "m": "median(v)"}, on="ts", size=20, by=["k"])
    flows.output("flows", to=pk.delta(f"{out}/flows"))
    flows.aggregate({"groups": "count(*)", "t": "sum(n)"}, size=100).output("totals", to=pk.delta(f"{out}/totals"))
    pairs = steady.join(ragged, "l.k = r.k", on="ts", size=3, how="full", progress="min")
    pairs = pairs.map(ts="ts", l="l_id", r="r_id").dedupe(on="ts")
    pairs.output("pairs", to=pk.delta(f"{out}/pairs"))
    return net


def main(data: str, checkpoint: str, out: str, way: str) -> dict[str, Any]:
    result = network(data, out).run(checkpoint=checkpoint, train_rows=TRAIN_ROWS, buckets=2, tasks=2, way=way)
    record = result.record()
    return {
        "batch": record.batch,
        "ended": record.ended,
        "inputs": {name: asdict(count) for name, count in record.inputs.items()},
        "outputs": record.outputs,
        "late": sorted(result.late("ragged")["id"].to_pylist()),
        "refused": sorted(result.errors("ragged")["record"].to_pylist()),
    }


if __name__ == "__main__":
    print("TOLD " + json.dumps(main(*sys.argv[1:])), flush=True)
