"""Marks of groups behind unions, dedupe and joins, against plain Python: in which batch every result leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk

SCHEMA = {"ts": "int64", "device": "string", "v": "int64"}
SIZE = 10
Row = tuple[int, Any, int]


@dataclass(frozen=True)
class Input:
    elements: tuple[Any, ...]
    delay: int
    train: int
    grouped: bool


@dataclass(frozen=True)
class Case:
    inputs: tuple[Input, ...]
    band: tuple[int, int]
    buckets: int
    tasks: int


@st.composite
def inputs(draw: Any, grouped: bool) -> Input:
    """Devices whose clocks are off, and jitter; some come late, some in one of the inputs only."""
    count = draw(st.integers(3, 14))
    offsets = draw(st.lists(st.sampled_from([0, 3, -12, 100]), min_size=1, max_size=4))
    devices = draw(st.lists(st.integers(0, len(offsets) - 1), min_size=count, max_size=count))
    jitter = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    elements: list[Any] = [
        (2 * at + offsets[device] - late, None if device == 3 else f"d{device}", at % 2)
        for at, (device, late) in enumerate(zip(devices, jitter, strict=True))
    ]
    if draw(st.booleans()):
        elements.insert(draw(st.integers(0, count)), pk.punctuation(ts=draw(st.integers(-5, count))))
    return Input(tuple(elements), draw(st.sampled_from([0, 2, 8])), draw(st.integers(2, 6)), grouped)


@st.composite
def cases(draw: Any) -> Case:
    kinds = [True, draw(st.booleans()), *draw(st.lists(st.booleans(), max_size=1))]
    found = tuple(draw(inputs(grouped)) for grouped in draw(st.permutations(kinds)))
    band = draw(st.sampled_from([(0, 0), (3, 3), (0, 8), (-2, 5)]))
    return Case(found, band, draw(st.integers(1, 3)), draw(st.integers(1, 2)))


def network(case: Case) -> pk.Network:
    net, streams = pk.Network("streams"), []
    for number, each in enumerate(case.inputs):
        by = "device" if each.grouped else ()
        rows = pk.memory(each.elements, schema=SCHEMA, train=each.train)
        streams.append(net.source(f"in{number}", rows, progress=pk.delayed(each.delay, by=by)))
    counts = {"n": "count(*)"}
    together = pk.union(*streams, name="together")
    together.aggregate(counts, size=SIZE, by=["v", "device"], name="of_union").output("union")
    parts = pk.union(together.where("v > 0"), together.where("v = 0"))
    first = parts.dedupe(by=("device", "v"))
    first.aggregate(counts, size=SIZE, advance=4, by="device", name="of_first").output("dedupe")
    left, right = streams[0], streams[1]
    pairs = left.join(right, "l.device = r.device", on="ts", band=case.band)
    pairs.aggregate(counts, on="l_ts", size=SIZE, by="r_device", name="of_left").output("left")
    renamed = pairs.where("l_v = 0").map(t="r_ts + 3", unit="l_device")
    renamed.aggregate(counts, on="t", size=SIZE, by="unit", name="of_right").output("right")
    return net


@dataclass(frozen=True)
class Told:
    """What one input has taken, and has said after every batch: the mark of the stream, and of groups."""

    taken: list[Row]
    history: list[tuple[float, dict[Any, float]]]

    def mark(self, batch: int, device: Any) -> float:
        stream, groups = self.history[min(batch, len(self.history) - 1)]
        return max(stream, groups.get(device, -math.inf))


def told(each: Input) -> Told:
    stands = -math.inf
    reached: dict[Any, float] = {}
    found = Told([], [])
    for cut in range(0, len(each.elements), each.train):
        batch = each.elements[cut : cut + each.train]
        rows = [e for e in batch if isinstance(e, tuple)]
        group = {row: row[1] if each.grouped else "all" for row in rows}
        in_time = [row for row in rows if row[0] >= max(stands, reached.get(group[row], -math.inf))]
        found.taken.extend(in_time)
        for row in in_time if each.grouped else rows:
            reached[group[row]] = max(reached.get(group[row], -math.inf), row[0] - each.delay)
        stated = [dict(e.value)["ts"] for e in batch if not isinstance(e, tuple)]
        stands = max([stands, *stated, min(reached.values(), default=-math.inf)])
        found.history.append((stands, dict(reached)))
    found.history[-1] = (math.inf, {})
    return found


def windows(rows: Iterable[tuple[int, Any]], advance: int = SIZE) -> Counter[tuple[int, Any]]:
    """How many rows of each group lie in each window."""
    return Counter(
        (number * advance, group)
        for ts, group in rows
        for number in range((ts - SIZE) // advance + 1, ts // advance + 1)
    )


def answer(case: Case) -> dict[str, dict[tuple[Any, ...], int]]:
    """For every output its rows, and the batch in which they leave."""
    spoken = [told(each) for each in case.inputs]
    batches = range(max(len(each.history) for each in spoken))
    taken = [row for each in spoken for row in each.taken]
    left, right = spoken[:2]
    before, after = case.band
    pairs = [
        (x, y) for x in left.taken for y in right.taken
        if x[1] == y[1] is not None and x[0] - before <= y[0] <= x[0] + after
    ]  # fmt: skip

    def leaves(end: int, device: Any) -> int:
        return next(b for b in batches if min(each.mark(b, device) for each in spoken) >= end)

    def pair_leaves(end: int, device: Any, of_left: int, of_right: int) -> int:
        return next(b for b in batches if min(left.mark(b, device) - of_left, right.mark(b, device) - of_right) >= end)

    apart = windows((ts, (v, device)) for ts, device, v in taken)
    first = windows(((ts, device) for ts, device, _ in {*taken}), 4)
    of_left = windows((x[0], x[1]) for x, _ in pairs)
    of_right = windows((y[0] + 3, y[1]) for x, y in pairs if x[2] == 0)
    return {
        "union": {(s, v, d, n): leaves(s + SIZE, d) for (s, (v, d)), n in apart.items()},
        "dedupe": {(s, d, n): leaves(s + SIZE, d) for (s, d), n in first.items()},
        "left": {(s, d, n): pair_leaves(s + SIZE, d, 0, after) for (s, d), n in of_left.items()},
        "right": {(s, d, n): pair_leaves(s + SIZE - 3, d, before, 0) for (s, d), n in of_right.items()},
    }


@settings(
    max_examples=tries(8), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(case=cases())
def test_a_group_leaves_when_it_has_come_far_enough_in_every_stream(case: Case) -> None:
    net = network(case)
    note(net.explain())
    left: list[dict[str, int]] = []
    cuts = {"buckets": case.buckets, "tasks": case.tasks}
    result = net.run(engine="local", **cuts, on_batch=lambda record: left.append(dict(record.outputs)))
    for output, expected in answer(case).items():
        rows = [tuple(row.values()) for row in result[output].to_pylist()]
        found = {row: sum(counts[output] <= place for counts in left) for place, row in enumerate(rows)}
        assert len(found) == len(rows)
        assert found == expected, output
    assert all(work.held_rows == 0 for work in result.record().boxes.values())
