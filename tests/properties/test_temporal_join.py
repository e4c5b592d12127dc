"""Joins of temporal streams: after every batch the events are the join of the events of both sides, in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.journeys import by_every_way
from tests.properties.temporal import Database, Event, until
from tests.properties.temporal_source import temporal_source
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.settings import EXCHANGE, EXPRESS
from penstock.testing import play

PAYLOAD = {"k": "string", "v": "int64"}
Row = tuple[Any, ...]
PREDICATES: dict[str | None, Callable[[Any, Any], bool]] = {
    "l.k = r.k": lambda one, other: one[0] is not None and one[0] == other[0],
    "l.k = r.k AND l.v <= r.v": lambda one, other: one[0] is not None and one[0] == other[0] and one[1] <= other[1],
    "l.v < r.v": lambda one, other: one[1] < other[1],
    None: lambda one, other: True,
}


@dataclass(frozen=True)
class Batch:
    """What one side brings in one batch."""

    rows: tuple[Row, ...]
    refused: int
    stable: float
    events: Counter[Event]
    """All events of the side behind it."""

    def elements(self) -> list[Any]:
        stated = [] if self.stable == -math.inf else [pk.punctuation(sync=self.stable)]
        return [*self.rows, *stated]


class Side:
    """Draws a stream, element by element."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.database = Database()
        self.stable: float = -math.inf

    def batch(self) -> Batch:
        rows, refused = [], 0
        for _ in range(self.draw(st.integers(0, 5))):
            row, legal = self.element()
            refused += not legal
            rows.append(row)
            if legal:
                names = ("sync", "kind", "vs", "ve", "vold", *PAYLOAD)
                self.database.apply([dict(zip(names, row, strict=True))])
        step = self.draw(st.one_of(st.none(), st.integers(0, 8)))
        if step is not None:
            self.stable = max(self.stable, -2) + step
        return Batch(tuple(rows), refused, self.stable, Counter(self.database.events))

    def element(self) -> tuple[Row, bool]:
        least = int(max(self.stable, 0))
        able = [e for e in sorted(self.database.events.elements(), key=repr) if until(e[2]) >= self.stable]
        if able and self.draw(st.integers(0, 2)):
            payload, start, old = self.draw(st.sampled_from(able))
            # A removal goes back to the start, and so may only happen while nothing there is stable.
            lowest = max(start if start >= self.stable else start + 1, least)
            end = self.draw(st.one_of(st.none(), st.integers(lowest, max(lowest, 25))))
            if end == old:
                end = None if old is not None else lowest
            row = (min(until(old), until(end)), "adjust", start, end, old, *payload)
            return row, True
        payload = (self.draw(st.sampled_from(["x", "y", None])), self.draw(st.integers(0, 2)))
        start = self.draw(st.integers(least, least + 8))
        if self.draw(st.integers(0, 7)) == 0:
            # Nothing ends so late.
            return (start, "adjust", start, start, 1_000, *payload), False
        end = self.draw(st.one_of(st.none(), st.integers(start + 1, start + 9)))
        return (start, "insert", start, end, None, *payload), True


@dataclass(frozen=True)
class Case:
    predicate: str | None
    batches: tuple[tuple[Batch, Batch], ...]
    buckets: int

    def network(self, **script: Any) -> pk.Network:
        net = pk.Network("temporal")
        sides = []
        for side, name in enumerate(("a", "b")):
            elements = [e for batch in self.batches for e in batch[side].elements()]
            said = [pk.clock(1_000), *elements] if script else []
            sides.append(temporal_source(net, name, PAYLOAD, said, **script))
        sides[0].join(sides[1], self.predicate, name="pairs").output("pairs")
        return net

    def expected(self, batch: int) -> Counter[Event]:
        left, right = (side.events for side in self.batches[batch])
        found: Counter[Event] = Counter()
        for (one, start, stop), count in left.items():
            for (other, begin, end), times in right.items():
                both = max(start, begin), min(until(stop), until(end))
                if PREDICATES[self.predicate](one, other) and both[0] < both[1]:
                    found[(*one, *other), both[0], None if both[1] == math.inf else both[1]] += count * times
        return found


@st.composite
def cases(draw: Any) -> Case:
    sides = Side(draw), Side(draw)
    batches = tuple((sides[0].batch(), sides[1].batch()) for _ in range(draw(st.integers(1, 7))))
    return Case(draw(st.sampled_from([*PREDICATES])), batches, draw(st.integers(1, 3)))


@settings(max_examples=tries(40))
@given(case=cases())
def test_after_every_batch_events_are_the_join_of_the_events_of_both_sides(case: Case) -> None:
    script = [{name: batch[side].elements() for side, name in enumerate("ab")} for batch in case.batches]
    played = play(case.network(), script, buckets=case.buckets)
    database, stable, marks = Database(), -math.inf, played.marks("pairs", "sync")
    for number, elements in enumerate(played.batches("pairs")):
        assert all(element["sync"] >= stable for element in elements), f"{elements} below {stable}"
        assert marks[number] >= stable
        stable = marks[number]
        if number < len(case.batches) - 1:
            assert stable == min(side.stable for side in case.batches[number])
        database.apply(elements)
        assert database.events == case.expected(number)
    assert played.errors("pairs").num_rows == sum(side.refused for batch in case.batches for side in batch)
    assert played.records[-1].boxes["pairs"].held_rows == 0


@settings(max_examples=tries(5))
@given(case=cases(), ways=st.lists(st.sampled_from([EXPRESS, EXCHANGE]), min_size=1, max_size=5))
def test_any_way_leaves_the_same_bytes(case: Case, ways: list[str]) -> None:
    with by_every_way(lambda: case.network(train=3), ways, buckets=case.buckets) as mixed:
        database = Database()
        database.apply(mixed.result["pairs"].to_pylist())
        assert database.events == case.expected(-1)
