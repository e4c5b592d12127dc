"""Order does not matter: random networks over random input agree with DuckDB over the whole input."""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.properties.networks import Case, Input, Oracle, Windowed, arrow_schema, bag, build, cases, recut
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record

LOCAL_CASES = tries(120)
NO_FIXTURE_CHECK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def run(case: Case, engine: str, **options: Any) -> pk.Result:
    net = build(case)
    note(net.explain())
    return net.run(engine=engine, buckets=case.buckets, tasks=case.tasks, **options)


def check(case: Case, result: pk.Result) -> None:
    """Everything that must be true of any run over inputs that keep their promise."""
    oracle = Oracle()
    for number, node in enumerate(case.outputs):
        name = f"o{number}"
        schema = arrow_schema(node.schema)
        found = result[name]
        assert found.schema.equals(schema), f"{name}: {found.schema} is not {schema}"
        assert bag(found, schema) == bag(oracle.answer(node), schema), name
        if isinstance(node, Windowed):
            windows = bag(found.select([node.on, *node.by]), arrow_schema(node.schema[: 1 + len(node.by)]))
            assert all(times == 1 for times in windows.values()), f"{name}: a window left twice"
        check_progress(result, name, node)
    check_accounts(case, result)


def check_progress(result: pk.Result, name: str, node: Any) -> None:
    """Punctuation only rises, no tuple violates what was stated before it, and a stream ends with infinity."""
    stated = dict.fromkeys(node.progressing, -math.inf)
    kinds = {f.name: f.type for f in arrow_schema(node.schema)}

    def tick(attribute: str, value: Any) -> float:
        if isinstance(value, float):
            return value
        kind = kinds[attribute]
        value = pa.scalar(value, kind)
        return value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()

    for element in result.elements(name):
        if isinstance(element, dict):
            for attribute, mark in stated.items():
                if element[attribute] is not None:
                    assert tick(attribute, element[attribute]) >= mark, f"{name}: {element} after {attribute} >= {mark}"
        else:
            for attribute, value in element.value:
                assert tick(attribute, value) > stated[attribute], f"{name}: {element} repeats or falls back"
                stated[attribute] = tick(attribute, value)
    assert all(mark == math.inf for mark in stated.values()), f"{name} has not ended: {stated}"


def check_accounts(case: Case, result: pk.Result) -> None:
    """Every tuple is accounted for: where it entered, and in every aggregate."""
    record = result.record()
    for source in case.inputs():
        count = record.inputs.get(source.name)
        rows = len(source.rows)
        if count is None:
            assert rows == 0
            continue
        assert count.read == rows
        assert count.read == count.taken + count.late + count.refused + count.punctuation
        assert count.refused == sum(row[0] is None for row in source.rows)
        assert count.late == 0
        assert result.late(source.name).num_rows == 0
        assert result.errors(source.name).num_rows == count.refused
    for name, work in record.boxes.items():
        if name.startswith("aggregate"):
            assert work.tuples_in == work.released, name
            assert work.held_rows == work.open_windows == 0, name


@settings(max_examples=LOCAL_CASES, suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases())
def test_any_network_agrees_with_duckdb_over_the_whole_input(case: Case) -> None:
    check(case, run(case, "local"))


@pytest.mark.spark
@settings(max_examples=tries(4), suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases(rows=16, boxes=5, aggregates=2, trains=st.sampled_from([None, 9, 12])))
def test_any_network_agrees_with_duckdb_on_spark(case: Case, spark_ready: Any) -> None:
    small = replace(case, buckets=min(case.buckets, 3), tasks=min(case.tasks, 2))
    check(small, run(small, "spark"))


@settings(max_examples=tries(15), suppress_health_check=NO_FIXTURE_CHECK)
@given(
    case=cases(rows=25, boxes=4, aggregates=2),
    train=st.sampled_from([1, 2, 5, None]),
    shard_by=st.sampled_from([None, "k", "j", "b"]),
    buckets=st.integers(1, 7),
    tasks=st.integers(1, 5),
)
def test_the_cut_into_trains_shards_and_buckets_does_not_matter(
    case: Case, train: int | None, shard_by: str | None, buckets: int, tasks: int
) -> None:
    def cut(source: Input) -> Input:
        return replace(source, train=train, shard_by=shard_by)

    memo: dict[int, Any] = {}

    def shared(node: Any) -> Any:
        # A node that two outputs share stays one node.
        if id(node) not in memo:
            memo[id(node)] = recut(node, lambda source: memo.setdefault(id(source), cut(source)))
        return memo[id(node)]

    other = Case(tuple(shared(node) for node in case.outputs), buckets, tasks)
    one, two = run(case, "local"), run(other, "local")
    for number, node in enumerate(case.outputs):
        schema = arrow_schema(node.schema)
        assert bag(one[f"o{number}"], schema) == bag(two[f"o{number}"], schema)


class InterruptError(Exception):
    pass


@settings(max_examples=tries(20), suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases(rows=25, boxes=4, aggregates=2, trains=st.sampled_from([2, 4, 9])), after=st.integers(0, 5))
def test_a_run_interrupted_after_any_batch_goes_on_to_the_same_answer(case: Case, after: int) -> None:
    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    with tempfile.TemporaryDirectory() as checkpoint:
        with contextlib.suppress(InterruptError):
            run(case, "local", checkpoint=checkpoint, on_batch=interrupt)
        check(case, run(case, "local", checkpoint=checkpoint))
