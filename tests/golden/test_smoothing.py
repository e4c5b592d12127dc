"""Golden cases of workload smoothing (oop.md 6): the same results, later or not, on both engines."""

from __future__ import annotations

import math
from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import same

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
TUPLES = [
    *[(1, "a", 1), (2, "b", 2), (9, "a", 3)],
    *[(12, "c", 4), (8, "b", 5), (13, "c", 6)],
    *[(21, "a", 7), (22, "d", 8), (23, None, 9)],
    *[(35, "d", 10), (41, "d", 11), (52, "e", 12)],
    *[(53, "e", 13)],
]
RESULTS = """
ts  k  n   s  f
 0  a  2   4  1
 0  b  2   7  2
10  c  2  10  4
20  a  1   7  7
20  d  1   8  8
20  -  1   9  9
30  d  1  10 10
40  d  1  11 11
50  e  2  25 12
"""
FLUSHES: dict[str, dict[str, Any]] = {
    "at once": {"flush": "at-once", "table": 3},
    "slow": {"flush": "slow", "table": 100, "every": 2, "delay": 1},
    "lazy": {"flush": "lazy", "table": 100, "delay": 2},
    "tiny": {"flush": "lazy", "table": 1, "delay": 0},
    "in order": {"flush": "in-order", "table": 2},
}


def test_every_flush_has_the_same_results_and_says_when(run: Runner) -> None:
    """
    batches of 3 tuples, the marks after them:   4    8    18    47    end
    windows complete then:                       -    -    0     10, 20, 30
    lazy, by collision or two windows later:     -    -    -     0, 10     all
    """
    net = pk.Network("smoothing")
    tuples = net.source("in", pk.memory(TUPLES, schema=SCHEMA, train=3), progress=pk.delayed(5))
    outputs = {"n": "count(*)", "s": "sum(v)", "f": "first(v)"}
    for name, arguments in FLUSHES.items():
        tuples.aggregate(outputs, size=10, by="k", name=name, **arguments).output(name)
    result = run(net)
    for name in FLUSHES:
        same(result[name], RESULTS)
        low, high = (result.record().boxes[box] for box in (f"{name}.low", name))
        assert (low.held_rows, low.released, low.tuples_in) == (0, len(TUPLES), len(TUPLES))
        assert (high.held_rows, high.released, high.tuples_in) == (0, low.tuples_out, low.tuples_out)
    assert marks(result, "at once") == [0, 10, 40, math.inf]
    assert marks(result, "tiny")[-2:] == [40, math.inf]
    # The windows from 20 on are complete at 47, but may stay for two more.
    assert marks(result, "lazy")[-2:] == [20, math.inf]


def marks(result: pk.Result, output: str) -> list[float]:
    found = [element for element in result.elements(output) if not isinstance(element, dict)]
    return [value for element in found for _, value in element.value]
