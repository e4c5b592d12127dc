"""Golden cases of Resample (aurora.md 5.2.2.4)."""

from __future__ import annotations

import datetime as dt
import math

from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

REPORTS = """
Sid  Time  Pos
1    1:58   10   | 1
2    2:02   40   | 2
2    2:12   60   | 3: soldier 2 is beyond 2:10, so its position at 2:00 is known
1    2:06   20
1    2:13   30   |    soldier 1 is beyond 2:10
2    2:24   80
2    2:28   90   |    soldier 2 is beyond 2:25
1    2:26   50   |    soldier 1 is beyond 2:25
1    2:20   99   |    out of order for soldier 1
2    2:45  100   |    soldier 2 is beyond 2:40
"""
CONCLUDED = """
Sid  Time  Pos
2    2:00   40
1    2:00   15
2    2:15   70
1    2:15   25
2    2:30   85
1    2:30   50   | at the end of the reports
"""


def clock(text: str) -> dt.datetime:
    hours, minutes = text.split(":")
    return dt.datetime(2001, 1, 1, int(hours), int(minutes))


def test_interpolated_positions_leave_in_the_order_in_which_they_conclude(run: Runner, engine: str) -> None:
    """aurora.md Fig. 11: heartbeats every 15 minutes, position reports in between, averages within 10 minutes.

    The paper's picture is not in its text, so the trace follows what the text says of it: a report of soldier 1
    (tuple #1) arrives before one of soldier 2 (tuple #2), but the first result is soldier 2's, concluded by tuple #3,
    the first of this soldier that is later than 2:10.
    """
    net = pk.Network("fig11")
    beats = [(clock(t),) for t in ("2:00", "2:15", "2:30")]
    heartbeats = net.source("H", pk.memory(beats, schema={"Time": "timestamp[s]"}), on="Time")
    schema = {"Sid": "int64", "Time": "timestamp[s]", "Pos": "int64"}
    # One report to a batch shows the order between batches; several of them, the order inside of one.
    reports = pk.memory(
        [(s, clock(t), p) for s, t, p in rows(REPORTS)], schema=schema, train=1 if engine == "local" else 5
    )
    positions = net.source("X", reports, on="Time", progress=pk.punctuated())
    resampled = heartbeats.resample(
        positions, {"Pos": "avg(Pos)"}, on="Time", size="10 minutes", by="Sid", assuming=pk.order("Time", by="Sid")
    )
    assert resampled.progressing == ("Time",)
    resampled.output("out")
    resampled.late().map(Sid="Sid", Pos="Pos").output("late")
    result = run(net, buckets=1)
    assert [tuple(row.values()) for row in result["out"].to_pylist()] == [
        (sid, clock(time), float(pos)) for sid, time, pos in rows(CONCLUDED)
    ]
    same(result["late"], "Sid Pos \n 1 99")
    assert result.late("resample1")["Time"].to_pylist() == [clock("2:20")]
    # Heartbeats went to one bucket only, and all of both streams is accounted for.
    work = result.record().boxes["resample1"]
    assert (work.tuples_in, work.tuples_out, work.late, work.held_rows) == (13, 6, 1, 0)


def test_windows_conclude_by_the_low_water_mark_whatever_the_order_of_arrival(run: Runner) -> None:
    """Size 5. Weights fall with the distance, as in the paper's footnote: 1 / (1 + |l.t - at|).

    ```
    t        5    10   15   20   25   30   35
    left          10        20        30
             [----|----]
                       [----|----]
                                 [----|----]
    a         7  8        17      25
    b                         22
    c (NULL)                              36
    ```
    """
    net = pk.Network("weights")
    times = pk.memory([(10,), (30,), (20,), (20,)], schema={"t": "int32"}, train=2)
    left = net.source("left", times, on="t", progress=pk.delayed(15))
    table = """
    k  at    v
    a  17   50
    a   8   10
    b  22    6
    a   7   14   | batch 2
    a  25   90
    -  36    1
    """
    schema = {"k": "string", "at": "int64", "v": "int64"}
    right = net.source("right", pk.memory(rows(table), schema=schema, train=3), on="at", progress=pk.delayed(15))
    weight = "1.0 / (1 + abs(l.t - r.at))"
    near = left.resample(
        right, {"near": f"sum(v * {weight}) / sum({weight})", "n": "count(*)"}, on=("t", "at"), size=5, by="k"
    )
    assert near.schema.field("t").type == "int32"
    near.map(k="k", t="t", near="round(near, 3)", n="n").output("near")
    left.resample(right, {"seen": "list(v)"}, on=("t", "at"), size=5).output("all")
    near.aggregate({"n": "sum(n)"}, on="t", size=20, by="k").output("sums")
    result = run(net)
    same(
        result["near"],
        """
        k   t    near   n
        a  10  11.714   2
        a  20    66.0   2
        a  20    66.0   2
        b  20     6.0   1
        b  20     6.0   1
        a  30    90.0   1
        """,
    )
    assert [(row["t"], row["seen"]) for row in result["all"].to_pylist()] == [
        (10, [14, 10]),
        (20, [50, 6, 90]),
        (20, [50, 6, 90]),
        (30, [90]),
    ]
    same(result["sums"], "t k n \n 0 a 2 \n 20 a 5 \n 20 b 2")


def test_progress_is_that_of_the_slower_stream_less_the_size(run: Runner) -> None:
    net = pk.Network("progress")
    marks = [(30, 10), (30, 20), (40, 60), (50, 60)]
    left, right = (
        net.source(
            name,
            pk.memory(
                [e for pair in marks for e in ((100 + side,), pk.punctuation(ts=pair[side]))],
                schema={"ts": "int64"},
                train=2,
            ),
            progress=pk.punctuated(),
        )
        for side, name in enumerate(("left", "right"))
    )
    left.resample(right, {"n": "count(*)"}, size=5).output("out")
    result = run(net)
    stated = [e for e in elements(result, "out") if e[0] == "p"]
    assert stated == [("p", 5), ("p", 15), ("p", 40), ("p", math.inf)]
    same(result["out"], "ts n \n 100 4 \n 100 4 \n 100 4 \n 100 4")


def test_what_an_aggregate_makes_can_be_resampled_in_its_own_stage(run: Runner) -> None:
    """Means of 10 ticks for each key, aligned with alarms: the alarms go to every bucket, the means stay."""
    net = pk.Network("stages")
    schema = {"ts": "int64", "k": "string", "v": "int64"}
    table = """
    ts  k   v
     1  x   2
     3  x   4
    12  y   9
    18  x   8
    25  y   1
    41  x   5
    """
    values = net.source("values", pk.memory(rows(table), schema=schema, train=4))
    alarms = net.source("alarms", pk.memory([(11,), (26,)], schema={"at": "int64"}), on="at")
    means = values.aggregate({"mean": "avg(v)"}, size=10, by="k")
    alarms.resample(means, {"mean": "avg(mean)", "n": "count(*)"}, on=("at", "ts"), size=10, by="k").output("out")
    assert "stage 1" in net.explain()
    assert "stage 2" not in net.explain()
    result = run(net)
    same(
        result["out"],
        """
        k  at  mean  n
        x  11   8.0  1
        y  11   5.0  2
        y  26   1.0  1
        """,
    )
