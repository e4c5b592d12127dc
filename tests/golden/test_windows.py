"""Golden cases of windows: which tuples a window holds, and in which batch it leaves."""

from __future__ import annotations

import datetime as dt
import math

from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

END = ("p", math.inf)


def test_a_nearly_silent_link_holds_the_windows_of_q1(run: Runner) -> None:
    """oop.md 2, Q1: packets of three links, counted by the minute.

    ```
               batch 1    batch 2     batch 3      batch 4
    control    1          2           130          140
    main1      5  30      70 100      125 190      195
    main2      20         75          150          160
    lwm        1          2           130          end
    closes     -          -           [0) [60)     [120) [180)
    ```
    In batch 2 both main links are past minute 0, but control is not: nothing leaves.
    """
    net = pk.Network("q1")

    def link(name: str, times: list[int], train: int) -> pk.Stream:
        return net.source(name, pk.memory([(t,) for t in times], schema={"ts": "int64"}, train=train))

    control = link("control", [1, 2, 130, 140], train=1)
    main1 = link("main1", [5, 30, 70, 100, 125, 190, 195], train=2)
    main2 = link("main2", [20, 75, 150, 160], train=1)
    pk.union(control, main1, main2).aggregate({"n": "count(*)"}, size=60).output("q1")
    result = run(net)
    assert elements(result, "q1") == [("p", 0), (0, 5), (60, 3), ("p", 120), (120, 5), (180, 2), END]
    assert result.progress()["union1"][""] == {"ts": math.inf}


def test_windows_before_the_epoch_are_numbered_by_the_floor(run: Runner) -> None:
    """oop.md A.2.2: window w covers [10w, 10w + 10), for negative w as for any other.

    ```
        -20       -10        0        10
    w    [---- -2 )[--- -1 )[--- 0 --)[--- 1
          -20 -11   -10 -1   0  9      10
    ```
    """
    net = pk.Network("wid")
    times = [-1, 10, -20, 0, -11, 9, -10]
    source = net.source(
        "in", pk.memory([(t,) for t in times], schema={"ts": "int64"}, train=4), progress=pk.delayed(30)
    )
    source.aggregate({"low": "min(ts)", "high": "max(ts)", "n": "count(*)"}, size=10).output("out")
    same(
        run(net)["out"],
        """
         ts   low  high  n
        -20   -20   -11  2
        -10   -10    -1  2
          0     0     9  2
         10    10    10  1
        """,
    )


def test_overlapping_windows_share_their_panes(run: Runner) -> None:
    """Size 6, advance 4: panes of 2 ticks; a tuple is in one window or in two.

    ```
    tick   -4    0    4    8    12
    w=-1    [---------)                       holds 1
    w=0          [---------)                  holds 1 4 5
    w=1               [---------)             holds 4 5 7 8 9
    w=2                    [---------)        holds 8 9 13
    w=3                         [---------)   holds 13
    ```
    """
    net = pk.Network("panes")
    times = [1, 5, 4, 8, 7, 9, 13]
    source = net.source("in", pk.memory([(t,) for t in times], schema={"ts": "int64"}, train=3), progress=pk.delayed(2))
    source.aggregate({"n": "count(*)", "seen": "list(ts)"}, size=6, advance=4).output("out")
    result = run(net)
    found = {row["ts"]: (row["n"], row["seen"]) for row in result["out"].to_pylist()}
    assert found == {
        -4: (1, [1]),
        0: (3, [1, 4, 5]),
        4: (5, [4, 5, 7, 8, 9]),
        8: (3, [8, 9, 13]),
        12: (1, [13]),
    }
    assert [e for e in elements(result, "out") if e[0] == "p"][-1] == END


def test_tuples_between_hopping_windows_are_in_none(run: Runner) -> None:
    """Size 3, advance 10.

    ```
    tick   0  3       10 13      20
           [--)       [--)       [--)
           1 2  5     10   19    20
    ```
    """
    net = pk.Network("hop")
    source = net.source("in", pk.memory([(t,) for t in (1, 2, 5, 10, 19, 20)], schema={"ts": "int64"}, train=3))
    source.aggregate({"n": "count(*)"}, size=3, advance=10).output("out")
    result = run(net)
    same(
        result["out"],
        """
        ts  n
         0  2
        10  1
        20  1
        """,
    )
    work = result.record().boxes["aggregate1"]
    assert (work.tuples_in, work.released, work.held_rows) == (6, 6, 0)


def test_aggregates_of_aggregates_by_other_keys(run: Runner) -> None:
    """Packets per (minute, source, destination), then the busiest source of two minutes: two stages.

    Punctuation goes through both stages in one batch: what batch 2 closes leaves in batch 2.
    """
    net = pk.Network("stages")
    table = """
    ts   src  dst  len
     1   a    x    10
     2   a    y    20
    59   b    x     5
    61   a    x     1
    70   -    x     2    | batch 2
   125   b    y     9
   130   b    y     9
   250   a    x     4
    """
    schema = {"ts": "int64", "src": "string", "dst": "string", "len": "int64"}
    source = net.source("in", pk.memory(rows(table), schema=schema, train=4))
    flows = source.aggregate({"bytes": "sum(len)", "n": "count(*)"}, on="ts", size=60, by=["src", "dst"])
    flows.output("flows")
    flows.aggregate({"bytes": "sum(bytes)", "n": "sum(n)", "pairs": "count(*)"}, size=120, by="src").output("sources")
    flows.aggregate({"most": "max(bytes)"}, size=120).output("most")
    result = run(net)
    same(
        result["flows"],
        """
         ts  src  dst  bytes  n
          0  a    x       10  1
          0  a    y       20  1
          0  b    x        5  1
         60  a    x        1  1
         60  -    x        2  1
        120  b    y       18  2
        240  a    x        4  1
        """,
    )
    same(
        result["sources"],
        """
         ts  src  bytes  n  pairs
          0  a       31  3      3
          0  b        5  1      1
          0  -        2  1      1
        120  b       18  2      1
        240  a        4  1      1
        """,
    )
    # After batch 1 the input is at 61: minute 0 is closed, and sources wait for the end of minute 1.
    assert elements(result, "most") == [("p", 0), (0, 20), (120, 18), (240, 4), END]


def test_windows_on_timestamps_with_held_and_filtered_aggregates(run: Runner) -> None:
    """Sizes in words, on an attribute in milliseconds; the delay keeps the disorder of one second."""
    net = pk.Network("times")
    table = """
    ts     k   v
     500   x   1.5
    2600   x   4.0
    1900   -   2.5
    3999   x   0.5
    3000   -   7.5   | batch 2
    9000   y   1.0
    """
    schema = {"ts": "timestamp[ms]", "k": "string", "v": "double"}
    source = net.source("in", pk.memory(rows(table), schema=schema, train=4), progress=pk.delayed("1 second"))
    outputs = {
        "n": "count(*)",
        "mid": "median(v)",
        "big": "count(*) FILTER (WHERE v > 2)",
        "kinds": "count(DISTINCT k)",
    }
    source.aggregate(outputs, size="2 seconds").output("out")
    found = run(net)["out"].to_pylist()
    start = dt.datetime(1970, 1, 1)
    assert [((row["ts"] - start).total_seconds(), row["n"], row["mid"], row["big"], row["kinds"]) for row in found] == [
        (0, 2, 2.0, 1, 1),
        (2, 3, 4.0, 2, 1),
        (8, 1, 1.0, 0, 1),
    ]
