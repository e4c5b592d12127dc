"""What pairs wait for, against plain Python: after every batch the ticks of both times that let any group go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.marks import Mark
from penstock.runtime.board import Record

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    left: tuple[int, ...]
    right: tuple[int, ...]
    band: tuple[int, int]
    size: int
    advance: int
    train: int
    buckets: int


@st.composite
def cases(draw: Any) -> Case:
    left, right = (tuple(sorted(draw(st.lists(st.integers(0, 25), min_size=2, max_size=10)))) for _ in "lr")
    band = draw(st.sampled_from([(4, 4), (0, 9), (-2, 6), (30, 30)]))
    size, advance = draw(st.sampled_from([(1, 1), (3, 3), (6, 2), (5, 3), (2, 4)]))
    return Case(left, right, band, size, advance, draw(st.integers(1, 4)), draw(st.integers(1, 2)))


def fronts(ends: set[Pair]) -> list[Pair]:
    return sorted(x for x in ends if not any(y != x and y[0] <= x[0] and y[1] <= x[1] for y in ends))


def open_groups(case: Case, batch: int, record: Record) -> set[Pair]:
    """(end of the window on r, value of l) of the groups that have come and not left."""
    came = [side[: (batch + 1) * case.train] for side in (case.left, case.right)]
    before, after = case.band
    pairs = [(x, y) for x in came[0] for y in came[1] if x - before <= y <= x + after]
    windows = {
        (w * case.advance + case.size, x)
        for x, y in pairs
        for w in range((y - case.size) // case.advance + 1, y // case.advance + 1)
    }
    left, right = (record.marks[name].of("ts") for name in ("left", "right"))
    alone = record.marks["pairs"].of("r_ts")
    return {(end, x) for end, x in windows if alone < end and not (right >= end and left > x)}


@settings(max_examples=tries(8), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(case=cases())
def test_what_is_waited_for_is_all_that_lets_a_group_go_and_no_more(case: Case) -> None:
    net = pk.Network("needs")
    left, right = (
        net.source(name, pk.memory([(ts,) for ts in rows], schema={"ts": "int64"}, train=case.train))
        for name, rows in (("left", case.left), ("right", case.right))
    )
    pairs = left.join(right, on="ts", band=case.band, name="pairs")
    window = {"on": "r_ts", "size": case.size, "advance": case.advance}
    pairs.aggregate({"n": "count(*)"}, by="l_ts", name="count", **window).output("counts")
    found: list[list[Pair]] = []
    expected: list[list[Pair]] = []

    def look(record: Record) -> None:
        (jointly,) = [need.jointly for need in record.waiting] or [()]
        found.append([(way[Mark("r_ts", "right")], way[Mark("l_ts", "left")]) for way in jointly])
        expected.append(fronts({(end, x + 1) for end, x in open_groups(case, len(expected), record)}))

    net.run(engine="local", buckets=case.buckets, on_batch=look)
    assert found == expected
