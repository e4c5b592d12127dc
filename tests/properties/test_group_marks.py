"""Marks of groups against plain Python: who is late, and in which batch every result leaves."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk

SCHEMA = {"ts": "int64", "device": "string", "v": "int64", "note": "string"}
"""Nobody asks for the notes, so they are read only of tuples that may be late; which leave whole."""
SIZE = 10


@dataclass(frozen=True)
class Case:
    elements: tuple[Any, ...]
    delay: int
    train: int
    shard_by: str | None
    buckets: int
    tasks: int


@st.composite
def cases(draw: Any) -> Case:
    """Devices whose clocks are off, and jitter; some come late, some fall silent."""
    count = draw(st.integers(5, 40))
    offsets = draw(st.lists(st.sampled_from([0, 0, 3, -12, 100]), min_size=1, max_size=4))
    devices = draw(st.lists(st.integers(0, len(offsets) - 1), min_size=count, max_size=count))
    jitter = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    elements: list[Any] = [
        (at + offsets[device] - late, None if device == 3 else f"d{device}", at % 3, f"n{at}")
        for at, (device, late) in enumerate(zip(devices, jitter, strict=True))
    ]
    shard_by = draw(st.sampled_from([None, None, "v"]))
    if shard_by is None:
        for place in sorted(draw(st.sets(st.integers(0, count), max_size=2)), reverse=True):
            elements.insert(place, pk.punctuation(ts=place - draw(st.integers(0, 12))))
    train, delay = draw(st.integers(1, 6)), draw(st.sampled_from([0, 2, 8]))
    return Case(tuple(elements), delay, train, shard_by, draw(st.integers(1, 3)), draw(st.integers(1, 2)))


def network(case: Case) -> pk.Network:
    net = pk.Network("groups")
    rows = pk.memory(case.elements, schema=SCHEMA, train=case.train, shard_by=case.shard_by)
    progress = pk.delayed(case.delay, by="device") if case.delay else pk.ordered(by=["device"])
    packets = net.source("in", rows, progress=progress)
    counts = {"n": "count(*)"}
    packets.aggregate(counts, on="ts", size=SIZE, by=["device", "v"]).output("own")
    some = packets.where("v > 0").map(dev="device", t="ts + 5")
    some.aggregate(counts, on="t", size=SIZE, advance=4, by="dev").output("some")
    packets.aggregate(counts, on="ts", size=SIZE).output("all")
    packets.late().output("late")
    return net


@dataclass
class Answer:
    """For each output, its rows and the batch in which they leave."""

    own: dict[tuple[Any, ...], int]
    some: dict[tuple[Any, ...], int]
    all: dict[tuple[Any, ...], int]
    late: Counter[tuple[Any, ...]]
    marks: list[float]
    """Of the whole stream, after each batch."""


def answer(case: Case) -> Answer:
    stated = stands = -math.inf
    reached: dict[Any, float] = {}
    taken: list[tuple[Any, ...]] = []
    late: Counter[tuple[Any, ...]] = Counter()
    history: list[tuple[float, dict[Any, float]]] = []
    cuts = range(0, len(case.elements), case.train)
    for cut in cuts:
        batch = case.elements[cut : cut + case.train]
        rows = [e for e in batch if isinstance(e, tuple)]
        in_time = [row for row in rows if row[0] >= max(stands, reached.get(row[1], -math.inf))]
        late.update(row for row in rows if row not in in_time)
        taken += in_time
        for ts, device, *_ in in_time:
            reached[device] = max(reached.get(device, -math.inf), ts - case.delay)
        stated = max([stated, *(dict(e.value)["ts"] for e in batch if not isinstance(e, tuple))])
        stands = max(stands, stated, min(reached.values(), default=-math.inf))
        history.append((stands, dict(reached)))
    history[-1] = (math.inf, {})

    def leaves(end: int, device: Any, *, own: bool) -> int:
        return next(
            batch
            for batch, (whole, groups) in enumerate(history)
            if max(whole, groups.get(device, -math.inf) if own else -math.inf) >= end
        )

    def windows(rows: list[tuple[int, Any]], advance: int, *, own: bool) -> dict[tuple[Any, ...], int]:
        counts: dict[Any, int] = defaultdict(int)
        for ts, group in rows:
            last = ts // advance
            for number in range((ts - SIZE) // advance + 1, last + 1):
                counts[number * advance, group] += 1
        return {
            (start, *group, n): leaves(start + SIZE, group[0] if group else None, own=own)
            for (start, group), n in counts.items()
        }

    own = windows([(ts, (device, v)) for ts, device, v, _ in taken], SIZE, own=True)
    shifted = {
        (start, device, n): leaves(start + SIZE - 5, device, own=True)
        for (start, device, n) in windows([(ts + 5, (d,)) for ts, d, v, _ in taken if v > 0], 4, own=False)
    }
    return Answer(own, shifted, windows([(ts, ()) for ts, *_ in taken], SIZE, own=False), late, [m for m, _ in history])


@settings(
    max_examples=tries(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(case=cases())
def test_groups_leave_by_their_own_marks_and_the_rest_by_the_smallest(case: Case) -> None:
    note(network(case).explain())
    left: list[dict[str, int]] = []
    marks: list[float] = []

    def look(record: Any) -> None:
        left.append(dict(record.outputs))
        mark = record.marks["in.groups"].of("ts")
        marks.append(math.inf if mark == 2**63 - 1 else -math.inf if mark == -(2**63) else mark)

    result = network(case).run(engine="local", buckets=case.buckets, tasks=case.tasks, on_batch=look)
    expected = answer(case)
    assert marks == expected.marks
    for output in ("own", "some", "all"):
        rows = [tuple(row.values()) for row in result[output].to_pylist()]
        found = {row: sum(counts[output] <= place for counts in left) for place, row in enumerate(rows)}
        assert len(found) == len(rows)
        assert found == getattr(expected, output), output
    for late in (result.late("in"), result["late"]):
        assert Counter(tuple(row.values()) for row in late.to_pylist()) == expected.late
    assert all(work.held_rows == 0 for work in result.record().boxes.values())
