from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.expressions.decomposition import decompose
from penstock.errors import QueryError

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.string(),
        "n": pa.int64(),
        "i": pa.int32(),
        "u": pa.uint64(),
        "x": pa.float64(),
        "d": pa.decimal128(10, 2),
        "s": pa.string(),
        "ok": pa.bool_(),
        "t": pa.timestamp("us", tz="UTC"),
        "day": pa.date32(),
    }
)


def tuples(seed: int, size: int = 240) -> pa.Table:
    chance = random.Random(seed)

    def column(draw: Callable[[], Any], kind: pa.DataType, nulls: float = 0.2) -> pa.Array:
        return pa.array([None if chance.random() < nulls else draw() for _ in range(size)], kind)

    return pa.table(
        {
            "ts": column(lambda: chance.randint(-9, 9), pa.int64(), nulls=0),
            "k": column(lambda: chance.choice("abcdefghij"), pa.string()),
            "n": column(lambda: chance.choice([-3, 0, 7, 2**62, -(2**62), chance.randint(-50, 50)]), pa.int64()),
            "i": column(lambda: chance.randint(-5, 5), pa.int32()),
            "u": column(lambda: chance.randint(0, 9), pa.uint64()),
            "x": column(lambda: chance.choice([0.5, 1e9, 1e9 + chance.random()]), pa.float64()),
            "d": column(lambda: Decimal(chance.randint(-999, 999)) / 100, pa.decimal128(10, 2)),
            "s": column(lambda: chance.choice(["", "é", "pq", "z", "zz"]), pa.string()),
            "ok": column(lambda: chance.random() < 0.7, pa.bool_()),
            "t": column(lambda: chance.randint(-(10**6), 10**6), pa.timestamp("us", tz="UTC")),
            "day": column(lambda: chance.randint(-5, 5), pa.date32()),
        },
        schema=SCHEMA,
    )


# How the parts compose: every step is one GROUP BY over the keys.


def listed(*parts: tuple[str, str]) -> str:
    return "".join(f', {sql} AS "{name}"' for name, sql in parts)


def partial(found: Aggregation, table: pa.Table, keys: str) -> pa.Table:
    return kernel.run(f"SELECT {keys}{listed(*found.partials)} FROM tuples GROUP BY ALL", tuples=table)


def merge(found: Aggregation, rows: pa.Table, keys: str) -> pa.Table:
    return kernel.run(f"SELECT {keys}{listed(*found.merges)} FROM rows GROUP BY ALL", rows=rows)


def keep(found: Aggregation, table: pa.Table, keys: str) -> list[pa.Table]:
    return [
        kernel.run(
            f"SELECT {'DISTINCT' if held.distinct else ''} {keys}{listed(*held.values)} "
            f"FROM tuples WHERE {held.where or 'true'}",
            tuples=table,
        )
        for held in found.held
    ]


def finish(found: Aggregation, rows: pa.Table, kept: list[pa.Table], keys: str) -> pa.Table:
    for held, values in zip(found.held, kept, strict=True):
        results = kernel.run(f"SELECT {keys}{listed(*held.results)} FROM held GROUP BY ALL", held=values)
        names = ", ".join(name for name, _ in held.results)
        rows = kernel.run(
            f"SELECT l.*, {names} FROM l LEFT JOIN r ON l.{keys} IS NOT DISTINCT FROM r.{keys}", l=rows, r=results
        )
    return kernel.run(f"SELECT {keys}{listed(*found.finals)} FROM rows ORDER BY {keys}", rows=rows)


