"""What a resample refuses, word by word, and what it derives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk

LEFT = pa.schema({"at": pa.int64(), "when": pa.timestamp("s"), "w": pa.float64(), "k": pa.string()})
RIGHT = pa.schema(
    {
        "ts": pa.int64(),
        "time": pa.timestamp("ms"),
        "day": pa.date32(),
        "k": pa.string(),
        "v": pa.float64(),
        "V": pa.float64(),
        "s": pa.struct({"x": pa.int64()}),
    }
)


def streams(left: str = "at", right: str = "ts") -> tuple[pk.Stream, pk.Stream]:
    net = pk.Network("net")
    return (
        net.source("left", pk.memory([], schema=LEFT), on=left),
        net.source("right", pk.memory([], schema=RIGHT), on=right),
    )


def resample(outputs: Any = None, *, sides: tuple[str, str] = ("at", "ts"), **options: Any) -> pk.Stream:
    left, right = streams(*sides)
    return left.resample(right, {"n": "count(*)"} if outputs is None else outputs, **{"size": 5, **options})


def of_two_networks() -> pk.Stream:
    return streams()[0].resample(streams()[1], {"n": "count(*)"}, size=5)


def progress_lost() -> pk.Stream:
    left, right = streams()
    return left.resample(right.map(name="turn", ts="ts % 60", v="v"), {"n": "count(*)"}, on=("at", "ts"), size=5)


BOX = "network 'net', box 'resample1': "
TO_DO = (
    "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
    "date_trunc('minute', ts)"
)

REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    (
        "an attribute that this stream has not",
        lambda: resample(on="ts"),
        BOX + "unknown column 'ts'\n  expected: one of at, when, w, k",
    ),
    (
        "an attribute that the other has not",
        lambda: resample(on=("at", "at")),
        BOX + "unknown column 'at'\n  expected: one of ts, time, day, k, v, V, s",
    ),
    (
        "three attributes",
        lambda: resample(on=("at", "ts", "v")),
        BOX + "on= names an attribute of each stream\n  expected: on=('A', 'B')\n  found: ('at', 'ts', 'v')",
    ),
    (
        "a group that the other has not",
        lambda: resample(by="w"),
        BOX + "unknown column 'w'\n  expected: one of ts, time, day, k, v, V, s",
    ),
    (
        "timestamps of two units",
        lambda: resample(on=("when", "time"), size="1 s", sides=("at", "time")),
        BOX + "'when' and 'time' are not measured alike\n"
        "  expected: two integers, two dates, or two timestamps of one unit, with or without time zones\n"
        "  found: when timestamp[s], time timestamp[ms]\n"
        "  to do: cast one with map(), for example time='CAST(time AS ...)'",
    ),
    (
        "integers and dates",
        lambda: resample(on=("at", "day")),
        BOX + "'at' and 'day' are not measured alike\n"
        "  expected: two integers, two dates, or two timestamps of one unit, with or without time zones\n"
        "  found: at int64, day date32[day]\n"
        "  to do: cast one with map(), for example day='CAST(day AS ...)'",
    ),
    (
        "a distance between names",
        lambda: resample(on="k"),
        BOX + "'k' has no distance in time\n  expected: an integer, date or timestamp attribute\n  found: k string",
    ),
    (
        "an attribute of this stream that makes no progress",
        lambda: resample(on=("at", "ts"), sides=("when", "ts")),
        BOX + "a resample on 'at' would never close: the stream makes no progress on it\n"
        "  expected: one of when\n  found: 'at' of stream 'left'\n" + TO_DO,
    ),
    (
        "an attribute of the other stream whose progress a box lost",
        progress_lost,
        BOX + "a resample on 'ts' would never close: the stream makes no progress on it; box 'turn' (ts=ts % 60, v) "
        "lost it\n  expected: an attribute that progresses\n  found: 'ts' of stream 'turn'\n" + TO_DO,
    ),
    (
        "a size below zero",
        lambda: resample(size=-1),
        BOX + "the size of a resample is a distance in time\n  expected: 0 or more\n  found: -1",
    ),
    (
        "a duration on integers",
        lambda: resample(size="5 s"),
        BOX + "'5 s' is a duration, but the attribute is an integer\n"
        "  expected: an integer\n  found: '5 s' on an attribute of type int64",
    ),
    ("streams of two networks", of_two_networks, BOX + "the streams of a resample belong to different networks"),
    (
        "something that is no stream",
        lambda: streams()[0].resample("right", {"n": "count(*)"}, size=5),  # type: ignore[arg-type]
        BOX + "a stream is resampled from a stream\n  found: str",
    ),
    (
        "no outputs",
        lambda: resample({}),
        BOX + "a resample without outputs\n  expected: at least one, for example {'mean': 'avg(v)'}",
    ),
    (
        "an output named like this stream's attribute",
        lambda: resample({"AT": "count(*)"}),
        BOX + "the output 'AT' has the name of a result column\n"
        "  to do: the by attributes and 'at' are in the result already; rename the output",
    ),
    (
        "an output named like a group",
        lambda: resample({"k": "count(*)"}, by="k"),
        BOX + "the output 'k' has the name of a result column\n"
        "  to do: the by attributes and 'at' are in the result already; rename the output",
    ),
    (
        "a group named like this stream's attribute",
        lambda: (lambda left, right: left.resample(right.map(at="v", ts="ts"), {"n": "count(*)"}, size=1, by="at"))(
            *streams()
        ),
        BOX + "two columns of the result would be named 'at'\n"
        "  found: 'at' of this stream, and 'at' of the other in by=\n  to do: rename one with map()",
    ),
    (
        "an output that is no text",
        lambda: resample({"n": 5}),
        BOX + "the output 'n' cannot be read\n  expected: an SQL text such as 'avg(v)'\n  found: 5",
    ),
    (
        "a column that this stream has not",
        lambda: resample({"n": "sum(l.v)"}),
        BOX + "unknown column 'l.v' in the output\n  expected: one of l.at, l.when, l.w, l.k",
    ),
    (
        "a column that the other has not",
        lambda: resample({"n": "sum(r.w)"}),
        BOX + "unknown column 'r.w' in the output\n  expected: one of r.ts, r.time, r.day, r.k, r.v, r.V, r.s",
    ),
    (
        "a column of the other that looks like one of this stream",
        lambda: (lambda left, right: left.resample(right.map(**{"l.v": "v", "ts": "ts"}), {"n": "count(*)"}, size=1))(
            *streams()
        ),
        BOX + "column 'l.v' of the other stream is named like one of this stream\n  to do: rename it with map()",
    ),
    (
        "columns that differ in case only",
        lambda: resample({"n": "sum(v)", "m": 'sum("V")'}),
        BOX + "the outputs use 'v' and 'V', which differ in case only\n  to do: rename one of them with map()",
    ),
    (
        "an order of other groups",
        lambda: resample(by="k", assuming=pk.order("ts", 2)),
        BOX + "the order that is assumed is not that of the windows\n"
        "  expected: ordered on ts, slack 2 by k\n  found: ordered on ts, slack 2\n"
        "  to do: give the order the attribute of the other stream in on=, and the same by= as the resample",
    ),
    (
        "an order of another attribute",
        lambda: resample(on=("at", "ts"), assuming=pk.order("day")),
        BOX + "the order that is assumed is not that of the windows\n"
        "  expected: ordered on ts, slack 0\n  found: ordered on day, slack 0\n"
        "  to do: give the order the attribute of the other stream in on=, and the same by= as the resample",
    ),
    (
        "an order that is none",
        lambda: resample(assuming="ts"),
        BOX + "that is no order specification\n  expected: pk.order(on=, slack=0, by=())\n  found: 'ts'",
    ),
]


@pytest.mark.parametrize(("build", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refused_where_it_was_written(build: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("v", ["box 'resample1'", "'v'", "outside an aggregate"]),
        ("l.at + count(*)", ["box 'resample1'", "l.at", "outside an aggregate"]),
        ("sum(k)", ["box 'resample1'", "sum", "string"]),
        ("sum(nothing)", ["box 'resample1'", "nothing"]),
        ("sum(v", ["box 'resample1'", "sum(v"]),
    ],
)
def test_an_output_must_be_an_aggregate(output: str, words: list[str]) -> None:
    with pytest.raises(pk.QueryError) as refused:
        resample({"out": output})
    assert [word for word in words if word not in str(refused.value)] == [], str(refused.value)


def test_the_result_has_the_group_the_time_of_this_stream_and_the_outputs() -> None:
    found = resample({"mean": "avg(v)", "x": "max(r.s.x)", "w": "max(L.W)"}, by=["k", "day"], size=3)
    assert found.schema == pa.schema(
        {
            "k": pa.string(),
            "day": pa.date32(),
            "at": pa.int64(),
            "mean": pa.float64(),
            "x": pa.int64(),
            "w": pa.float64(),
        }
    )
    assert found.progressing == ("at",)
    with pytest.raises(pk.QueryError, match="nothing comes too late for a resample"):
        found.late()


def test_with_an_order_the_other_stream_need_not_progress() -> None:
    left, right = streams("at", "time")
    found = left.resample(right, {"n": "count(*)"}, size=3, assuming=pk.order("ts", 1))
    # Nothing says when a new group could no longer come, so nothing can be said of the results until the end.
    assert found.progressing == ()
    assert found.late().schema == RIGHT
    found.output("out")
    assert found._port.box.describe() == "n=count(*) of right on at, ts, size 3, assuming ordered on ts, slack 1"


def test_a_refused_resample_leaves_no_trace() -> None:
    left, right = streams()
    with pytest.raises(pk.QueryError):
        left.resample(right, {"n": "count(*)"}, size=-1)
    assert left.resample(right, {"n": "count(*)"}, size=1)._port.name == "resample1"
