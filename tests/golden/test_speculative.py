"""Golden cases of early results: what leaves in every batch, on both engines."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import elements
from tests.properties.temporal import Database

import penstock as pk
from penstock.testing import play

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
SCRIPT = [
    {"in": [(1, "x", 4), (2, "x", 2), (3, "y", 7)]},
    {"in": [(5, "x", 3), (12, "y", 1)]},
    {"in": [(4, "y", 7), pk.punctuation(ts=9)]},
    {"in": [(11, "x", 0), pk.punctuation(ts=10)]},
    {"in": [(7, "x", 9), (15, "x", 0)]},  # the first one is late
]


def network(**windows: Any) -> pk.Network:
    net = pk.Network("early")
    stream = net.source("in", pk.memory([], schema=SCHEMA), progress=pk.punctuated())
    early = stream.aggregate({"n": "count(*)", "top": "max(v)"}, by="k", emit="speculative", **windows)
    early.output("early")
    return net


def test_every_batch_says_what_has_changed(engine: str) -> None:
    played = play(network(size=10), SCRIPT, engine=engine, buckets=2)
    found = [sorted(tuple(row.values()) for row in batch) for batch in played.batches("early")]
    assert found == [
        [(0, "insert", 0, 10, None, "x", 2, 4), (0, "insert", 0, 10, None, "y", 1, 7)],
        [
            (0, "adjust", 0, 0, 10, "x", 2, 4),
            (0, "insert", 0, 10, None, "x", 3, 4),
            (10, "insert", 10, 20, None, "y", 1, 1),
        ],
        [(0, "adjust", 0, 0, 10, "y", 1, 7), (0, "insert", 0, 10, None, "y", 2, 7)],
        [(10, "insert", 10, 20, None, "x", 1, 0)],
        [(10, "adjust", 10, 10, 20, "x", 1, 0), (10, "insert", 10, 20, None, "x", 2, 0)],
    ]
    assert [str(mark) for mark in played.marks("aggregate1", "sync")] == ["-inf", "-inf", "0", "10", "inf"]
    assert played.late("in").num_rows == 1
    work = played.records[-1].boxes["aggregate1"]
    assert (work.released, work.held_rows) == (8, 0)


def test_a_value_that_is_the_same_is_not_said_again(engine: str) -> None:
    net = pk.Network("early")
    stream = net.source("in", pk.memory([], schema=SCHEMA), progress=pk.punctuated())
    stream.aggregate({"top": "max(v)"}, size=10, emit="speculative").output("early")
    script = [{"in": [(1, "x", 4)]}, {"in": [(2, "x", 3)]}, {"in": [(3, "x", 5)]}, {"in": [pk.punctuation(ts=10)]}]
    played = play(net, script, engine=engine, end=False)
    assert [len(batch) for batch in played.batches("early")] == [1, 0, 2, 0]


def test_times_of_any_type_and_functions_in_python(run: Runner) -> None:
    rows = [(dt.date(2024, 1, day), "x", day) for day in (1, 2, 9, 3)]
    net = pk.Network("early")
    script = pk.memory(rows, schema={**SCHEMA, "ts": "date32"}, train=1)
    stream = net.source("in", script, progress=pk.delayed("7 days"))
    seen = pk.window_function(str, lambda text, row: f"{text}/{row['v']}", returns="string", columns="v")
    outputs = {"n": "count(*)", "mid": "median(v)", "kinds": "count(DISTINCT v)", "seen": seen}
    stream.aggregate(outputs, size="7 days", advance="7 days", by="k", emit="speculative").output("days")
    as_times = stream.map(ts="CAST(ts AS TIMESTAMP)", k="k", v="v")
    as_times.aggregate(outputs, size="4 days", advance="2 days", emit="speculative", name="sliding").output("sliding")
    result = run(net)
    database = Database()
    database.apply(result["days"].to_pylist())
    # 1970-01-01 is a Thursday, so weeks begin on Thursdays: 2023-12-28, 2024-01-04.
    weeks = [dt.date(2023, 12, 28), dt.date(2024, 1, 4), dt.date(2024, 1, 11)]
    assert database.events == Counter(
        {(("x", 3, 2.0, 3, "/1/2/3"), weeks[0], weeks[1]): 1, (("x", 1, 9.0, 1, "/9"), weeks[1], weeks[2]): 1}
    )
    database = Database()
    database.apply(result["sliding"].to_pylist())
    assert sorted((start.day, end.day, payload) for payload, start, end in database.events) == [
        (2, 6, (2, 2.5, 2, "/2/3")),
        (6, 10, (1, 9.0, 1, "/9")),
        (8, 12, (1, 9.0, 1, "/9")),
        (29, 2, (1, 1.0, 1, "/1")),
        (31, 4, (3, 2.0, 3, "/1/2/3")),
    ]
    assert elements(result, "days")[-1] == ("p", float("inf"))