def in_pieces(outputs: dict[str, str], table: pa.Table, seed: int, on: str = "ts") -> pa.Table:
    """The answer by way of random pieces, merged in random order and in several rounds."""
    chance = random.Random(seed)
    found = decompose(outputs, table.schema, on=on)
    order = list(range(table.num_rows))
    chance.shuffle(order)
    shuffled = table.take(order)
    cuts = sorted(chance.sample(range(table.num_rows + 1), 5))
    pieces = [shuffled.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    partials = [partial(found, piece, "k") for piece in pieces]
    for rows in partials:
        assert rows.schema.remove(0) == found.partial_schema
    kept = [keep(found, piece, "k") for piece in pieces]
    while len(partials) > 1:
        chance.shuffle(partials)
        merged = merge(found, pa.concat_tables(partials[:2]), "k")
        assert merged.schema.remove(0) == found.partial_schema
        partials = [*partials[2:], merged]
    for tables in kept:
        for held, values in zip(found.held, tables, strict=True):
            assert values.schema.remove(0) == held.schema
    chance.shuffle(kept)
    held_tables = [pa.concat_tables(tables) for tables in zip(*kept, strict=True)]
    answer = finish(found, merge(found, partials[0], "k"), held_tables, "k")
    assert answer.schema.remove(0) == found.output_schema
    return answer


def close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


SAME_AS_DUCKDB = [
    "count(*)",
    "count(x)",
    "count(s)",
    "sum(i)",
    "sum(u)",
    "sum(x)",
    "sum(d)",
    "sum(i * 2 + u)",
    "min(n)",
    "max(x)",
    "min(s)",
    "max(t)",
    "min(day)",
    "max(ok)",
    "min(d)",
    "avg(i)",
    "avg(x)",
    "avg(d)",
    "mean(u)",
    "var_samp(i)",
    "variance(x)",
    "var_pop(d)",
    "stddev(x)",
    "stddev_samp(i)",
    "stddev_pop(x)",
    "bool_and(ok)",
    "bool_or(ok)",
    "bool_or(i > 4)",
    "count(DISTINCT s)",
    "count(DISTINCT x)",
    "count(DISTINCT day)",
    "sum(DISTINCT i)",
    "sum(DISTINCT d)",
    "avg(DISTINCT i)",
    "median(i)",
    "median(x)",
    "median(t)",
    "quantile_cont(x, 0.9)",
    "quantile_cont(i, 0)",
    "quantile_disc(s, 0.5)",
    "quantile(d, 0.25)",
]


@pytest.mark.parametrize("condition", [None, "ok", "i > 2 OR s = 'zz'", "false"])
@pytest.mark.parametrize("seed", [1, 2])
def test_pieces_give_the_answer_of_the_whole(seed: int, condition: str | None) -> None:
    table = tuples(seed)
    calls = [call + (f" FILTER (WHERE {condition})" if condition else "") for call in SAME_AS_DUCKDB]
    found = in_pieces({f"o{i}": call for i, call in enumerate(calls)}, table, seed)
    items = ", ".join(f"{call} AS o{i}" for i, call in enumerate(calls))
    whole = kernel.run(f"SELECT k, {items} FROM tuples GROUP BY ALL ORDER BY k", tuples=table)
    assert found["k"].to_pylist() == whole["k"].to_pylist()
    for i, call in enumerate(calls):
        for key, mine, theirs in zip(
            whole["k"].to_pylist(), found[f"o{i}"].to_pylist(), whole[f"o{i}"].to_pylist(), strict=True
        ):
            assert close(mine, theirs), f"{call} of {key}: {mine} instead of {theirs}"


def smallest_at(
    rows: list[dict[str, Any]], value: str, by: str, pick: Callable[[list[Any]], Any], *, nulls: bool
) -> Any:
    rows = [row for row in rows if row[by] is not None and (nulls or row[value] is not None)]
    if not rows:
        return None
    edge = pick([row[by] for row in rows])
    tied = [row[value] for row in rows if row[by] == edge and row[value] is not None]
    return min(tied) if tied else None


def most_frequent(rows: list[dict[str, Any]], value: str) -> Any:
    counted = Counter(row[value] for row in rows if row[value] is not None)
    return min((known for known in counted if counted[known] == max(counted.values())), default=None)


def in_order(rows: list[dict[str, Any]], value: str) -> Any:
    null_last = sorted(rows, key=lambda row: (row["ts"], row[value] is None, 0 if row[value] is None else row[value]))
    return [row[value] for row in null_last] or None


ORDERED: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "first(x)": lambda rows: smallest_at(rows, "x", "ts", min, nulls=True),
    "last(x)": lambda rows: smallest_at(rows, "x", "ts", max, nulls=True),
    "first(s)": lambda rows: smallest_at(rows, "s", "ts", min, nulls=True),
    "last(i, t)": lambda rows: smallest_at(rows, "i", "t", max, nulls=True),
    "first(ok, s)": lambda rows: smallest_at(rows, "ok", "s", min, nulls=True),
    "last(d, s)": lambda rows: smallest_at(rows, "d", "s", max, nulls=True),
    "arg_min(s, i)": lambda rows: smallest_at(rows, "s", "i", min, nulls=False),
    "arg_max(s, i)": lambda rows: smallest_at(rows, "s", "i", max, nulls=False),
    "min_by(t, day)": lambda rows: smallest_at(rows, "t", "day", min, nulls=False),
    "max_by(n, s)": lambda rows: smallest_at(rows, "n", "s", max, nulls=False),
    "arg_max(day, x)": lambda rows: smallest_at(rows, "day", "x", max, nulls=False),
    "mode(i)": lambda rows: most_frequent(rows, "i"),
    "mode(s)": lambda rows: most_frequent(rows, "s"),
    "mode(day)": lambda rows: most_frequent(rows, "day"),
    "list(i)": lambda rows: in_order(rows, "i"),
    "array_agg(s)": lambda rows: in_order(rows, "s"),
}


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("seed", [3, 4])
def test_ties_do_not_depend_on_arrival(seed: int, filtered: bool) -> None:
    table = tuples(seed)
    calls = [call + (" FILTER (WHERE ok)" if filtered else "") for call in ORDERED]
    found = in_pieces({f"o{i}": call for i, call in enumerate(calls)}, table, seed)
    groups: dict[Any, list[dict[str, Any]]] = {key: [] for key in found["k"].to_pylist()}
    for row in table.to_pylist():
        if row["ok"] or not filtered:
            groups[row["k"]].append(row)
    for i, (call, oracle) in enumerate(zip(calls, ORDERED.values(), strict=True)):
        for key, mine in zip(groups, found[f"o{i}"].to_pylist(), strict=True):
            assert mine == oracle(groups[key]), f"{call} of {key}"


