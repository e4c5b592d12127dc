"""Architecture does not matter to answers: random networks in order agree with DuckDB, and leave in order."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.networks import Case, Oracle, arrow_schema, bag, build, cases
from tests.properties.test_networks import NO_FIXTURE_CHECK, check_accounts, check_progress
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record


def run(case: Case, engine: str = "local", **options: Any) -> pk.Result:
    net = build(case)
    note(net.explain(architecture="in-order"))
    return net.run(engine=engine, buckets=case.buckets, tasks=case.tasks, architecture="in-order", **options)


def check(case: Case, result: pk.Result) -> None:
    oracle = Oracle()
    for number, node in enumerate(case.outputs):
        name, schema = f"o{number}", arrow_schema(node.schema)
        found = result[name]
        assert bag(found, schema) == bag(oracle.answer(node), schema), name
        assert in_order(found.column(node.progressing[0])), f"{name} is not in order of {node.progressing[0]}"
        check_progress(result, name, node)
    check_accounts(case, result)


def in_order(times: pa.ChunkedArray) -> bool:
    times = times.combine_chunks()
    return len(times) < 2 or bool(pc.all(pc.greater_equal(times[1:], times[:-1])).as_py())


@settings(max_examples=tries(50), suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases())
def test_any_network_in_order_agrees_with_duckdb_and_leaves_in_order(case: Case) -> None:
    check(case, run(case))


@pytest.mark.spark
@settings(max_examples=tries(3), suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases(rows=16, boxes=4, aggregates=2, trains=st.sampled_from([None, 9, 12])))
def test_any_network_in_order_agrees_with_duckdb_on_spark(case: Case, spark_ready: Any) -> None:
    small = replace(case, buckets=min(case.buckets, 3), tasks=min(case.tasks, 2))
    check(small, run(small, "spark"))


class InterruptError(Exception):
    pass


@settings(max_examples=tries(8), suppress_health_check=NO_FIXTURE_CHECK)
@given(case=cases(rows=25, boxes=4, aggregates=2, trains=st.sampled_from([2, 4, 9])), after=st.integers(0, 5))
def test_a_run_in_order_interrupted_after_any_batch_goes_on_to_the_same_answer(case: Case, after: int) -> None:
    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    with tempfile.TemporaryDirectory() as checkpoint:
        with contextlib.suppress(InterruptError):
            run(case, checkpoint=checkpoint, on_batch=interrupt)
        check(case, run(case, checkpoint=checkpoint))
