"""Top against row_number() of DuckDB over the whole input, for any disorder within the promise."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64", "k": "string", "d": "double", "v": "double", "n": "int64"}
KINDS = [pa.int64(), pa.string(), pa.float64(), pa.float64(), pa.int64()]
NAN = float("nan")
CONNECTION = duckdb.connect()


@st.composite
def disordered(draw: Any) -> tuple[list[Any], int]:
    """Few values, so that many tie; times at most a bound behind the largest before them; and the bound."""
    bound = draw(st.integers(0, 6))
    rows, now = [], draw(st.integers(-12, 3))
    for number in range(draw(st.integers(0, 40))):
        now += draw(st.sampled_from([0, 1, 1, 4]))
        key, nested = draw(st.sampled_from([None, "a", "b"])), draw(st.sampled_from([None, 0.0, -0.0, NAN]))
        value = draw(st.sampled_from([None, -1.5, 0.0, -0.0, 1.0, 1.0, 7.0, NAN]))
        rows.append((now - draw(st.integers(0, bound)), key, nested, value, number))
    return rows, bound


@st.composite
def tops(draw: Any) -> dict[str, Any]:
    return {
        "n": draw(st.integers(1, 4)),
        "size": draw(st.integers(1, 9)),
        "advance": draw(st.sampled_from([None, 1, 2, 3, 5, 12])),
        "groups": draw(st.sampled_from([(), ("k",), ("d",), ("k", "d")])),
        "ascending": draw(st.booleans()),
    }


def expected(rows: list[Any], *, n: int, size: int, advance: int | None, groups: Any, ascending: bool) -> pa.Table:
    """Every window that the data can reach, and in it the tuples with the best ranks."""
    columns = list(zip(*rows, strict=True)) or [()] * len(KINDS)
    tuples = pa.table([pa.array(c, t) for c, t in zip(columns, KINDS, strict=True)], list(SCHEMA))
    step = size if advance is None else advance
    low, high = (min(columns[0], default=0) - size) // step, max(columns[0], default=0) // step
    starts = pa.table({"start": pa.array([w * step for w in range(low, high + 1)], pa.int64())})
    order = f"v {'ASC' if ascending else 'DESC'} NULLS LAST, ts, n"
    rank = f"row_number() OVER (PARTITION BY {', '.join(('start', *groups))} ORDER BY {order})"
    CONNECTION.register("tuples", tuples)
    CONNECTION.register("starts", starts)
    return CONNECTION.sql(
        f"SELECT start AS window, {rank} AS rank, tuples.* "
        f"FROM starts JOIN tuples ON start <= ts AND ts < start + {size} QUALIFY rank <= {n}"
    ).to_arrow_table()


def counted(table: pa.Table, names: list[str]) -> list[str]:
    """The rows, sorted: NaN equals itself in their texts, and zero has one sign."""
    rows = table.select(names).to_pylist()
    plain = [{k: 0.0 if isinstance(v, float) and v == 0 else v for k, v in row.items()} for row in rows]
    return sorted(map(repr, plain))


@settings(max_examples=tries(60))
@given(
    case=disordered(),
    spec=tops(),
    train=st.sampled_from([None, 1, 3, 8]),
    shards=st.sampled_from([None, "k"]),
    buckets=st.integers(1, 3),
    tasks=st.integers(1, 3),
)
def test_it_is_row_number_whatever_the_cuts_shards_and_buckets(
    case: Any, spec: dict[str, Any], train: int | None, shards: str | None, buckets: int, tasks: int
) -> None:
    rows, bound = case
    net = pk.Network("net")
    script = pk.memory(rows, schema=SCHEMA, train=train, shard_by=shards)
    source = net.source("in", script, progress=pk.delayed(bound))
    options = {name: value for name, value in spec.items() if name != "n"}
    source.top(spec["n"], by="v", name="best", **options).output("out")
    held: list[int] = []

    def watch(record: Record) -> None:
        held.append(record.boxes["best"].held_rows if "best" in record.boxes else 0)

    found = net.run(engine="local", buckets=buckets, tasks=tasks, on_batch=watch)["out"]
    # Who comes first of tuples that are equal in all that counts depends on how shards are read.
    names = ["window", "rank", "ts", "v", *spec["groups"], *(["n"] if shards is None else [])]
    assert counted(found, names) == counted(expected(rows, **spec), names)
    assert not held or held[-1] == 0


@given(case=disordered(), spec=tops(), train=st.sampled_from([1, 4]))
def test_an_in_order_plan_gives_the_same(case: Any, spec: dict[str, Any], train: int) -> None:
    rows, bound = case
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), progress=pk.delayed(bound))
    options = {name: value for name, value in spec.items() if name != "n"}
    source.top(spec["n"], by="v", **options).output("out")
    found = net.run(engine="local", buckets=2, architecture="in-order")["out"]
    names = ["window", "rank", "ts", "v", *spec["groups"], "n"]
    assert counted(found, names) == counted(expected(rows, **spec), names)


@settings(max_examples=tries(15))
@given(case=disordered(), spec=tops())
def test_stepped_tuple_by_tuple_it_gives_the_same(case: Any, spec: dict[str, Any]) -> None:
    rows, bound = case
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema=SCHEMA), progress=pk.delayed(bound))
    options = {name: value for name, value in spec.items() if name != "n"}
    source.top(spec["n"], by="v", **options).output("out")
    stepper = net.stepper()
    stepper.run(inputs=True)
    names = ["window", "rank", "ts", "v", *spec["groups"], "n"]
    assert counted(stepper.output("out"), names) == counted(expected(rows, **spec), names)
