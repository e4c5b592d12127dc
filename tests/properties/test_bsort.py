"""BSort against a heap for each group: lossless, and the same whatever the cuts and buckets."""

from __future__ import annotations

import contextlib
import heapq
import tempfile
from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.boxes.assume.verb import assume
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64", "k": "string", "j": "int64", "v": "int64"}
Row = tuple[int, str | None, int, int | None]

ROWS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.integers(0, 1), st.one_of(st.none(), st.integers(-4, 4))),
    max_size=30,
).map(lambda some: [(ts, *row) for ts, row in enumerate(some)])
BY = st.sampled_from([(), ("k",), ("k", "j")])
TRAINS = st.sampled_from([None, 1, 2, 5])


def group(row: Row, by: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[list(SCHEMA).index(name)] for name in by)


def bubbled(rows: list[Row], slack: int, by: tuple[str, ...]) -> list[Row]:
    """What leaves, in the order of what made it leave; at the end place by place of all groups."""
    buffers: dict[Any, list[Any]] = defaultdict(list)
    out = []
    for number, row in enumerate(rows):
        buffer = buffers[group(row, by)]
        heapq.heappush(buffer, ((row[3] is not None, row[3] or 0), number, row))
        if len(buffer) > slack:
            out.append(heapq.heappop(buffer)[2])
    left = [(place, entry[2]) for buffer in buffers.values() for place, entry in enumerate(sorted(buffer))]
    return out + [row for _, row in sorted(left, key=lambda pair: (pair[0], pair[1][0]))]


def rows_of(result: pk.Result, output: str) -> list[Any]:
    return [tuple(row.values()) for row in result[output].to_pylist()]


def check_progress(result: pk.Result, output: str) -> None:
    """No tuple lies below what was stated before it, and the stream ends."""
    stated: dict[str, float] = {}
    for element in result.elements(output):
        if isinstance(element, dict):
            assert all(element[a] is None or element[a] >= mark for a, mark in stated.items()), element
        else:
            assert all(mark > stated.get(a, -float("inf")) for a, mark in element.value)
            stated.update(element.value)
    assert all(mark == float("inf") for mark in stated.values())


@settings(max_examples=tries(40))
@given(rows=ROWS, slack=st.integers(0, 6), by=BY, train=TRAINS, buckets=st.integers(1, 3), tasks=st.integers(1, 2))
def test_it_is_a_heap_whatever_the_cuts_and_buckets(
    rows: list[Row], slack: int, by: tuple[str, ...], train: int | None, buckets: int, tasks: int
) -> None:
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train))
    source.bsort(on="v", slack=slack, by=by, name="sort").output("out")
    seen: list[tuple[int, int]] = []

    def watch(record: Record) -> None:
        taken = record.inputs["in"].taken if "in" in record.inputs else 0
        seen.append((taken, record.boxes["sort"].held_rows if "sort" in record.boxes else 0))

    result = net.run(engine="local", buckets=buckets, tasks=tasks, on_batch=watch)
    found, wanted = rows_of(result, "out"), bubbled(rows, slack, by)
    assert Counter(found) == Counter(rows)
    for one in {group(row, by) for row in rows}:
        assert [r for r in found if group(r, by) == one] == [r for r in wanted if group(r, by) == one]
    for taken, held in seen[:-1]:
        sizes = Counter(group(row, by) for row in rows[:taken])
        assert held == sum(min(slack, size) for size in sizes.values())
    assert not seen or seen[-1][1] == 0
    check_progress(result, "out")


@settings(max_examples=tries(30))
@given(rows=ROWS, slack=st.integers(0, 4), by=BY, then=st.integers(0, 3), train=TRAINS, buckets=st.integers(1, 3))
def test_what_follows_sees_the_order_of_departure(
    rows: list[Row], slack: int, by: tuple[str, ...], then: int, train: int | None, buckets: int
) -> None:
    """An order that is assumed behind a BSort in groups: judged alike however the groups are spread."""
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train))
    assume(source.bsort(on="v", slack=slack, by=by), pk.order("v", then), name="order").output("out")
    result = net.run(engine="local", buckets=buckets, tasks=2)
    arrivals = bubbled(rows, slack, by)
    late = [
        row
        for at, row in enumerate(arrivals)
        if row[3] is None or sum(r[3] is not None and r[3] > row[3] for r in arrivals[:at]) > then
    ]
    assert rows_of(result, "order!late") == late
    assert rows_of(result, "out") == [row for row in arrivals if row not in late]


class InterruptError(Exception):
    pass


@settings(max_examples=tries(12))
@given(rows=ROWS, by=BY, train=st.sampled_from([1, 2, 5]), after=st.integers(0, 6), buckets=st.integers(1, 2))
def test_a_run_interrupted_after_any_batch_goes_on_to_the_same_answer(
    rows: list[Row], by: tuple[str, ...], train: int, after: int, buckets: int
) -> None:
    """All boxes on the order of arrival at once, so that all of their state is left and taken up again."""

    def build() -> pk.Network:
        net = pk.Network("net")
        script = pk.memory(rows, schema=SCHEMA, train=train)
        source = net.source("in", script, progress=pk.delayed(7))
        source.bsort(on="v", slack=2, by=by).output("sorted")
        assume(source, pk.order("v", 1, by), name="order").output("in order")
        source.cleanse(by=by).output("tidy")
        pk.merge(source, source).output("merged")
        source.map(ts="ts / 4", v="v").dedupe().output("distinct")
        return net

    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    whole = build().run(engine="local", buckets=buckets, tasks=1)
    with tempfile.TemporaryDirectory() as checkpoint:
        with contextlib.suppress(InterruptError):
            build().run(engine="local", buckets=buckets, tasks=1, checkpoint=checkpoint, on_batch=interrupt)
        again = build().run(engine="local", buckets=buckets, tasks=1, checkpoint=checkpoint)
        for output in ("sorted", "in order", "tidy", "merged", "distinct"):
            assert again[output].equals(whole[output])
