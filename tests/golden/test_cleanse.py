"""Golden cases of Cleanse, Merge and Dedupe (oop.md 5.4 and 5.5)."""

from __future__ import annotations

import math
from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string"}


def left_elements() -> list[Any]:
    return [(4, "l4"), (2, "l2"), pk.punctuation(ts=3), (5, "l5"), (3, "l3"), pk.punctuation(ts=5), (5, "l5+")]


def right_elements() -> list[Any]:
    return [(5, "r5"), pk.punctuation(ts=2), (2, "r2"), pk.punctuation(ts=5), (9, "r9"), pk.punctuation(ts=6)]


def test_punctuation_releases_a_sort_and_the_slowest_stream_a_merge(run: Runner) -> None:
    """
    left     4 2 (p3) | 5 3 (p5) | 5 end          right   5 (p2) 2 | (p5) 9 (p6) | end

    cleanse  2 (p3)   | 3 4 5 (p5) | 5 (end)
    merge    2 2 (p2) | 3 4 5 5 (p5) | 5 9 (end)
    """
    net = pk.Network("cleansing")
    left, right = (
        net.source(name, pk.memory(script, schema=SCHEMA, train=3), progress=pk.punctuated())
        for name, script in (("left", left_elements()), ("right", right_elements()))
    )
    left.cleanse(name="tidy").output("tidy")
    pk.merge(left, right).output("merged")
    left.cleanse(by="k").output("by k")
    result = run(net)
    assert result["tidy"]["k"].to_pylist() == ["l2", "l3", "l4", "l5", "l5+"]
    tidy: list[Any] = [(2, "l2"), ("p", 3), (3, "l3"), (4, "l4"), (5, "l5"), ("p", 5), (5, "l5+"), ("p", math.inf)]
    assert elements(result, "tidy") == tidy
    assert result["merged"]["k"].to_pylist() == ["l2", "r2", "l3", "l4", "l5", "r5", "l5+", "r9"]
    assert [e[1] for e in elements(result, "merged") if e[0] == "p"] == [2, 5, math.inf]
    assert sorted(result["by k"]["k"].to_pylist()) == sorted(result["tidy"]["k"].to_pylist())
    assert result.record().boxes["tidy"].held_rows == 0


def test_only_the_first_of_duplicates_passes(run: Runner) -> None:
    """A tuple below the mark is late at its input, so no duplicate can come after its key has been let go."""
    table = """
    ts  k  v
     1  a  1
     1  a  2  | a duplicate in k, not in all
     1  -  3
     2  a  4
     1  -  5  | batch 2: its twin came in batch 1
     2  a  4  | the same in all
     3  b  6
     3  b  6
    """
    net = pk.Network("deduping")
    source = net.source(
        "in",
        pk.memory(rows(table), schema={"ts": "int64", "k": "string", "v": "int64"}, train=4),
        progress=pk.delayed(2),
    )
    first = source.dedupe(by="k", name="first")
    first.output("first")
    first.aggregate({"n": "count(*)"}, size=10, by="k").output("counts")
    source.dedupe().output("distinct")
    source.dedupe(by=()).output("times")
    result = run(net)
    same(result["first"], "ts k v \n 1 a 1 \n 1 - 3 \n 2 a 4 \n 3 b 6")
    same(result["counts"], "ts k n \n 0 a 2 \n 0 - 1 \n 0 b 1")
    same(result["distinct"], "ts k v \n 1 a 1 \n 1 a 2 \n 1 - 3 \n 2 a 4 \n 1 - 5 \n 3 b 6")
    same(result["times"], "ts k v \n 1 a 1 \n 2 a 4 \n 3 b 6")
    work = result.record().boxes["first"]
    assert (work.tuples_in, work.tuples_out, work.released, work.held_rows) == (8, 4, 4, 0)
    assert "1 stage" in net.explain()
