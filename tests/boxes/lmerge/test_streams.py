"""LMerge in networks: types, what is kept of facts, progress, and what leaves in an in-order system."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.boxes.lmerge.copies import ElementSource
from tests.operators.scripted import box_of

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.temporal.elements import element_schema
from penstock.algebra.ticks import BEGINNING, END
from penstock.testing import play

SCHEMA = {"ts": "int64", "k": "string"}
INF = math.inf


def pair(net: pk.Network, schema: Any = SCHEMA) -> list[pk.Stream]:
    return [net.source(name, pk.memory([], schema=schema), progress=pk.punctuated()) for name in ("a", "b")]


def test_a_fact_that_the_leading_copy_lacks_stays_if_it_has_left() -> None:
    net = pk.Network("net")
    pk.lmerge(*pair(net), name="m").output("out")
    script: Any = [
        {"a": [(1, "x")], "b": []},
        {"b": [(2, "y"), pk.punctuation(ts=5)]},
        {"a": [(1, "z"), (2, "y"), (6, "w")]},
    ]
    played = play(net, script)
    assert [[(r["ts"], r["k"]) for r in rows] for rows in played.batches("out")] == [[(1, "x")], [(2, "y")], [(6, "w")]]
    assert played.marks("m", "ts") == [-INF, 5, INF]


@pytest.mark.parametrize("insert", ["leading", "half-frozen", 1])
def test_facts_can_wait_until_they_are_certain(insert: Any) -> None:
    net = pk.Network("net")
    pk.lmerge(*pair(net), policy=pk.merge_policy(insert=insert), name="m").output("out")
    script: Any = [
        {"a": [pk.punctuation(ts=0)], "b": [(1, "not in a"), (2, "in both")]},
        {"a": [(2, "in both"), (3, "only in a")]},
        {"a": [pk.punctuation(ts=4)]},
        {"b": [(3, "too late")]},
    ]
    rows = [[r["k"] for r in batch] for batch in play(net, script).batches("out")]
    at_once = {"leading": ["in both", "only in a"], "half-frozen": [], 1: ["in both"]}[insert]
    rest = [k for k in ("in both", "only in a") if k not in at_once]
    assert rows == [[], at_once, rest, []]


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, 0, s, tzinfo=UTC) for s in range(5)]),
        (pa.date32(), [date(2020, 1, 1 + d) for d in range(5)]),
        (pa.uint8(), list(range(250, 255))),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", ["R2", "R3", "R3-", "R4"])
def test_times_and_payloads_of_any_type(case: str, kind: pa.DataType, times: list[Any]) -> None:
    payload = [
        pa.field("x", pa.float64()),
        pa.field("l", pa.list_(pa.struct([pa.field("i", pa.int64())]))),
        pa.field("d", pa.duration("us")),
        pa.field("b", pa.binary()),
    ]
    schema = element_schema(payload, kind)
    values = [(math.nan, [{"i": 1}], timedelta(seconds=1), b"z"), (0.0, None, None, None), (None, [], None, b"")]
    rows = [(t, "insert", t, None, None, *value) for t, value in zip(times, [*values, values[0]], strict=False)]
    if case != "R2":
        rows += [(times[4], "adjust", times[0], times[4], None, *values[0])]
    net = pk.Network("net")
    streams = []
    for name in ("a", "b"):
        connector = pk.memory(rows, schema=schema, train=2)
        source = pk.Network("aside").source(name, connector, on="sync", progress=pk.punctuated())._port.box
        given = {field: getattr(source, field) for field in Source.__dataclass_fields__ if field in vars(source)}
        streams.append(net._add(ElementSource(**given)))
    pk.lmerge(*streams, case=case, name="m").output("out")
    result = net.run(engine="local", buckets=2)
    out = result["out"].select(schema.names)
    assert result.errors("m").num_rows == 0
    assert out.schema.types == schema.types
    found = pk.tdb(out)
    assert found.num_rows == 4
    assert sorted(found["vs"].to_pylist()) == times[:4]
    assert found["ve"].to_pylist().count(times[4]) == (case != "R2")


def test_progress_is_that_of_the_furthest_and_ends_with_the_first() -> None:
    net = pk.Network("net")
    box = box_of(pk.lmerge(*pair(net), policy=pk.merge_policy(stable=3)))
    assert box.progress(0, [Marks({"ts": 7}), Marks({"ts": 9})]) == Marks({"ts": 6})
    assert box.progress(0, [Marks({"ts": BEGINNING}), Marks({"ts": BEGINNING})]) == Marks({"ts": BEGINNING})
    assert box.progress(0, [Marks({"ts": 7}), Marks({"ts": END}, ended=True)]) == Marks({"ts": END}, ended=True)
    assert box.progress(1, [Marks({"ts": 7}), Marks({"ts": END}, ended=True)]) == Marks()


@pytest.mark.parametrize("case", ["R0", "R2", "R3"])
def test_an_in_order_system_gives_the_same(case: str) -> None:
    rows = [(ts, "xyz"[ts % 3]) for ts in range(20)]
    found = []
    for architecture in ("out-of-order", "in-order"):
        net = pk.Network("net")
        copies = [net.source(name, pk.memory(rows, schema=SCHEMA, train=t)) for name, t in (("a", 3), ("b", 7))]
        pk.lmerge(*copies, case=case).aggregate({"n": "count(*)"}, on="ts", size=5, by="k").output("out")
        out = net.run(engine="local", architecture=architecture)["out"]
        found.append(sorted(map(str, out.to_pylist())))
    assert found[0] == found[1]
    assert len(found[0]) == 12
