"""Slack: what a shard states follows from its tuples in order of arrival, however they are cut and shared out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.extremes import NOTHING, Extremes
from penstock.progress.judge import judge
from penstock.progress.shards import shard_marks

SCHEMA = pa.schema({"ts": "int64", "u": "int64", "k": "string"})


def mark(values: list[int], slack: int) -> int:
    """The definition, in plain Python: the smallest value before which no more than `slack` larger ones have come."""
    candidates = [v for v in values if sum(w >= v for w in values) > slack]
    return max(candidates, default=BEGINNING)


def source(slack: int, other: Any = None) -> Source:
    net = pk.Network("net")
    progress = pk.slack(slack) if other is None else {"ts": pk.slack(slack), "u": other}
    net.source("in", pk.memory([], schema=SCHEMA), progress=progress).output("out")
    return net.network.sources[0]


def chunk(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"ts": [t for t, _ in rows], "u": [u for _, u in rows], "k": ["a"] * len(rows)}, SCHEMA)


times = st.lists(st.tuples(st.integers(-8, 20), st.integers(-8, 20)), max_size=30)
cuts = st.lists(st.integers(0, 30), max_size=6)


@settings(deadline=None)
@given(rows=times, slack=st.integers(0, 6), cuts=cuts, tasks=st.randoms(use_true_random=False))
def test_batches_and_tasks_may_cut_a_shard_anywhere(
    rows: list[tuple[int, int]], slack: int, cuts: list[int], tasks: Any
) -> None:
    """Batches one after the other, their tasks in any order; what is known goes through JSON, as it does in a run."""
    box, seen = source(slack, pk.slack(2)), NOTHING
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    for low, high in itertools.pairwise(edges):
        issued, middle = shard_marks(box, seen), tasks.randint(low, high)
        parts = [rows[low:middle], rows[middle:high]]
        tasks.shuffle(parts)
        found = [judge(box, chunk(part), issued).extremes(box, 1) for part in parts]
        for each in (e for e in found if e is not None):
            seen = Extremes.from_json(json.loads(json.dumps(seen.merge(each).to_json())))
        expected = {"ts": mark([t for t, _ in rows[:high]], slack), "u": mark([u for _, u in rows[:high]], 2)}
        assert shard_marks(box, seen).rising == expected, (
            "late tuples count, too: whether one is late depends on the cut"
        )


@settings(deadline=None)
@given(values=st.lists(st.integers(-8, 20), max_size=30), slack=st.integers(0, 6))
def test_below_the_mark_is_what_has_more_than_slack_larger_tuples_before_it(values: list[int], slack: int) -> None:
    for at, value in enumerate(values):
        assert (value < mark(values[:at], slack)) == (sum(before > value for before in values[:at]) > slack)


@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(st.tuples(st.integers(-8, 30), st.sampled_from("abc")), min_size=1, max_size=24),
    spare=st.integers(0, 2),
    train=st.integers(1, 9),
    tasks=st.integers(1, 3),
    buckets=st.integers(1, 3),
    shard_by=st.sampled_from([None, "k"]),
)
def test_an_input_that_keeps_its_slack_has_no_late_tuple_and_one_result_under_any_cut(
    rows: list[tuple[int, str]], spare: int, train: int, tasks: int, buckets: int, shard_by: str | None
) -> None:
    shards = {k: [t for t, other in rows if other == k or shard_by is None] for _, k in rows}
    slack = spare + max(sum(b > t for b in of[:at]) for of in shards.values() for at, t in enumerate(of))
    net = pk.Network("net")
    connector = pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=train, shard_by=shard_by)
    stream = net.source("in", connector, progress=pk.slack(slack), late="error")
    stream.aggregate({"n": "count(*)"}, on="ts", size=5, by="k").output("windows")
    marks: list[int] = []
    result = net.run("local", buckets=buckets, tasks=tasks, on_batch=lambda r: marks.append(r.marks["in"].of("ts")))
    assert Counter({(r["ts"], r["k"]): r["n"] for r in result["windows"].to_pylist()}) == Counter(
        (t // 5 * 5, k) for t, k in rows
    )
    for batch, found in enumerate(marks[:-1]):
        read = rows[: (batch + 1) * train]
        of_shards = [[t for t, other in read if other == k or shard_by is None] for k in shards]
        assert found == min(mark(values, slack) for values in of_shards)
    assert marks[-1] == END