def test_outputs_are_expressions_over_calls() -> None:
    table = tuples(5)
    found = in_pieces(
        {
            "share": "100.0 * count(*) FILTER (WHERE ok) / count(*)",
            "width": "max(i) - min(i)",
            "whole": "sum(u) / count(*)",
            "kind": "CASE WHEN count(*) > 20 THEN upper(max(s)) ELSE 'few' END",
            "filled": "coalesce(sum(i) FILTER (WHERE false), -1)",
            "top": "list(u)[1]",
        },
        table,
        5,
    )
    whole = kernel.run(
        "SELECT k, 100.0 * count(*) FILTER (WHERE ok) / count(*) AS share, max(i) - min(i) AS width, "
        "CAST(sum(u) // count(*) AS BIGINT) AS whole, "
        "CASE WHEN count(*) > 20 THEN upper(max(s)) ELSE 'few' END AS kind, CAST(-1 AS BIGINT) AS filled, "
        "list(u ORDER BY ts, u NULLS LAST)[1] AS top FROM tuples GROUP BY ALL ORDER BY k",
        tuples=table,
    )
    assert found.to_pylist() == whole.to_pylist()


def whole(outputs: dict[str, str], table: pa.Table) -> dict[str, Any]:
    keyed = table.append_column("k", pa.array(["all"] * table.num_rows))
    row = in_pieces(outputs, keyed, 7).to_pylist()[0]
    return {name: row[name] for name in outputs}


