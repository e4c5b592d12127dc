"""Lifetimes of tuples: lengths and expressions on every type of time, and ends that cannot be."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import penstock as pk

DAY = dt.date(2026, 1, 1)
MOMENT = dt.datetime(2026, 1, 1, 12)


def events(rows: list[tuple[Any, ...]], kind: str, end: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema={"ts": kind, "k": "string", "late": kind}))
    source.as_temporal(end=end, name="events").output("out")
    result = net.run(engine="local")
    lives = [(row["sync"], row["vs"], row["ve"], row["k"]) for row in result["out"].to_pylist()]
    return lives, result.errors("events")["reason"].to_pylist() if end is not None else []


@pytest.mark.parametrize(
    ("kind", "start", "end", "expected"),
    [
        ("int64", 7, 5, 12),
        ("int8", 7, 5, 12),
        ("uint32", 7, "5", 12),
        ("date", DAY, "2 days", DAY + dt.timedelta(days=2)),
        ("timestamp[ms]", MOMENT, "1 minute 30 s", MOMENT + dt.timedelta(seconds=90)),
        ("timestamp[us]", MOMENT, dt.timedelta(hours=1), MOMENT + dt.timedelta(hours=1)),
        ("timestamp[us]", MOMENT, "ts + INTERVAL 1 HOUR", MOMENT + dt.timedelta(hours=1)),
        ("int64", 7, "CASE WHEN k = 'a' THEN ts * 2 END", 14),
        ("int64", 7, None, None),
    ],
)
def test_an_end_is_a_length_an_expression_or_never(kind: str, start: Any, end: Any, expected: Any) -> None:
    assert events([(start, "a", None)], kind, end) == ([(start, start, expected, "a")], [])


def test_an_end_that_the_type_has_no_room_for_is_refused() -> None:
    lives, reasons = events([(100, "a", None), (120, "b", None)], "int8", 10)
    assert lives == [(100, 100, 110, "a")]
    assert [reason.split(":")[0] for reason in reasons] == ["the end is out of range"]


def test_an_end_must_be_after_the_start_and_within_all_times() -> None:
    rows = [(1, "a", 5), (2, "b", 2), (3, "c", 1), (4, "d", None), (5, "e", 2**63 - 1)]
    lives, reasons = events(rows, "int64", "late")
    assert lives == [(1, 1, 5, "a"), (4, 4, None, "d")]
    assert [reason.split(":")[0] for reason in reasons] == [
        "the end is not after ts",
        "the end is not after ts",
        "the end is out of range",
    ]
