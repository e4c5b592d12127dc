"""QoS timestamps (aurora.md 5.1): every tuple carries the arrival time of the oldest tuple that contributed to it.

```
 clock      10 s          20 s          30 s
 train    (1,a) (2,b)   (11,a) (3,b)   (21,a)       ts 3 is in promise: delayed by 10
```
"""

from __future__ import annotations

import pyarrow as pa
from tests.golden.conftest import Runner

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string"}
SCRIPT = [pk.clock(10), (1, "a"), (2, "b"), pk.clock(20), (11, "a"), (3, "b"), pk.clock(30), (21, "a")]


def _network() -> tuple[pk.Network, pk.Stream]:
    net = pk.Network("arrival")
    return net, net.source("in", pk.memory(SCRIPT, schema=SCHEMA, train=3), progress=pk.delayed(10))


def _arrivals(result: pk.Result, output: str) -> dict[tuple[object, ...], float]:
    """Seconds since the epoch at which the oldest contributor of each tuple arrived."""
    tuples = [e for e in result.elements(output) if isinstance(e, dict)]
    return {tuple(t.values()): t.arrived.timestamp() for t in tuples}


def test_every_box_passes_the_oldest_arrival_on(run: Runner) -> None:
    net, stream = _network()
    kept, rest = stream.map(ts="ts", twice="k || k").filter("twice = 'aa'")
    pk.union(kept, rest).output("all")
    counts = stream.aggregate({"n": "count(*)"}, on="ts", size=10, by="k", name="counts")
    counts.output("counts")
    counts.aggregate({"n": "sum(n)"}, on="ts", size=20).output("totals")
    result = run(net)
    assert _arrivals(result, "all") == {
        (1, "aa"): 10,
        (2, "bb"): 10,
        (11, "aa"): 20,
        (3, "bb"): 20,
        (21, "aa"): 30,
    }
    assert _arrivals(result, "counts") == {(0, "a", 1): 10, (0, "b", 2): 10, (10, "a", 1): 20, (20, "a", 1): 30}
    assert _arrivals(result, "totals") == {(0, 4): 10, (20, 1): 30}


def test_queries_do_not_see_it(run: Runner) -> None:
    net, stream = _network()
    stream.output("all")
    stream.aggregate({"n": "count(*)"}, on="ts", size=10).output("counts")
    result = run(net)
    assert result["all"].schema == pa.schema({"ts": pa.int64(), "k": pa.string()})
    assert result["counts"].column_names == ["ts", "n"]
    assert all("#arrived" not in element for element in result.elements("all") if isinstance(element, dict))


def test_late_tuples_have_one_too(run: Runner) -> None:
    net = pk.Network("late")
    script = [pk.clock(10), (5, "a"), pk.clock(20), (4, "b")]
    net.source("in", pk.memory(script, schema=SCHEMA, train=2), progress=pk.ordered()).late().output("late")
    assert _arrivals(run(net), "late") == {(4, "b"): 20}


def test_a_union_of_inputs_of_which_one_is_also_merged_in_order(run: Runner) -> None:
    net = pk.Network("both")
    a, b, c = (net.source(name, pk.memory([(1, name), (12, name)], schema=SCHEMA)) for name in "abc")
    pk.merge(a, b).output("merged")
    pk.union(a, c).aggregate({"n": "count(*)"}, on="ts", size=10, timeout="1 hour", name="counts").output("counts")
    result = run(net)
    assert [row["k"] for row in result["merged"].to_pylist()] == ["a", "b", "a", "b"]
    assert sorted(tuple(row.values()) for row in result["counts"].to_pylist()) == [(0, 2), (10, 2)]
