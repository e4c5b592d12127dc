"""Cleanse and Merge against a sort of the whole input, for any disorder within the promise."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record

EPOCH = dt.datetime(1970, 1, 1)
KINDS: dict[str, tuple[Any, Any]] = {
    "int64": (lambda n: n, lambda n: n),
    "timestamp[us]": (lambda n: EPOCH + dt.timedelta(milliseconds=n), lambda n: f"{n} ms"),
    "date": (lambda n: EPOCH.date() + dt.timedelta(days=n), lambda n: f"{n} days"),
}
TICKS = {"int64": 1, "timestamp[us]": 1000, "date": 1}


@st.composite
def disordered(draw: Any) -> tuple[list[tuple[int, str | None, int]], int]:
    """Rows whose times are at most a bound behind the largest before them, and the bound."""
    step = draw(st.sampled_from([1, 700, 40_000]))
    bound = draw(st.integers(0, 6))
    rows, now = [], draw(st.integers(-8, 8))
    for number in range(draw(st.integers(0, 25))):
        now += draw(st.integers(0, 2))
        rows.append(((now - draw(st.integers(0, bound))) * step, draw(st.sampled_from([None, "a", "b"])), number))
    return rows, bound * step


@settings(max_examples=tries(50))
@given(
    inputs=st.lists(disordered(), min_size=1, max_size=3),
    kind=st.sampled_from(sorted(KINDS)),
    by=st.sampled_from([(), ("k",)]),
    trains=st.lists(st.sampled_from([None, 1, 3, 7]), min_size=3, max_size=3),
    shard_by=st.sampled_from([None, "k"]),
    buckets=st.integers(1, 3),
)
def test_it_is_a_sort_of_the_whole_and_stable_for_each_input(
    inputs: list[Any], kind: str, by: tuple[str, ...], trains: list[int | None], shard_by: str | None, buckets: int
) -> None:
    value, length = KINDS[kind]
    net = pk.Network("net")
    streams, promised = [], []
    for number, (rows, bound) in enumerate(inputs):
        typed = [(value(ts), k, n) for ts, k, n in rows]
        script = pk.memory(
            typed, schema={"ts": kind, "k": "string", "n": "int64"}, train=trains[number], shard_by=shard_by
        )
        source = net.source(f"in{number}", script, progress=pk.delayed(length(bound)))
        streams.append(source.map(ts="ts", k="k", n="n", input=str(number)))
        promised.append(typed)
    made = pk.merge(*streams, name="sort") if len(streams) > 1 else streams[0].cleanse(by=by, name="sort")
    made.output("out")
    seen: list[tuple[list[int], int, int]] = []

    def watch(record: Record) -> None:
        counts = [record.inputs.get(f"in{number}") for number in range(len(streams))]
        taken = [count.taken if count is not None else 0 for count in counts]
        held = record.boxes["sort"].held_rows if "sort" in record.boxes else 0
        seen.append((taken, held, record.marks["sort"].of("ts")))

    result = net.run(engine="local", buckets=buckets, tasks=2, on_batch=watch)
    found = [tuple(row.values()) for row in result["out"].to_pylist()]
    if shard_by is None:
        # Ties of one input leave in order of arrival; those of several inputs when they come.
        for number, rows in enumerate(promised):
            for group in (None, "a", "b"):
                wanted = sorted((r for r in rows if r[1] == group), key=lambda row: row[0])
                assert [r[:3] for r in found if r[1] == group and r[3] == number] == wanted
    assert Counter(found) == Counter((*row, number) for number, rows in enumerate(promised) for row in rows)
    if not by or len(streams) > 1:
        assert [r[0] for r in found] == sorted(r[0] for r in found)
    if shard_by is None:
        for taken, held, mark in seen:
            ticks = [ts * TICKS[kind] for (rows, _), n in zip(inputs, taken, strict=True) for ts, *_ in rows[:n]]
            assert held == (sum(t > mark for t in ticks) if mark < 2**63 - 1 else 0)
