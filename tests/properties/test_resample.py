"""Resample agrees with a join and a GROUP BY over the whole input, and holds exactly what its definition asks for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.boxes.resample.test_resample import Bench, Right
from tests.properties.networks import (
    TICKS,
    Input,
    _tick_sql,
    arrow_schema,
    bag,
    duration,
    inputs,
    oracle_connection,
    policy_of,
)
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.ticks import BEGINNING, END

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
OUTPUTS = {
    # output: (kind, as the user writes it, as the oracle does)
    "n": (pa.int64(), "count(*)", "count(*)"),
    "total": (pa.int64(), "sum(i)", "CAST(sum(r.i) AS BIGINT)"),
    "low": (pa.float64(), "min(f)", "min(r.f)"),
    "mid": (pa.float64(), "median(i)", "median(r.i)"),
    "kinds": (pa.int64(), "count(DISTINCT j)", "count(DISTINCT r.j)"),
    # Exact: of so many registers no two of these values share one.
    "about": (pa.int64(), "approx_count_distinct(j, 0.0022)", "count(DISTINCT r.j)"),
    "weighed": (pa.int64(), "sum(l.i * r.i)", "CAST(sum(l.i * r.i) AS BIGINT)"),
    "both": (pa.int64(), "count(*) FILTER (WHERE r.b AND L.b)", "count(*) FILTER (WHERE r.b AND l.b)"),
}


@dataclass(frozen=True)
class Case:
    left: Input
    right: Input
    size: int
    by: tuple[str, ...]
    outputs: tuple[str, ...]
    slack: int | None = None
    buckets: int = 1
    tasks: int = 1

    @property
    def kind(self) -> str:
        return dict(self.left.schema)["ts"]

    @property
    def schema(self) -> pa.Schema:
        kinds = arrow_schema(self.right.schema)
        outputs = [pa.field(name, OUTPUTS[name][0]) for name in self.outputs]
        return pa.schema([*(kinds.field(k) for k in self.by), kinds.field("ts"), *outputs])


@st.composite
def cases(draw: Any, *, policies: tuple[str, ...] = ("ordered", "delayed", "punctuated")) -> Case:
    kind = draw(st.sampled_from(["int", "int8", "us", "date"]))
    sides = [draw(inputs(name, kind, rows=25).filter(lambda i: i.policy in policies)) for name in ("left", "right")]
    return Case(
        *sides,
        size=draw(st.sampled_from([0, 1, 4, 20, 100])) * TICKS[kind][1],
        by=draw(st.sampled_from([(), ("k",), ("k", "j"), ("f",)])),
        outputs=tuple(sorted(draw(st.sets(st.sampled_from(sorted(OUTPUTS)), min_size=1, max_size=4)))),
        buckets=draw(st.integers(1, 3)),
        tasks=draw(st.integers(1, 2)),
    )


def run(case: Case) -> pk.Result:
    net = pk.Network("random")
    left, right = (
        net.source(
            i.name,
            pk.memory(i.elements, schema=arrow_schema(i.schema), train=i.train, shard_by=i.shard_by),
            on="ts",
            progress=policy_of(i),
        )
        for i in (case.left, case.right)
    )
    order = None if case.slack is None else pk.order("ts", case.slack, case.by)
    outputs = {name: OUTPUTS[name][1] for name in case.outputs}
    size = duration(case.size, case.kind)
    left.resample(right, outputs, on="ts", size=size, by=case.by, assuming=order, name="box").output("out")
    note(net.explain())
    return net.run(engine="local", buckets=case.buckets, tasks=case.tasks)


def answer(case: Case, right: list[tuple[Any, ...]]) -> pa.Table:
    """What DuckDB says of all left tuples and these right ones."""
    connection = oracle_connection()
    for name, rows in (("l", case.left.rows), ("r", right)):
        source = case.left if name == "l" else case.right
        columns = list(zip(*(row for row in rows if row[0] is not None), strict=True)) or [()] * len(source.schema)
        schema = arrow_schema(source.schema)
        table = pa.table([_column(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        connection.register(name, table.append_column("row", pa.array(range(table.num_rows), pa.int64())))
    keys = ", ".join(f"r.{name}" for name in case.by)
    outputs = ", ".join(f"{OUTPUTS[name][2]} AS {name}" for name in case.outputs)
    near = f"abs({_tick_sql('l.ts', case.kind)} - {_tick_sql('r.ts', case.kind)}) <= {case.size}"
    return connection.sql(
        f"SELECT {keys + ',' if keys else ''} l.ts AS ts, {outputs} FROM l JOIN r ON {near} "
        f"GROUP BY l.row, l.ts{', ' + keys if keys else ''}"
    ).to_arrow_table()


def _column(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """Times are drawn as ticks."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def check(case: Case, result: pk.Result, right: list[tuple[Any, ...]]) -> None:
    found = result["out"]
    assert found.schema.equals(case.schema)
    assert bag(found, case.schema) == bag(answer(case, right), case.schema)
    check_progress(case, result)
    work = result.record().boxes.get("box")
    assert work is None or work.held_rows == 0


