"""Joint punctuation changes when results leave, never what they are: the same as DuckDB's, once, and never later."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.properties.networks import Input, arrow_schema, oracle_connection, policy_of
from tests.properties.test_join import sources
from tests.thoroughness import tries

import penstock as pk
from penstock.plan import compile as compiling
from penstock.plan.state_jointly import state_jointly

INDIVIDUAL = tuple(rule for rule in compiling.RULES if rule is not state_jointly)
# What lies between the join and the windows: how it is built, and the columns that stand for both times.
PATHS = {
    "": ("l_ts", "r_ts"),
    "where": ("l_ts", "r_ts"),
    "map": ("a", "b"),
    "coarse": ("a", "b"),
    "union": ("l_ts", "r_ts"),
    "dedupe": ("l_ts", "r_ts"),
}


@dataclass(frozen=True)
class Case:
    left: Input
    right: Input
    before: int
    after: int
    path: str
    side: int
    """Of the pairs: that of the windows."""
    size: int
    advance: int
    buckets: int
    tasks: int


@st.composite
def cases(draw: Any) -> Case:
    left, right = (draw(sources(name, "int", 10)) for name in ("a", "b"))
    before, after = draw(st.sampled_from([(0, 6), (3, 3), (8, 8), (-2, 5), (0, 0), (20, 20)]))
    size = draw(st.sampled_from([1, 1, 2, 5, 10]))
    advance = draw(st.sampled_from([size, size, 1, 3]))
    path, side = draw(st.sampled_from(sorted(PATHS))), draw(st.integers(0, 1))
    return Case(left, right, before, after, path, side, size, advance, draw(st.integers(1, 3)), draw(st.integers(1, 2)))


def network(case: Case) -> pk.Network:
    net = pk.Network("joint")
    left, right = (
        net.source(
            s.name,
            pk.memory(s.elements, schema=arrow_schema(s.schema), train=s.train, shard_by=s.shard_by),
            progress=policy_of(s),
        )
        for s in (case.left, case.right)
    )
    pairs = left.join(right, "l.k = r.k", on="ts", band=(case.before, case.after))
    match case.path:
        case "where":
            pairs = pairs.where("l_i <= r_i")
        case "map":
            pairs = pairs.map(a="l_ts", b="r_ts", k="l_k", i="l_i", same="l_ts")
        case "coarse":
            pairs = pairs.map(a="l_ts / 2", b="r_ts + 7", k="l_k", i="l_i")
        case "union":
            pairs = pk.union(pairs, left.join(right, "l.j = r.j", on="ts", band=(1, 1)).where("l_b"))
        case "dedupe":
            pairs = pairs.dedupe(on="l_ts", by=("r_ts", "l_k", "l_i"))
    times = PATHS[case.path]
    i = "i" if "i" in pairs.schema.names else "l_i"
    # The estimate is exact: of so many registers no two of these values share one.
    about = f"approx_count_distinct({i}, 0.0022)"
    outputs = {"n": "count(*)", "s": f"sum({i})", "d": f"count(DISTINCT {i})", "about": about}
    window = {"on": times[case.side], "size": case.size, "advance": case.advance}
    pairs.aggregate(outputs, by=times[1 - case.side], name="windows", **window).output("o")
    return net


def run(case: Case) -> dict[tuple[Any, ...], int]:
    """The batch in which each result leaves; it must leave once."""
    left: list[int] = []
    net = network(case)
    result = net.run(
        engine="local", buckets=case.buckets, tasks=case.tasks, on_batch=lambda r: left.append(r.outputs["o"])
    )
    rows = [tuple(row.values()) for row in result["o"].to_pylist()]
    work = result.record().boxes.get("windows")
    assert work is None or (work.held_rows, work.open_windows, work.tuples_in) == (0, 0, work.released)
    assert not result.record().waiting
    found = {row: sum(count <= place for count in left) for place, row in enumerate(rows)}
    assert len(found) == len(rows) == len({row[:2] for row in rows})
    return found


def answer(case: Case) -> Counter[tuple[Any, ...]]:
    db = oracle_connection()
    for source in (case.left, case.right):
        schema = arrow_schema(source.schema)
        columns = list(zip(*source.rows, strict=True))
        rows = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        db.register(f"rows_{source.name}", rows)
    near = f"r.ts BETWEEN l.ts - ({case.before}) AND l.ts + ({case.after})"
    pairs = f"SELECT l.ts AS x, r.ts AS y, l.k, l.i FROM rows_a l JOIN rows_b r ON l.k = r.k AND {near}"
    match case.path:
        case "where":
            pairs += " WHERE l.i <= r.i"
        case "coarse":
            pairs = f"SELECT x // 2 AS x, y + 7 AS y, k, i FROM ({pairs})"
        case "union":
            near = "r.ts BETWEEN l.ts - 1 AND l.ts + 1"
            more = f"SELECT l.ts AS x, r.ts AS y, l.k, l.i FROM rows_a l JOIN rows_b r ON l.j = r.j AND {near}"
            pairs = f"{pairs} UNION ALL {more} WHERE l.b"
        case "dedupe":
            pairs = f"SELECT DISTINCT * FROM ({pairs})"
    on, other = ("x", "y") if case.side == 0 else ("y", "x")
    starts = f"SELECT w * {case.advance} AS start FROM range(-60, 120) t(w)"
    inside = f"start <= p.{on} AND p.{on} < start + {case.size}"
    found = db.sql(
        f"SELECT start, p.{other}, count(*), sum(i), count(DISTINCT i), count(DISTINCT i) "
        f"FROM ({starts}) JOIN ({pairs}) p ON {inside} "
        "GROUP BY ALL"
    )
    return Counter(tuple(row) for row in found.fetchall())


@settings(
    max_examples=tries(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(case=cases())
def test_results_are_the_same_and_leave_no_later(case: Case) -> None:
    note(network(case).explain())
    jointly = run(case)
    with patch.object(compiling, "RULES", INDIVIDUAL):
        alone = run(case)
    assert jointly.keys() == alone.keys()
    assert Counter(jointly.keys()) == answer(case)
    assert all(jointly[row] <= alone[row] for row in alone)
