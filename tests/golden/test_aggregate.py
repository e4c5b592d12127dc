"""Golden cases of Aggregate beyond plain windows: functions, tuple numbers, origins, predicates, orders, timeouts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
READINGS = """
ts  k  v
12  x  1
11  y  2   |  out of order, within 5
17  x  3
14  x  4
 9  x  5   |  behind three of x
22  y  -
25  x  7
31  x  8
28  y  9
"""


def readings(net: pk.Network) -> pk.Stream:
    script = pk.memory(rows(READINGS), schema=SCHEMA, train=3)
    return net.source("in", script, progress=pk.delayed(8))


def total(window: Any) -> Any:
    return window["v"].sum()


def steps_of(state: str, row: dict[str, Any]) -> str:
    return f"{state}/{row['v']}"


def test_every_kind_of_window(run: Runner) -> None:
    net = pk.Network("windows")
    stream = readings(net)
    function = pk.window_function(final=total, returns="int64", columns="v")
    steps = pk.window_function(str, steps_of, returns="string", columns=["v"])
    mixed = {"n": "count(*)", "total": function, "seen": steps, "mid": "median(v)"}
    stream.aggregate(mixed, size=10, by="k").output("plain")
    stream.aggregate(mixed, size=10, advance=5, by="k").where("k = 'y'").output("sliding")
    stream.aggregate(mixed, on=pk.TUPLE_NUMBER, size=3, advance=2, by="k").output("tuples")
    stream.aggregate({"n": "count(*)"}, on=pk.TUPLE_NUMBER, size=4, partial=True).output("partial")
    stream.aggregate(mixed, size=10, origin="first", by="k").output("first")
    stream.aggregate({"n": "count(*)", "seen": steps}, size=8, advance="v % 4 = 1", by="k").output("opened")
    ordered = stream.aggregate(mixed, size=10, by="k", assuming=pk.order("ts", 1, "k"), name="ordered")
    ordered.output("ordered")
    ordered.late().output("late")
    pairs = stream.aggregate({"ts": "min(ts)"}, on=pk.TUPLE_NUMBER, size=2, advance=1)
    assert pairs.progressing == ("Tup#",)
    pairs.output("pairs")
    told = pk.window_function(
        final=lambda w: f"{','.join(w)} {w.start} {w.group} {w['k'].to_pylist()}", returns="string"
    )
    stream.where("k = 'y'").aggregate({"told": told}, size=100, by="k").output("told")
    result = run(net)
    same(
        result["plain"],
        """
        ts  k  n  total  seen     mid
         0  x  1      5  /5       5.0
        10  x  3      8  /1/4/3   3.0
        10  y  1      2  /2       2.0
        20  x  1      7  /7       7.0
        20  y  2      9  /None/9  9.0
        30  x  1      8  /8       8.0
        """,
    )
    same(
        result["sliding"],
        """
        ts  k  n  total  seen     mid
         5  y  1      2  /2       2.0
        10  y  1      2  /2       2.0
        15  y  1      -  /None    -
        20  y  2      9  /None/9  9.0
        25  y  1      9  /9       9.0
        """,
    )
    same(
        result["tuples"],
        """
        Tup#  k  n  total  seen       mid
           1  x  3      8  /1/3/4     3.0
           3  x  3     16  /4/5/7     5.0
           1  y  3     11  /2/None/9  5.5
        """,
    )
    same(result["partial"], "Tup# n \n 1 4 \n 5 4 \n 9 1")
    same(
        result["first"],
        """
        ts  k  n  total  seen      mid
         9  x  4     13  /5/1/4/3  3.5
        19  x  1      7  /7        7.0
        29  x  1      8  /8        8.0
        11  y  1      2  /2        2.0
        21  y  2      9  /None/9   9.0
        """,
    )
    # Windows of 8 at 12 (v=1) and 9 (v=5) of x, and at 28 (v=9) of y.
    same(result["opened"], "ts k n seen \n 9 x 3 /5/1/4 \n 12 x 3 /1/4/3 \n 28 y 1 /9")
    same(
        result["ordered"],
        """
        ts  k  n  total  seen     mid
        10  x  3      8  /1/4/3   3.0
        10  y  1      2  /2       2.0
        20  x  1      7  /7       7.0
        20  y  2      9  /None/9  9.0
        30  x  1      8  /8       8.0
        """,
    )
    same(result["late"], "ts k v \n 9 x 5")
    assert result.record().boxes["ordered"].late == 1
    assert elements(result, "pairs") == [
        *[(1, 11), (2, 11), ("p", 3)],
        *[(3, 14), (4, 9), (5, 9), ("p", 6)],
        *[(6, 22), (7, 25), (8, 28), ("p", math.inf)],
    ]
    assert result["told"]["told"].to_pylist() == ["ts,k,v 0 {'k': 'y'} ['y', 'y', 'y']"]


def test_a_timeout_lets_windows_go_when_a_script_says_how_late_it_is(run: Runner) -> None:
    net = pk.Network("waiting")
    script = [
        *[(1, "x", 1), (2, "y", 2), pk.clock(0)],
        *[(3, "x", 3), pk.clock(5), pk.clock(5)],
        *[pk.clock(6), pk.clock(6), pk.clock(6)],
        *[(4, "x", 4), (14, "x", 5), pk.clock(7)],
        *[(15, "x", 6), pk.punctuation(ts=15), pk.clock(8)],
    ]
    stream = net.source("in", pk.memory(script, schema=SCHEMA, train=3), progress=pk.punctuated())
    waiting = stream.aggregate({"n": "count(*)"}, size=10, by="k", timeout="5 seconds", name="waiting")
    waiting.output("out")
    left: list[int] = []
    result = run(net, on_batch=lambda record: left.append(record.outputs["out"]))
    same(result["out"], "ts k n \n 0 x 2 \n 0 y 1 \n 10 x 2")
    same(result.late("waiting"), "ts k v \n 4 x 4")
    assert left == [0, 0, 2, 2, 3]
    assert {tuple(e.values()): e.arrived.timestamp() for e in result.elements("out") if isinstance(e, dict)} == {
        (0, "x", 2): 0,
        (0, "y", 1): 0,
        (10, "x", 2): 7,
    }


def failing(final: Any) -> pk.Network:
    net = pk.Network("mending")
    script = pk.memory([(t, "xy"[t % 2], t) for t in range(12)], schema=SCHEMA, train=4)
    function = pk.window_function(final=final, returns="int64", columns="v")
    net.source("in", script).aggregate({"total": function}, size=3, by="k", name="totals").output("out")
    return net


def broken(window: Any) -> Any:
    if window.start == 6:
        raise ValueError(f"{window.tuples} tuples of {window.group['k']}")
    return total(window)


def test_a_run_goes_on_when_its_function_is_mended(run: Runner, tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    with pytest.raises(pk.WorldError) as failure:
        run(failing(broken), checkpoint=folder)
    said = str(failure.value)
    assert said.startswith("network 'mending', box 'totals': the window function of 'total' raised ValueError: ")
    assert "found: the window ts = 6, group k=" in said
    batches: list[int] = []
    result = run(failing(total), checkpoint=folder, on_batch=lambda record: batches.append(record.batch))
    # What had left before is not computed again.
    assert batches == [2]
    same(
        result["out"],
        """
        ts  k  total
         0  x  2
         0  y  1
         3  x  4
         3  y  8
         6  x  14
         6  y  7
         9  x  10
         9  y  20
        """,
    )