def check_progress(case: Case, result: pk.Result) -> None:
    """No result is below punctuation that was stated before it, and the stream ends."""
    kind, stated = TICKS[case.kind][0], -math.inf
    plain = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    for element in result.elements("out"):
        value = element["ts"] if isinstance(element, dict) else element.value[0][1]
        tick = value if isinstance(value, float) else pa.scalar(value, kind).cast(plain).as_py()
        assert tick >= stated if isinstance(element, dict) else tick > stated, element
        stated = stated if isinstance(element, dict) else tick
    assert stated == math.inf


@settings(max_examples=tries(40), suppress_health_check=QUIET)
@given(case=cases())
def test_windows_agree_with_duckdb_over_the_whole_input(case: Case) -> None:
    check(case, run(case), list(case.right.rows))


# --- with an order specification --------------------------------------------------------------------------------------


def judged(rows: list[tuple[Any, ...]], slack: int, group: Any) -> tuple[list[Any], list[Any]]:
    """Tuples in order, and those with more than `slack` larger ones of their group before them."""
    seen: dict[Any, list[int]] = defaultdict(list)
    fine, late = [], []
    for row in rows:
        before = seen[group(row)]
        (late if sum(value > row[0] for value in before) > slack else fine).append(row)
        before.append(row[0])
    return fine, late


