"""The worked examples of Aggregate in aurora.md: Fig. 9 and the queries of Sect. 5.3 (Figs. 13, 15 and 17)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import same

import penstock as pk

# Fig. 9, in the order of the list in Sect. 5.2.2.2: the 1:45 quote of IBM comes last.
QUOTES = [
    ("MSF", "01:00", 20.0),
    ("INT", "01:00", 16.0),
    ("IBM", "01:00", 24.0),
    ("IBM", "01:15", 20.0),
    ("IBM", "01:30", 23.0),
    ("MSF", "01:30", 24.0),
    ("INT", "01:30", 12.0),
    ("IBM", "02:00", 17.0),
    ("INT", "02:00", 16.0),
    ("MSF", "02:00", 22.0),
    ("IBM", "01:45", 13.0),
]
IN_ORDER = sorted(QUOTES, key=lambda quote: quote[1])

# Figs. 13, 15 and 17: (Sid, Time, Pos) in order of arrival.
REPORTS = [
    (1, 1, 34),
    (1, 2, 38),
    (2, 1, 24),
    (3, 1, 35),
    (3, 2, 38),
    (3, 3, 18),
    (4, 1, 21),
    (5, 1, 20),
    (2, 2, 31),
    (4, 2, 36),
    (4, 3, 30),
    (5, 2, 31),
    (1, 3, 28),
    (2, 3, 41),
    (5, 3, 31),
]


def hourly(net: pk.Network, quotes: list[tuple[str, str, float]], slack: int) -> None:
    """Agg(avg(Price)), assuming Order(On Time, Slack n, GroupBy Sid), size 1 hour, advance 1 hour."""
    label = f"{'late' if quotes is QUOTES else 'ordered'}{slack}"
    rows = [(n, sid, f"2003-08-01 {time}:00", price) for n, (sid, time, price) in enumerate(quotes)]
    schema = {"n": "int64", "Sid": "string", "Time": "timestamp[s]", "Price": "double"}
    # The stream makes progress on nothing but the number of the tuple: all else is deduced from arrival.
    stream = net.source(f"in {label}", pk.memory(rows, schema=schema, train=4), on="n")
    averages = stream.aggregate(
        {"AvgPrice": "avg(Price)"}, assuming=pk.order("Time", slack, "Sid"), size="1 hour", by="Sid", name=label
    )
    averages.map(Sid="Sid", Time="strftime(Time, '%H:%M')", AvgPrice="AvgPrice").output(label)


def test_figure_9_hourly_averages(run: Runner) -> None:
    net = pk.Network("quotes")
    for slack in (0, 1):
        hourly(net, IN_ORDER, slack)
        hourly(net, QUOTES, slack)
    result = run(net)
    figure = """
     Sid  Time   AvgPrice
     IBM  01:00  20.0
     INT  01:00  14.0
     MSF  01:00  22.0
     IBM  02:00  17.0
     INT  02:00  16.0
     MSF  02:00  22.0
    """
    for label in ("ordered0", "ordered1", "late1"):
        same(result[label], figure)
        assert result.late(label).num_rows == 0
    # Without slack the 1:45 quote is out of order, and IBM's first average is that of the three quotes before it.
    one, two = (
        {(r["Sid"], r["Time"]): r["AvgPrice"] for r in result[label].to_pylist()} for label in ("late0", "late1")
    )
    assert one.pop(("IBM", "01:00")) == pytest.approx((24 + 20 + 23) / 3)
    del two["IBM", "01:00"]
    assert one == two
    (late,) = result.late("late0").to_pylist()
    assert (late["n"], late["Sid"], late["Price"]) == (10, "IBM", 13.0)


def reports(net: pk.Network, *elements: Any, train: int = 1) -> pk.Stream:
    rows = [e if isinstance(e, type(pk.clock(0))) else (n, *e) for n, e in enumerate(elements or REPORTS)]
    schema = {"n": "int64", "Sid": "int64", "Time": "int64", "Pos": "int64"}
    return net.source("reports", pk.memory(rows, schema=schema, train=train), on="n")


def all_at_once(window: Any) -> dict[str, Any]:
    """Fig. 14: the time of a window of m reports, and whether all of them have it."""
    times = window["Time"]
    return {"Time": times[0], "Over": bool((times == times[0]).all())}


def test_query_1_tells_when_three_soldiers_are_across_the_border(run: Runner) -> None:
    net = pk.Network("query1")
    across = reports(net).where("Pos >= 30")
    for slack in (0, 1):
        # Figs. 12 and 13: the trace is that of slack 1.
        order = pk.order("Time", slack)
        counts = across.aggregate({"Count": "count(*)"}, assuming=order, size=1, name=f"count{slack}")
        counts.output(f"counts{slack}")
        counts.where("Count >= 3").output(f"alarms{slack}")
    # Figs. 14 and 15
    function = pk.window_function(final=all_at_once, returns={"Time": "int64", "Over": "bool"}, columns="Time")
    in_order = across.bsort(on="Time", slack=1)
    crossing = in_order.aggregate(function, assuming=pk.order(pk.TUPLE_NUMBER), size=3, advance=1)
    crossing.output("crossing")
    crossing.where("Over").output("alarms")
    left: list[dict[str, int]] = []
    result = run(net, on_batch=lambda record: left.append(dict(record.outputs)))

    same(result["counts1"], "Time Count \n 1 2 \n 2 5 \n 3 3")
    same(result["alarms1"], "Time Count \n 2 5 \n 3 3")
    assert result.late("count1").num_rows == 0
    # One report a train. The count of a time leaves with the second report beyond it: that of time 1 with the fourth
    # report across the border (the fifth of all), that of time 2 with the ninth (the fourteenth).
    assert [outputs["counts1"] for outputs in left] == [0] * 4 + [1] * 9 + [2, 3]
    # The text has time 2 leave with the seventh across the border. That takes slack 0, and loses two reports.
    assert [outputs["counts0"] for outputs in left] == [0] + [1] * 9 + [2] * 4 + [3]
    same(result["counts0"], "Time Count \n 1 1 \n 2 4 \n 3 3")
    assert [(r["Sid"], r["Time"]) for r in result.late("count0").to_pylist()] == [(3, 1), (5, 2)]

    same(
        result["crossing"],
        """
        Tup#  Time  Over
           1     1  false
           2     1  false
           3     2  true
           4     2  true
           5     2  true
           6     2  false
           7     2  false
           8     3  true
        """,
    )
    same(result["alarms"], "Tup# Time Over \n 3 2 true \n 4 2 true \n 5 2 true \n 8 3 true")


def moved(window: Any) -> tuple[int, float, bool]:
    """In Fig. 17 a difference of 8.0 is one and 5.2 is none, so the threshold lies between: 6 here."""
    before, now = window["COM"]
    return window["Time"][1], now, abs(now - before) >= 6


def centre_of_mass(stream: pk.Stream, slack: int) -> None:
    """Query 2, Fig. 16: the mean position at every time, and where it differs from the one before."""
    centre = pk.window_function(final=lambda window: window["Pos"].mean(), returns="double", columns="Pos")
    order, label = pk.order("Time", slack), f"centre{slack}"
    masses = stream.aggregate({"COM": centre}, assuming=order, size=1, timeout="5 seconds", name=label)
    masses.output(f"masses{slack}")
    returns = {"Time": "int64", "COM": "double", "Diff": "bool"}
    function = pk.window_function(final=moved, returns=returns, columns=["Time", "COM"])
    differences = masses.aggregate(function, on=pk.TUPLE_NUMBER, size=2, advance=1)
    differences.map(Time="Time", COM="COM", Diff="Diff").output(f"differences{slack}")
    differences.where("Diff").map(Time="Time", COM="COM", Diff="Diff").output(f"alerts{slack}")


def test_query_2_tells_when_the_centre_of_mass_moves(run: Runner) -> None:
    net = pk.Network("query2")
    stream = reports(net, train=5)
    for slack in (2, 3):
        centre_of_mass(stream, slack)
    result = run(net)
    # Fig. 17 has all five reports of time 1, of which two come behind three of later times: that takes slack 3.
    same(result["masses3"], "Time COM \n 1 26.8 \n 2 34.8 \n 3 29.6")
    same(result["differences3"], "Time COM Diff \n 2 34.8 true \n 3 29.6 false")
    same(result["alerts3"], "Time COM Diff \n 2 34.8 true")
    assert result.late("centre3").num_rows == 0
    # With the slack of the text, 2, these are out of order, and the centre never moves far.
    same(result["masses2"], "Time COM \n 1 31.0 \n 2 34.8 \n 3 29.6")
    same(result["alerts2"], "Time COM Diff")
    assert [tuple(r.values())[1:] for r in result.late("centre2").to_pylist()] == [(4, 1, 21), (5, 1, 20)]


def test_query_2_waits_no_longer_than_the_timeout(run: Runner) -> None:
    net = pk.Network("query2")
    # Five reports a train, four seconds apart. Time 2 was first reported at 0, so it leaves before the third train,
    # and the report of soldier 5 in there comes too late for it.
    elements = [e for i, at in enumerate((0, 4, 8)) for e in (pk.clock(at), *REPORTS[5 * i : 5 * i + 5])]
    centre_of_mass(reports(net, *elements, train=6), slack=3)
    result = run(net)
    same(result["masses3"], "Time COM \n 1 26.8 \n 2 35.75 \n 3 29.6")
    same(result["alerts3"], "Time COM Diff \n 2 35.75 true \n 3 29.6 true")
    assert [(r["Sid"], r["Time"]) for r in result.late("centre3").to_pylist()] == [(5, 2)]
