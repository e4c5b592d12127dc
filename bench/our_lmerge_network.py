"""LMerge end to end: two copies of a stream in Parquet files become one, on Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import penstock as pk
from penstock_bench.our_lmerge import DISPLACED, Load, Stream
from penstock_bench.throughput import CORES

COPIES = ("first", "second")


def write_copies(events: int, data: Path) -> None:
    """Facts in order, and a copy in which a fifth of them comes late."""
    stream, random = Stream(Load(events, 2)), np.random.default_rng(3)
    facts = pa.table([pa.array(stream.vs), *stream.payload.columns], ["ts", "n", "s"])
    late = random.random(events) < 0.2
    order = np.argsort(np.arange(events) + np.where(late, random.uniform(0, DISPLACED, events), 0))
    for name, rows in (("first", facts), ("second", facts), ("second-late", facts.take(pa.array(order)))):
        folder = data / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / "0.parquet", row_group_size=16_384)


def merged_files(case: str, data: Path, out: Path) -> tuple[int, str]:
    """Merge the copies; how many tuples they have, and what is wrong with the answer."""
    net = pk.Network(f"lmerge-{case}")
    folders = ("first", "second" if case == "R0" else "second-late")
    progress = pk.ordered() if case == "R0" else pk.delayed(DISPLACED * 20_000)
    copies = [
        net.source(name, pk.files(str(data / folder / "*.parquet")), on="ts", progress=progress)
        for name, folder in zip(COPIES, folders, strict=True)
    ]
    pk.lmerge(*copies, case=case).output("one", to=pk.parquet(str(out)))
    net.run(master=f"local[{CORES}]")
    found = ds.dataset(str(out), format="parquet").to_table(columns=["ts"]).column("ts").to_numpy()
    expected = pq.read_table(data / "first", columns=["ts"]).column("ts").to_numpy()
    same = np.array_equal(np.sort(found), expected)
    return len(COPIES) * len(expected), "" if same else f"{len(found)} tuples in the place of {len(expected)}"