@settings(max_examples=tries(40), suppress_health_check=QUIET)
@given(case=cases(policies=("delayed", "punctuated")), slack=st.integers(0, 3))
def test_an_assumed_order_sets_late_tuples_aside_and_answers_for_the_rest(case: Case, slack: int) -> None:
    # Shards arrive one after the other inside of a batch; the model knows one order only.
    right = Input(*(getattr(case.right, f) for f in ("name", "schema", "elements", "policy", "bound", "train")))
    case = Case(case.left, right, case.size, case.by, case.outputs, slack, case.buckets, case.tasks)
    places = [[name for name, _ in right.schema].index(k) for k in case.by]
    rows = [row for row in right.rows if row[0] is not None]
    # Floating groups: 0.0 and -0.0 are one.
    fine, late = judged(rows, slack, lambda row: tuple(row[p] for p in places))
    result = run(case)
    check(case, result, fine)
    schema = arrow_schema(right.schema)
    columns = list(zip(*late, strict=True)) or [()] * len(schema)
    expected = pa.table([_column(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    assert bag(result.late("box"), schema) == bag(expected, schema)


@settings(max_examples=tries(40), suppress_health_check=QUIET)
@given(
    left=st.lists(st.integers(0, 40), max_size=8),
    right=st.lists(st.tuples(st.sampled_from(["x", "y", None]), st.integers(0, 60)), max_size=25),
    trains=st.tuples(st.integers(1, 4), st.integers(1, 9)),
    size=st.integers(0, 8),
    slack=st.integers(0, 2),
)
def test_results_leave_in_the_order_in_which_arrivals_complete_them(
    left: list[int], right: list[tuple[str | None, int]], trains: tuple[int, int], size: int, slack: int
) -> None:
    net = pk.Network("order")
    sources = [
        net.source(name, pk.memory(rows, schema=schema, train=train), progress=pk.punctuated())
        for name, rows, schema, train in (
            ("left", [(t,) for t in left], {"ts": "int64"}, trains[0]),
            ("right", right, {"k": "string", "ts": "int64"}, trains[1]),
        )
    ]
    order = pk.order("ts", slack, "k")
    sources[0].resample(sources[1], {"n": "count(*)"}, on="ts", size=size, by="k", assuming=order).output("out")
    found = [(r["k"], r["ts"], r["n"]) for r in net.run(engine="local", buckets=1)["out"].to_pylist()]
    # Moments are (batch, input, place in the input); without punctuation the rest waits for the end of the right side.
    rows = [(t, k, (i // trains[1], 1, i)) for i, (k, t) in enumerate(right)]
    fine, _ = judged(rows, slack, lambda row: row[1])
    ended = (max(0, len(right) - 1) // trains[1], 2, 0)
    expected = []
    for i, at in enumerate(left):
        for k in {k for k, _ in right}:
            near = [row for row in fine if row[1] == k and abs(row[0] - at) <= size]
            beyond = sorted(row[2] for row in rows if row[1] == k and row[0] > at + size)
            end = beyond[slack] if len(beyond) > slack else ended
            if near:
                expected.append((max(end, (i // trains[0], 0, i)), at, (k is None, k or ""), (k, at, len(near))))
    assert found == [row for *_, row in sorted(expected)]


# --- what is held -----------------------------------------------------------------------------------------------------

Batch = tuple[list[int], list[Right], tuple[int, int]]


@st.composite
def scripts(draw: Any) -> list[Batch]:
    """Batches of both streams, with low-water marks that what follows keeps."""
    times = st.integers(0, 40)
    rows = st.tuples(st.sampled_from(["x", "y", None]), times, st.integers(1, 9))
    batches = draw(st.lists(st.tuples(st.lists(times, max_size=4), st.lists(rows, max_size=6)), min_size=1, max_size=7))
    made: list[Batch] = []
    low = [BEGINNING, BEGINNING]
    for number, (left, right) in enumerate(batches):
        follow = [[t for b in batches[number + 1 :] for t in b[0]], [r[1] for b in batches[number + 1 :] for r in b[1]]]
        for side in (0, 1):
            least = min(follow[side], default=45) - draw(st.integers(0, 6))
            low[side] = max(low[side], draw(st.sampled_from([BEGINNING, least, least])))
        made.append((left, right, (low[0], low[1])))
    return [*made, ([], [], (END, low[1])), ([], [], (END, END))]


@settings(max_examples=tries(60), suppress_health_check=QUIET)
@given(script=scripts(), size=st.sampled_from([0, 1, 5, 30]), slack=st.sampled_from([None, 0, 1]))
def test_exactly_what_the_definition_asks_for_is_held_after_every_punctuation(
    script: list[Batch], size: int, slack: int | None
) -> None:
    order = None if slack is None else pk.order("ts", slack, "k")
    bench = Bench({"n": "count(*)", "sum": "sum(v)"}, size=size, assuming=order)
    lefts: list[int] = []
    rights: list[Right] = []
    seen: dict[str | None, list[int]] = defaultdict(list)
    gone: set[tuple[int, str | None]] = set()
    for left, right, marks in script:
        found = bench.batch(left, right, marks)
        lefts += left
        for row in right:
            if slack is None or sum(t > row[1] for t in seen[row[0]]) <= slack:
                rights.append(row)
            seen[row[0]].append(row[1])

        def complete(at: int, k: str | None, mark: int = marks[1]) -> bool:
            beyond = sum(t > at + size for t in seen[k])
            return mark > at + size or mark == END or (slack is not None and beyond > slack)

        expected = []
        for number, at in enumerate(lefts):
            for k in seen:
                near = [v for g, t, v in rights if g == k and abs(t - at) <= size]
                if near and complete(at, k) and (number, k) not in gone:
                    gone.add((number, k))
                    expected.append((k, at, len(near), sum(near)))
        assert Counter(found) == Counter(expected)
        waiting = [at for at in lefts if not (marks[1] == END or marks[1] > at + size)]
        assert bench.held("left") == sorted(waiting)
        needed = [
            t
            for k, t, _ in rights
            if (marks[0] != END and t >= marks[0] - size)
            or any(abs(t - at) <= size and not complete(at, k) for at in waiting)
        ]
        assert bench.held("right") == sorted(needed)
    assert bench.slots.rows() == 0
