"""Dedupe against DISTINCT ON over the whole input, for any disorder within the promise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64", "k": "string", "d": "double", "n": "int64"}
NAN = float("nan")
CONNECTION = duckdb.connect()


@st.composite
def duplicated(draw: Any) -> tuple[list[Any], int]:
    """Few values, so that many agree; times at most a bound behind the largest before them; and the bound."""
    step, bound = draw(st.sampled_from([1, 900, 10**9])), draw(st.integers(0, 6))
    rows, now = [], draw(st.integers(-3, 3))
    for number in range(draw(st.integers(0, 30))):
        now += draw(st.sampled_from([0, 0, 1]))
        ts = (now - draw(st.integers(0, bound))) * step
        rows.append((ts, draw(st.sampled_from([None, "a"])), draw(st.sampled_from([None, 0.0, -0.0, NAN])), number))
    return rows, bound * step


@settings(max_examples=tries(40))
@given(
    case=duplicated(),
    by=st.sampled_from([(), ("k",), ("d",), ("k", "d"), None]),
    train=st.sampled_from([None, 1, 3, 8]),
    buckets=st.integers(1, 3),
    tasks=st.integers(1, 3),
)
def test_it_is_distinct_on_whatever_the_cuts_and_buckets(
    case: Any, by: tuple[str, ...] | None, train: int | None, buckets: int, tasks: int
) -> None:
    rows, bound = case
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), progress=pk.delayed(bound))
    source.dedupe(by=by, name="once").output("out")
    seen: list[tuple[int, int, int]] = []

    def watch(record: Record) -> None:
        taken = record.inputs["in"].taken if "in" in record.inputs else 0
        held = record.boxes["once"].held_rows if "once" in record.boxes else 0
        seen.append((taken, held, record.marks["in"].of("ts")))

    result = net.run(engine="local", buckets=buckets, tasks=tasks, on_batch=watch)
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.int64()]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    table = pa.table([pa.array(c, t) for c, t in zip(columns, kinds, strict=True)], list(SCHEMA))
    keys = ", ".join(("ts", *(tuple(SCHEMA)[1:] if by is None else by)))

    def distinct(some: pa.Table) -> pa.Table:
        CONNECTION.register("tuples", some)
        return CONNECTION.sql(f"SELECT DISTINCT ON ({keys}) * FROM tuples ORDER BY n").to_arrow_table()

    found = result["out"]["n"].to_pylist()
    assert Counter(found) == Counter(distinct(table)["n"].to_pylist())
    for taken, held, mark in seen:
        ticks = distinct(table.slice(0, taken))["ts"].to_pylist()
        assert held == (sum(t >= mark for t in ticks) if mark < 2**63 - 1 else 0)
    if rows:
        work = result.record().boxes["once"]
        assert (work.tuples_in, work.tuples_out, work.released) == (len(rows), len(found), len(found))
