"""Golden cases of Join: the worked examples of aurora.md 5.2.2.3 and oop.md 4.2, 5.3 and 8."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import rows, same

import penstock as pk
from penstock.runtime.board import Record


def clock(text: str) -> dt.datetime:
    hours, minutes = text.split(":")
    return dt.datetime(2003, 8, 1, int(hours), int(minutes))


def at(table: str) -> list[tuple[Any, ...]]:
    """The tuples of a drawn table, in which `2:05` is a time of day."""
    return [tuple(clock(v) if isinstance(v, str) and ":" in v else v for v in row) for row in rows(table)]


PLATOON_X = """
Sid  Time  Pos
1    2:00  3
2    2:00  1
3    2:00  1
1    2:05  4
2    2:05  2
3    2:05  1
1    2:10  4
2    2:10  3
3    2:10  1
1    2:15  2
2    2:15  4
3    2:15  1
"""

# Of Y the figure shows the reports of 1:55 only. Its results tell where 10, 11 and 13 were later on; where they are
# silent (12 throughout, 13 before 2:25, 11 at 2:25) a soldier is where nobody of X comes by, at 5 or 6.
PLATOON_Y = """
Sid  Time  Pos
10   1:55  3
11   1:55  4
12   1:55  5
13   1:55  6
10   2:05  3
11   2:05  4
12   2:05  5
13   2:05  6
10   2:15  4
11   2:15  4
12   2:15  5
13   2:15  6
10   2:25  4
11   2:25  5
12   2:25  5
13   2:25  1
"""

# Row 12 is printed like row 13. But 10 and 11 are both at 4 at 2:15 (rows 5 and 6), so soldier 2, at 4 at the same
# moment, meets both of them: row 12 is the meeting with 10.
FIGURE_10 = """
l_Sid l_Time l_Pos r_Sid r_Time r_Pos
1     2:00   3     10    1:55   3
1     2:00   3     10    2:05   3
1     2:05   4     11    1:55   4
1     2:05   4     11    2:05   4
1     2:05   4     10    2:15   4
1     2:05   4     11    2:15   4
1     2:10   4     11    2:05   4
1     2:10   4     10    2:15   4
1     2:10   4     11    2:15   4
2     2:10   3     10    2:05   3
2     2:15   4     11    2:05   4
2     2:15   4     10    2:15   4
2     2:15   4     11    2:15   4
2     2:15   4     10    2:25   4
3     2:15   1     13    2:25   1
"""


def test_soldiers_who_report_the_same_position_within_ten_minutes(run: Runner) -> None:
    """aurora.md Figure 10, by punctuation of the inputs and by assumed orders; two stray reports are out of order."""
    net = pk.Network("platoons")
    schema = {"Sid": "int64", "Time": "timestamp[s]", "Pos": "int64"}
    x, y = (
        net.source(name, pk.memory(at(table), schema=schema, train=5), on="Time")
        for name, table in (("x", PLATOON_X), ("y", PLATOON_Y))
    )
    x.join(y, "l.Pos = r.Pos", size="10 min").output("met")
    strays = [(9, clock("1:50"), 4), (9, clock("2:01"), 4)]
    # Promises nothing: everything is deduced from the order of arrival.
    x2 = net.source(
        "x2", pk.memory([*at(PLATOON_X), *strays], schema=schema, train=5), on="Time", progress=pk.punctuated()
    )
    in_order = pk.order("Time")
    x2.join(y, "l.Pos = r.Pos", size="10 min", assuming=(in_order, in_order), name="orders").output("in order")
    result = run(net)
    for output in ("met", "in order"):
        assert Counter(tuple(row.values()) for row in result[output].to_pylist()) == Counter(at(FIGURE_10))
    assert result.late("orders.left")["Time"].to_pylist() == [time for _, time, _ in strays]
    assert result.late("orders.right").num_rows == 0


def test_joins_of_packets(run: Runner) -> None:
    """oop.md Q2 (a sliding window of either input), Q6 (a tumbling window) and Q8 (equal times), and three in a row."""
    net = pk.Network("packets")
    schema = {"ts": "int64", "srcIP": "string", "destIP": "string"}
    main1 = """
    ts  srcIP destIP
    100 a     b
    105 c     d
    300 a     b
    """
    main2 = """
    ts  srcIP destIP
    100 b     a
    109 d     c
    110 d     c
    180 b     a   | 300 - 120
    181 b     a   | 300 - 119
    279 b     a   | 100 + 179
    280 b     a   | 100 + 180
    """
    control = """
    ts  srcIP destIP
     90 d     c
    105 d     c
    300 b     a
    """
    m1, m2, c = (
        net.source(name, pk.memory(rows(table), schema=schema, train=2))
        for name, table in (("m1", main1), ("m2", main2), ("c", control))
    )
    # Q2: RANGE 3 min and 2 min: ts greater than l.ts - 2 min and smaller than l.ts + 3 min; a tick is a second here.
    m1.join(m2, "l.srcIP = r.destIP", band=(119, 179)).map(l="l_ts", r="r_ts").output("q2")
    strict = "l.srcIP = r.destIP AND r.ts > l.ts - 120 AND r.ts < l.ts + 180"
    m1.join(m2, strict, band=(120, 180)).map(l="l_ts", r="r_ts").output("q2 in words")
    # Q6: ts/10 of both, and the conversation
    talks = "l.srcIP = r.destIP AND l.destIP = r.srcIP"
    left, right = (s.map(w="ts / 10", ts="ts", srcIP="srcIP", destIP="destIP") for s in (m1, pk.union(m2, c)))
    same_window = left.join(right, f"{talks} AND l.w = r.w", on="w")
    same_window.map(srcIP="l_srcIP", destIP="l_destIP", ts="l_ts", other="r_ts").output("q6")
    # Q8: the same moment
    same_time = m1.join(pk.union(m2, c), f"{talks} AND l.ts = r.ts")
    same_time.map(srcIP="l_srcIP", destIP="l_destIP", ts="l_ts").output("q8")
    # Three streams: pairs within 5, and a third packet within 20 of the first
    triples = m1.join(m2, "one.srcIP = two.destIP", size=5, names=("one", "two")).join(
        c, "one_srcIP = r.destIP", on=("one_ts", "ts"), size=20, progress="left"
    )
    triples.aggregate({"n": "count(*)"}, on="one_ts", size=100).output("three")
    # Windows of two streams side by side, at the stage where they were counted
    sent = m1.aggregate({"n": "count(*)"}, size=100, by="srcIP")
    answered = m2.aggregate({"n": "count(*)"}, size=100, by="destIP")
    both = sent.join(answered, "l.srcIP = r.destIP AND l.ts = r.ts")
    both.map(ts="l_ts", ip="srcIP", sent="l_n", answered="r_n").output("counts")
    result = run(net)
    same(result["counts"], "ts ip sent answered \n 100 a 1 3 \n 100 c 1 2")
    for output in ("q2", "q2 in words"):
        same(
            result[output],
            "l r \n 100 100 \n 100 180 \n 100 181 \n 100 279 \n 105 109 \n 105 110 \n 300 181 \n 300 279 \n 300 280",
        )
    same(result["q6"], "srcIP destIP ts other \n a b 100 100 \n c d 105 109 \n c d 105 105 \n a b 300 300")
    same(result["q8"], "srcIP destIP ts \n a b 100 \n c d 105 \n a b 300")
    same(result["three"], "one_ts n \n 100 4")


def test_what_is_held_when_one_input_is_late(run: Runner) -> None:
    """oop.md 5.3, Figure 5(b): a tuple a minute on each side, S0 late by up to 5 minutes, S1 in order, band 2.

    At minute T the marks are T - 5 and T. By Figure 4 S1 tuples are kept from (T - 5) - 2 on, 7 minutes of them (the
    text says 5 there, and 7 for the in-order plan), and S0 tuples from T - 2 on, for 2 minutes.
    """
    net = pk.Network("late")
    minutes = [(m, "x") for m in range(10)]
    s0, s1 = (
        net.source(name, pk.memory(minutes, schema={"ts": "int64", "k": "string"}, train=1), progress=policy)
        for name, policy in (("s0", pk.delayed(5)), ("s1", pk.ordered()))
    )
    s0.join(s1, "l.k = r.k", size=2, progress="max").output("pairs")
    held: list[int] = []

    def look(record: Record) -> None:
        held.append(record.boxes["join1"].held_rows)

    result = run(net, on_batch=look)
    kept = [(min(t, 2) + 1) + (min(t, 7) + 1) for t in range(9)]
    assert held[:9] == kept
    assert max(held) == 3 + 8
    assert held[-1] == 0
    assert result["pairs"].num_rows == 5 * 10 - 6
    # The greater of both times waits for the slower input, but not for the band (joint punctuation, oop.md 7).
    stated = [dict(e.value)["ts"] for e in result.elements("pairs") if not isinstance(e, dict)]
    assert stated[:4] == [-5, -4, -3, -2]


def test_outer_semi_and_anti_joins(run: Runner) -> None:
    """Requests and replies within 10: unmatched ones leave as soon as punctuation allows, with NULLs."""
    net = pk.Network("outer")
    schema = {"ts": "int64", "id": "int64"}
    requests = rows("ts id \n 1 1 \n 2 2 \n 3 3 \n 20 4 \n 40 5")
    replies = rows("ts id \n 2 1 \n 5 1 \n 13 2 \n 13 3 \n 21 9 \n 60 5")
    left, right = (
        net.source(name, pk.memory(elements, schema=schema, train=2))
        for name, elements in (("requests", requests), ("replies", replies))
    )
    for how in ("left", "right", "full", "semi", "anti"):
        left.join(right, "l.id = r.id", band=(0, 10), how=how).output(how)
    left.join(right, band=(0, 10), how="full", progress="min").map(l="l_id", r="r_id", ts="ts").output("by time")
    result = run(net)
    pairs = "1 1 2 1 \n 1 1 5 1 \n 3 3 13 3"
    lonely = "2 2 - - \n 20 4 - - \n 40 5 - -"
    others = "- - 13 2 \n - - 21 9 \n - - 60 5"
    names = "l_ts l_id r_ts r_id"
    same(result["left"], f"{names} \n {pairs} \n {lonely}")
    same(result["right"], f"{names} \n {pairs} \n {others}")
    same(result["full"], f"{names} \n {pairs} \n {lonely} \n {others}")
    same(result["semi"], "ts id \n 1 1 \n 3 3")
    same(result["anti"], "ts id \n 2 2 \n 20 4 \n 40 5")
    same(
        result["by time"],
        """
        l  r  ts
        1  1  1
        1  1  1
        2  1  2
        2  1  2
        3  1  3
        3  2  3
        3  3  3
        4  9  20
        5  -  40
        -  5  60
        """,
    )
