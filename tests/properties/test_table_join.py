"""Joins with static tables give what SQL says of the whole input, whatever its order, trains, shards and buckets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.networks import oracle_connection
from tests.thoroughness import tries

import penstock as pk

STREAM = pa.schema({"ts": pa.int64(), "k": pa.int64(), "s": pa.string(), "id": pa.int64()})
TABLE = pa.schema({"k": pa.int64(), "s": pa.string(), "lo": pa.int64(), "hi": pa.int64()})
PREDICATES = (
    "l.k = r.k",
    "l.k = r.k AND l.s = r.s",
    "l.s = r.s AND l.ts >= r.lo",
    "l.ts BETWEEN r.lo AND r.hi",
    "l.k = r.k OR l.s = r.s",
    "l.k + 1 = r.lo - r.hi",
    "l.k IS NOT DISTINCT FROM r.k",
    "r.hi > 5",
    "l.ts > 3",
    "true",
)
HOW = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN"}

KEYS = st.one_of(st.none(), st.integers(0, 4))
TEXTS = st.sampled_from([None, "", "a", "b"])
SMALL = st.one_of(st.none(), st.integers(0, 9))


@dataclass(frozen=True)
class Case:
    rows: list[tuple[Any, ...]]
    """Of the stream, as they arrive."""
    table: pa.Table
    predicate: str
    how: str
    train: int | None
    shard_by: str | None
    buckets: int
    tasks: int

    @property
    def stream(self) -> pa.Table:
        return _table(self.rows, STREAM)


@st.composite
def cases(draw: Any) -> Case:
    rows = draw(st.lists(st.tuples(st.integers(0, 12), KEYS, TEXTS), max_size=20))
    rows = [(*row, number) for number, row in enumerate(rows)]
    table = draw(st.lists(st.tuples(KEYS, TEXTS, SMALL, SMALL), max_size=8))
    return Case(
        rows,
        _table(table, TABLE),
        draw(st.sampled_from(PREDICATES)),
        draw(st.sampled_from(sorted(HOW))),
        draw(st.sampled_from([None, 1, 3, 7])),
        draw(st.sampled_from([None, "s"])),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def source(case: Case) -> tuple[pk.Network, pk.Stream]:
    """Disorder is bounded by all there is, so that no tuple is late."""
    net = pk.Network("net")
    connector = pk.memory(case.rows, schema=STREAM, train=case.train, shard_by=case.shard_by)
    return net, net.source("in", connector, progress=pk.delayed(12))


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def answer(sql: str, **tables: pa.Table) -> pa.Table:
    with oracle_connection() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


@settings(max_examples=tries(60), suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_a_join_is_what_sql_says_of_the_whole_input(case: Case) -> None:
    net, stream = source(case)
    joined = stream.join(pk.table(case.table), case.predicate, how=case.how)
    joined.output("o")
    result = net.run("local", buckets=case.buckets, tasks=case.tasks)
    shown = "l.*, r.k AS r_k, r.s AS r_s, r.lo, r.hi" if case.how in ("inner", "left") else "l.*"
    expected = answer(
        f"SELECT {shown} FROM stream AS l {HOW[case.how]} known AS r ON {case.predicate}",
        stream=case.stream,
        known=case.table,
    )
    assert bag(result["o"]) == bag(expected)
    assert result.late("in").num_rows == 0
    if case.shard_by is None:
        ids = result["o"]["id"].to_pylist()
        assert ids == sorted(ids), "tuples leave in the order in which they came"


@settings(max_examples=tries(40), suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), size=st.integers(1, 5))
def test_windows_before_and_behind_a_join_are_what_sql_says(case: Case, size: int) -> None:
    """Counts by key at a stage, joined there, and summed by an attribute of the table at another."""
    net, stream = source(case)
    counts = stream.aggregate({"n": "count(*)", "s": "max(s)"}, size=size, by="k")
    joined = counts.join(pk.table(case.table), case.predicate, how=case.how)
    paired = case.how in ("inner", "left")
    by = "hi" if paired else "k"
    joined.aggregate({"t": "sum(n)"}, size=2 * size, by=by).output("o")
    result = net.run("local", buckets=case.buckets, tasks=case.tasks)
    expected = answer(
        f"""
        WITH counts AS (SELECT ts // {size} * {size} AS ts, k, count(*) AS n, max(s) AS s FROM stream GROUP BY 1, 2),
        joined AS (SELECT l.ts, l.n, {"r.hi" if paired else "l.k"} AS grp
                   FROM counts AS l {HOW[case.how]} known AS r ON {case.predicate})
        SELECT ts // {2 * size} * {2 * size} AS ts, grp, CAST(sum(n) AS BIGINT) AS t FROM joined GROUP BY 1, 2
        """,
        stream=case.stream,
        known=case.table,
    )
    found = result["o"].set_column(2, "t", result["o"]["t"].cast(pa.int64()))
    assert bag(found) == bag(expected)
