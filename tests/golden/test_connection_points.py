"""A connection point between two halves of a network: fed from it, the second half gives what it gave behind it.

```
 packets ──> counts per 10, by k ──●──> every third, and sums per 20        behind the point
                                   └──────> table ──> the same boxes        fed from it
```
"""

from __future__ import annotations

from pathlib import Path

import deltalake
from tests.golden.conftest import Runner
from tests.golden.counted import COUNTS, SUMS, counted, packets, summed
from tests.golden.tables import elements, same

import penstock as pk


def halves(point: str) -> pk.Network:
    net = pk.Network("halves")
    source = packets(net)
    source.connection_point("packets", path=f"{point}-packets", keep=1000)
    second_half(counted(source).connection_point("counts", path=point, key="k"))
    return net


def second_half(counts: pk.Stream) -> None:
    summed(counts)
    counts.aggregate({"first": "min(ts)", "n": "sum(n)"}, on=pk.TUPLE_NUMBER, size=3).output("threes")


def test_the_second_half_gives_the_same_when_it_is_fed_from_the_point(run: Runner, tmp_path: Path) -> None:
    point = str(tmp_path / "counts")
    behind = run(halves(point))
    net = pk.Network("fed")
    second_half(net.source("counts", pk.connection_point(point)))
    fed = run(net, train_rows=2)
    same(fed["read"].select(["ts", "k", "n"]), COUNTS)
    assert elements(fed, "sums") == elements(behind, "sums") == SUMS
    assert fed["threes"].to_pylist() == behind["threes"].to_pylist()
    assert fed.record().inputs["counts"].late == 0
    held = deltalake.DeltaTable(f"{point}-packets").to_pyarrow_table().sort_by("ts")
    assert held["ts"].to_pylist() == list(range(24))
    assert held["_batch"].to_pylist() == [t // 3 for t in range(24)]
