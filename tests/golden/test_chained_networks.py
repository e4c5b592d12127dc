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
from tests.golden.counted import COUNTS, SUMS, counted, packets, summed
from tests.golden.tables import elements, same

import penstock as pk


def first(table: str) -> pk.Network:
    net = pk.Network("first")
    counted(packets(net)).output("counts", to=pk.delta(table, compact=2, partition_by="k"))
    return net


def second(table: str) -> pk.Network:
    net = pk.Network("second")
    summed(net.source("counts", pk.delta(table)))
    return net


def test_the_chain_gives_what_one_network_gives(run: Runner, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    run(first(table))
    assert any("merged" in place for place in deltalake.DeltaTable(table).file_uris())
    result = run(second(table), train_rows=2)
    same(result["read"].select(["ts", "k", "n"]), COUNTS)
    assert result.record().inputs["counts"].late == 0
    one = pk.Network("one")
    summed(counted(packets(one)))
    assert elements(run(one), "sums") == elements(result, "sums") == SUMS
