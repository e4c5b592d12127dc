"""A network whose boxes the optimizer arranges while it runs, and a table that is pushed into it:
`python arranged_network.py <input folder> <checkpoint> <output folder> <way>`.

Prints how many versions the run has had, and what it has counted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import penstock as pk

TRAIN_ROWS = 4_000
"""Of both inputs, so that a batch has half of it from each: enough for the optimizer to look at."""
COSTLY = "regexp_matches(md5(word || word), '[0-9a-f]*[0-9]$')"


def network(data: str, out: str) -> pk.Network:
    net = pk.Network("arranged")
    words = net.source("words", pk.files(f"{data}/words"), on="ts", progress=pk.ordered())
    stored = net.source("stored", pk.table(f"{data}/stored.parquet"), on="ts")
    few = words.where(COSTLY, name="costly").where("id % 10 = 0", name="few")
    few.output("few", to=pk.delta(f"{out}/few"))
    both = pk.union(few, stored, name="both")
    both.aggregate({"n": "count(*)", "s": "sum(id)"}, on="ts", size=500, by="word", name="counts").output(
        "counts", to=pk.delta(f"{out}/counts")
    )
    return net


def main(data: str, checkpoint: str, out: str, way: str) -> dict[str, Any]:
    run = network(data, out).start(
        checkpoint=checkpoint, train_rows=TRAIN_ROWS, buckets=2, tasks=2, way=way, optimize="on"
    )
    run.wait()
    record = run.result.record()
    return {"versions": len(run.versions()), "inputs": {name: asdict(count) for name, count in record.inputs.items()}}


if __name__ == "__main__":
    print("TOLD " + json.dumps(main(*sys.argv[1:])), flush=True)