def test_integer_sums_are_exact_on_the_way_and_refused_beyond_int64() -> None:
    big = 2**63 - 1
    cancels = pa.table({"ts": [1, 2, 3, 4, 5, 6], "n": pa.array([big, big, big, -big, -big, 0], pa.int64())})
    assert whole({"total": "sum(n)", "mean": "avg(n)"}, cancels) == {"total": big, "mean": big / 6}
    exceeds = pa.table({"ts": [1, 2, 3, 4, 5, 6], "n": pa.array([big, 1, 0, 0, 0, 0], pa.int64())})
    with pytest.raises(QueryError, match=r"sum\(n\) exceeds int64"):
        whole({"total": "sum(n)"}, exceeds)


@pytest.mark.parametrize("function", ["var_samp", "var_pop", "stddev_samp", "stddev_pop"])
def test_variance_is_sound_far_from_zero(function: str) -> None:
    chance = random.Random(9)
    noise = [chance.gauss(0, 1) for _ in range(5000)]
    # At 1e12 a double resolves 1e-4, and DuckDB's own variance is right to 1e-5; sums of squares have no digit left.
    for offset, tolerance in ((0.0, 1e-12), (1e9, 1e-6), (-1e9, 1e-6), (1e12, 1e-4)):
        values = [offset + part for part in noise]
        # The noise as it is after rounding at that offset, so that the oracle sees the same numbers.
        exact = [value - offset for value in values]
        mean = math.fsum(exact) / len(exact)
        m2 = math.fsum((value - mean) ** 2 for value in exact)
        variance = m2 / (len(exact) - (1 if function.endswith("samp") else 0))
        expected = math.sqrt(variance) if function.startswith("stddev") else variance
        table = pa.table({"ts": list(range(len(values))), "x": values})
        assert whole({"v": f"{function}(x)"}, table)["v"] == pytest.approx(expected, rel=tolerance)


def test_equal_calls_and_equal_parts_are_computed_once() -> None:
    found = decompose({"a": "sum(n)", "b": "sum(n) + avg(n)", "c": "count(n) * count(n)"}, SCHEMA, on="ts")
    assert [sql for _, sql in found.partials] == ['sum("n")', 'count("n")']
    held = decompose({"a": "median(x)", "b": "quantile_cont(x, 0.9)", "c": "mode(x)"}, SCHEMA, on="ts").held
    assert len(held) == 1
    assert len(held[0].results) == 3
    apart = decompose({"a": "median(x)", "b": "median(x) FILTER (WHERE ok)", "c": "count(DISTINCT x)"}, SCHEMA, on="ts")
    assert [(table.where, table.distinct) for table in apart.held] == [
        ('("x" IS NOT NULL)', False),
        ('("ok") AND ("x" IS NOT NULL)', False),
        ('("x" IS NOT NULL)', True),
    ]


def test_columns_are_those_that_arguments_filters_and_order_need() -> None:
    assert decompose({"a": "count(*)"}, SCHEMA, on="ts").columns == ()
    assert decompose({"a": "first(s) FILTER (WHERE ok)"}, SCHEMA, on="ts").columns == ("ts", "s", "ok")
    assert decompose({"a": "first(s, i)"}, SCHEMA, on="ts").columns == ("i", "s")


def test_parts_keep_out_of_the_way_of_columns() -> None:
    schema = pa.schema({"ts": pa.int64(), "P0": pa.int64(), "v1": pa.int64(), "k": pa.string()})
    found = decompose({"total": "sum(p0)", "all": "list(v1)"}, schema, on="ts")
    names = {name for name, _ in found.partials} | {name for table in found.held for name, _ in table.values}
    assert names.isdisjoint({"p0", "v1"})
    table = pa.table({"ts": [1] * 6, "P0": [1] * 6, "v1": [2] * 6, "k": ["x"] * 6}, schema=schema)
    assert in_pieces({"total": "sum(p0)", "all": "list(v1)"}, table, 1).to_pylist() == [
        {"k": "x", "total": 6, "all": [2] * 6}
    ]


