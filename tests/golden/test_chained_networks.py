"""Two networks chained through a Delta table: what the second one gives is what one network would give.

```
 packets ──> counts per 10 ──> table ──> sums per 20        chained
 packets ──> counts per 10 ────────────> sums per 20        one
```
"""

from __future__ import annotations

from pathlib import Path

import deltalake
from tests.golden.conftest import Runner
from tests.golden.tables import elements, same

import penstock as pk

COUNTS = """
 ts  k  n
  0  x  5
  0  y  5
 10  x  5
 10  y  5
 20  x  2
 20  y  2
"""
SUMS = [("p", 0), (0, 20), ("p", 20), (20, 4), ("p", float("inf"))]


def counted(net: pk.Network) -> pk.Stream:
    rows = [(t, "xy"[t % 2]) for t in range(24)]
    source = net.source("packets", pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=3))
    return source.aggregate({"n": "count(*)"}, size=10, by="k")


def first(table: str) -> pk.Network:
    net = pk.Network("first")
    counted(net).output("counts", to=pk.delta(table, compact=2, partition_by="k"))
    return net


def second(table: str) -> pk.Network:
    net = pk.Network("second")
    counts = net.source("counts", pk.delta(table))
    counts.output("read")
    counts.aggregate({"n": "sum(n)"}, size=20).output("sums")
    return net


def test_the_chain_gives_what_one_network_gives(run: Runner, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    run(first(table))
    assert any("merged" in place for place in deltalake.DeltaTable(table).file_uris())
    result = run(second(table), train_rows=2)
    same(result["read"].select(["ts", "k", "n"]), COUNTS)
    assert result.record().inputs["counts"].late == 0
    one = pk.Network("one")
    counted(one).aggregate({"n": "sum(n)"}, size=20).output("sums")
    assert elements(run(one), "sums") == elements(result, "sums") == SUMS
