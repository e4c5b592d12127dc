"""Windows mean the same on every type that can progress, and groups of any type are kept apart (local engine)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.ticks import from_ticks, tick_ns, to_ticks

DAY_MS = 86_400_000
TICKS = [3, 1, 4, 9, 12, 7, 15, 22, 21, 30, 26]
SPAN = pk.window_function(final=lambda w: str(w["at"].dtype), returns="string", columns="at")
VALUES = pk.window_function(final=lambda w: w["v"].tolist(), returns="list<int64>", columns="v")


def spans(kind: pa.DataType, ticks: int) -> Any:
    if pa.types.is_integer(kind):
        return ticks
    unit = DAY_MS * 1_000_000 if pa.types.is_date64(kind) else tick_ns(kind)
    assert unit is not None
    return f"{ticks * unit} ns"


@cache
def windows(kind: pa.DataType) -> list[pa.Table]:
    """The results of every kind of window on an attribute of a type; starts as small numbers."""
    scale = DAY_MS if pa.types.is_date64(kind) else 1
    at = from_ticks(pa.array([tick * scale for tick in TICKS], pa.int64()), kind)
    rows = pa.table({"at": at, "k": ["x", "y"] * 5 + ["x"], "v": list(range(11))})
    net = pk.Network("types")
    source = net.source("in", pk.memory(rows, train=4), on="at", progress=pk.delayed(spans(kind, 9)))
    size, step = spans(kind, 10), spans(kind, 5)
    kinds: list[dict[str, Any]] = [
        {"size": size},
        {"size": size, "advance": step, "by": "k"},
        {"size": size, "origin": "first", "by": "k"},
        {"size": size, "advance": "v % 3 = 0"},
        {"size": size, "assuming": pk.order("at", 1, "k"), "by": "k"},
        {"size": size, "timeout": "1 hour"},
    ]
    outputs = {"n": "count(*)", "vs": VALUES, "told": SPAN}
    for number, arguments in enumerate(kinds):
        source.aggregate(outputs, **arguments).output(str(number))
    result = net.run("local", buckets=2, tasks=2)
    found = []
    for number in range(len(kinds)):
        table = result[str(number)]
        starts = pa.array(to_ticks(table.column("at")).to_numpy() // scale)
        table = table.set_column(0, "at", starts)
        found.append(table.drop_columns(["told"]).sort_by([("at", "ascending"), ("n", "ascending")]))
        assert set(table.column("told").to_pylist()) == {str(at.to_numpy(zero_copy_only=False).dtype)}
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.date32(),
        pa.date64(),
        pa.timestamp("ms", tz="UTC"),
        pa.timestamp("ns"),
    ],
    ids=str,
)
def test_windows_on_every_type(kind: pa.DataType) -> None:
    assert windows(kind) == windows(pa.int64())


def test_groups_of_any_type() -> None:
    keys = [
        pa.array([1.5, -0.0, 0.0, float("nan"), float("nan"), None, None, 1.5]),
        pa.array([[1], [], [], None, None, [2], [2], [1]]),
        pa.array([b"a", b"", b"", b"b", b"b", None, None, b"a"]),
        pa.array(["é", "", "", "z", "z", None, None, "é"]).dictionary_encode(),
        pa.array([{"a": 1}, {"a": None}, {"a": None}, {"a": 3}, {"a": 3}, None, None, {"a": 1}]),
    ]
    for key in keys:
        net = pk.Network("groups")
        source = net.source("in", pk.memory(pa.table({"ts": range(8), "g": key, "h": [0] * 8}), train=3))
        outputs = {"vs": pk.window_function(final=lambda w: w["ts"].tolist(), returns="list<int64>", columns="ts")}
        source.aggregate(outputs, size=100, by="g").output("plain")
        source.aggregate(outputs, on=pk.TUPLE_NUMBER, size=2, by=["g", "h"]).output("tuples")
        source.aggregate(outputs, size=100, by=["g", "h"], assuming=pk.order("ts", 0, "g")).output("ordered")
        result = net.run("local", buckets=2, tasks=2)
        for name in ("plain", "tuples", "ordered"):
            assert sorted(result[name]["vs"].to_pylist()) == [[0, 7], [1, 2], [3, 4], [5, 6]], (key.type, name)