def test_order_needs_a_column_where_the_window_is_on_tuple_numbers() -> None:
    assert decompose({"a": "first(s, i)"}, SCHEMA, on="#").partials
    with pytest.raises(QueryError, match="nothing to order by"):
        decompose({"a": "first(s)"}, SCHEMA, on="#")


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("sum(s)", r"sum over a string(.|\n)*s: string(.|\n)*CAST\(s AS DOUBLE\)"),
        ("avg(ok)", r"avg over a bool(.|\n)*FILTER"),
        ("stddev(t)", r"over a timestamp(.|\n)*epoch_us"),
        ("bool_and(n)", "bool_and over a int64"),
        ("mad(x)", r"unknown aggregate mad\(\)(.|\n)*arg_max, arg_min"),
        ("any_value(x)", "unknown aggregate"),
        ("foo(x)", r"unknown function foo\(\)"),
        ("sum(sum(x))", "an aggregate"),
        ("sum(x) FILTER (WHERE sum(x) > 1)", "an aggregate"),
        ("count()", "no argument"),
        ("min(x, 2)", "2 arguments"),
        ("arg_min(x)", "cannot read|1 arguments"),
        ("min(DISTINCT x)", "DISTINCT"),
        ("median(DISTINCT x)", "DISTINCT"),
        ("count(DISTINCT x, s)", "2 arguments"),
        ("1 + 1", "no aggregate in output 'out'"),
        ("s", r"column 's' stands outside(.|\n)*by=\['s'\](.|\n)*first\(s\)"),
        ("sum(x) + n", "column 'n' stands outside"),
        ("sum(x) OVER ()", "a window function"),
        ("sum((SELECT 1))", "a subquery"),
        ("quantile_cont(x, 1.5)", "from 0 to 1"),
        ("quantile_cont(x, -0.5)", "from 0 to 1"),
        ("quantile_cont(x, n)", "from 0 to 1"),
        ("quantile_cont(x, 'a')", "from 0 to 1"),
        ("quantile_cont(x, CAST(NULL AS DOUBLE))", "from 0 to 1"),
        ("first(x ORDER BY n)", "ORDER BY inside"),
        ("sum(random())", "same tuples"),
        ("count(*) + random()", "same tuples"),
        ("sum(nope)", "unknown column 'nope'"),
        ("count(*) FILTER (WHERE n)", "no condition"),
        ("sum(x", "cannot read"),
        ("sum(s || 1)", "sum over a string"),
        ("max(s) + max(n)", "does not fit"),
    ],
)
def test_refuses(output: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        decompose({"out": output}, SCHEMA, on="ts")


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ({"TS": "count(*)"}, "window attribute"),
        ({"n": "count(*)", "N": "sum(n)"}, "the output 'n'"),
        ({}, "without outputs"),
    ],
)
def test_refuses_names_that_collide(outputs: dict[str, str], says: str) -> None:
    with pytest.raises(QueryError, match=says):
        decompose(outputs, SCHEMA, on="ts")


def test_encoded_columns_and_infinities_aggregate_like_any_other() -> None:
    table = pa.table(
        {
            "ts": [1, 2, 3, 4, 5, 6],
            "code": pa.array(["b", "a", "b", "a", "c", "c"]).dictionary_encode(),
            "size": pa.array([5, 6, 5, 6, 5, 6]).dictionary_encode(),
            "x": [1.0, math.inf, 2.0, 3.0, 4.0, 5.0],
        }
    )
    found = whole({"f": "first(code)", "m": "mode(code)", "t": "sum(size)", "a": "avg(x)", "v": "var_pop(x)"}, table)
    assert math.isnan(found.pop("v"))
    assert found == {"f": "b", "m": "a", "t": 33, "a": math.inf}
