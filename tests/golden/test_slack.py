"""Slack: a tuple may have so many larger ones before it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.conftest import Runner

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string"}
ARRIVAL = (3, 7, 5, 12, 6, 14, 2, 21)
"""Before 6 come two larger ones, 7 and 12; before 2 come six."""


def _network(slack: int, train: int, **options: Any) -> pk.Network:
    net = pk.Network("net")
    connector = pk.memory([(t, "a" if t % 2 else "b") for t in ARRIVAL], schema=SCHEMA, train=train)
    packets = net.source("packets", connector, progress=pk.slack(slack), **options)
    packets.aggregate({"n": "count(*)"}, on="ts", size=5, name="count").output("counts")
    return net


@pytest.mark.parametrize(
    ("slack", "train", "late", "marks"),
    [
        # 3     7     5     12    6     14    2     21
        (2, 1, [2], ["-inf", "-inf", 3, 5, 6, 7, 7, "inf"]),
        (1, 1, [6, 2], ["-inf", 3, 5, 7, 7, 12, 12, "inf"]),
        (6, 1, [], ["-inf", "-inf", "-inf", "-inf", "-inf", "-inf", 2, "inf"]),
        (2, 2, [2], ["-inf", 5, 7, "inf"]),
        (1, 4, [6, 2], [7, "inf"]),
        (1, 8, [], ["inf"]),
    ],
)
def test_the_mark_is_the_smallest_of_the_largest(
    run: Runner, slack: int, train: int, late: list[int], marks: list[Any]
) -> None:
    stated: list[Any] = []
    result = run(_network(slack, train), on_batch=lambda r: stated.append(_shown(r.marks["packets"].of("ts"))))
    assert stated == marks
    assert result.late("packets")["ts"].to_pylist() == late
    taken = [t for t in ARRIVAL if t not in late]
    assert {row["ts"]: row["n"] for row in result["counts"].to_pylist()} == {
        start: sum(t // 5 * 5 == start for t in taken) for start in sorted({t // 5 * 5 for t in taken})
    }


def _shown(tick: int) -> Any:
    return {-(2**63): "-inf", 2**63 - 1: "inf"}.get(tick, tick)


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("last", [0, 1, 4])
def test_what_was_counted_outlives_a_restart(tmp_path: Any, last: int) -> None:
    stated: list[Any] = []

    def interrupt(record: Any) -> None:
        stated.append(_shown(record.marks["packets"].of("ts")))
        if record.batch == last:
            raise InterruptError

    folder = str(tmp_path / "checkpoint")
    with pytest.raises(InterruptError):
        _network(2, 1).run("local", checkpoint=folder, buckets=2, on_batch=interrupt)
    result = _network(2, 1).run(
        "local", checkpoint=folder, buckets=2, on_batch=lambda r: stated.append(_shown(r.marks["packets"].of("ts")))
    )
    assert stated == ["-inf", "-inf", 3, 5, 6, 7, 7, "inf"]
    assert result.late("packets")["ts"].to_pylist() == [2]


def test_downwards_the_largest_of_the_smallest_counts(run: Runner) -> None:
    net = pk.Network("countdown")
    ticks = pk.memory([(t,) for t in (9, 7, 5, 8, 3, 6)], schema={"left": "int64"}, train=1)
    stream = net.source("ticks", ticks, on="left", progress=pk.slack(1, descending=True))
    stream.output("out")
    assert run(net).late("ticks")["left"].to_pylist() == [8, 6]
