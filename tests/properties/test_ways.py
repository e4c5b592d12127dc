"""The way of a batch does not matter: random networks whose batches travel at random leave the same bytes.

Every network runs three times: all batches the express way, all by exchange, and each as it was drawn. After every
batch the files of state and of kept results are compared. Clocks are scripted, so all runs plan the same batches.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.properties import networks, stepped, test_in_order, test_join, test_networks
from tests.properties.journeys import by_every_way, journey, same
from tests.properties.networks import Case, Input, Oracle, Windowed, arrow_schema, bag, build, recut
from tests.properties.test_late_tuples import _table, broken_inputs, late_and_on_time
from tests.properties.test_networks import NO_FIXTURE_CHECK
from tests.thoroughness import tries

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.plan.plan import ARCHITECTURES, IN_ORDER
from penstock.runtime.settings import EXCHANGE, EXPRESS

CASES = tries(8)
"""Of each test; a search takes thousands."""
CLOCK = pk.clock(1_000)

WAYS = st.lists(st.sampled_from([EXPRESS, EXCHANGE]), min_size=2, max_size=9)
"""The way of the first batch, of the second, and so on; then from the beginning again."""
TRAINS = st.sampled_from([2, 3, 5, 9])
BUCKETS = st.integers(1, 4)


def clocked(case: Case) -> Case:
    """The same network over inputs that bring their clock."""
    memo: dict[int, Any] = {}

    def shared(node: Any) -> Any:
        # A node that two outputs share stays one node.
        if id(node) not in memo:
            memo[id(node)] = recut(node, lambda source: memo.setdefault(id(source), with_clock(source)))
        return memo[id(node)]

    return replace(case, outputs=tuple(shared(node) for node in case.outputs))


def with_clock(source: Any) -> Any:
    return replace(source, elements=(CLOCK, *source.elements))


def has_stages(net: pk.Network, architecture: str) -> None:
    """Leave out networks in which there is no way to choose."""
    stages = compile_network(net.network, architecture).stages
    assume(stages)
    event(f"{stages} stages")


# --- on the local engine ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=CASES, suppress_health_check=NO_FIXTURE_CHECK)
@given(case=networks.cases(rows=20, trains=TRAINS), ways=WAYS, buckets=BUCKETS)
def test_any_network_leaves_the_same_bytes_by_any_way_and_agrees_with_duckdb(
    case: Case, ways: list[str], buckets: int, architecture: str
) -> None:
    case = replace(clocked(case), buckets=buckets)
    options = {"buckets": buckets, "tasks": case.tasks, "architecture": architecture}
    has_stages(build(case), architecture)
    with by_every_way(lambda: build(case), ways, **options) as mixed:
        check = test_in_order.check if architecture == IN_ORDER else test_networks.check
        check(case, mixed.result)


@settings(max_examples=CASES, suppress_health_check=NO_FIXTURE_CHECK)
@given(case=test_join.cases(joins=2), ways=WAYS, buckets=BUCKETS, train=TRAINS)
def test_any_join_leaves_the_same_bytes_by_any_way_and_agrees_with_duckdb(
    case: test_join.Case, ways: list[str], buckets: int, train: int
) -> None:
    left, right = (replace(with_clock(source), train=train) for source in (case.left, case.right))
    case = replace(case, left=left, right=right, buckets=buckets)
    with by_every_way(lambda: test_join.network(case), ways, buckets=buckets, tasks=case.tasks) as mixed:
        test_join.check(case, mixed.result)


@settings(max_examples=CASES, suppress_health_check=NO_FIXTURE_CHECK)
@given(source=broken_inputs(), ways=WAYS, buckets=BUCKETS, size=st.integers(1, 9))
def test_late_tuples_are_the_same_by_any_way(source: Input, ways: list[str], buckets: int, size: int) -> None:
    step = networks.TICKS[dict(source.schema)["ts"]][1]
    # In the place of the clock the model has punctuation that says nothing, so that it cuts the same trains.
    silent = pk.punctuation(ts=min((row[0] for row in source.rows), default=0) - step)
    late, on_time = late_and_on_time(replace(source, elements=(silent, *source.elements)))
    source = with_clock(source)
    counted = Windowed(source, "ts", size * step, size * step, ("k",), (("n", "whole", "count(*)", "count(*)"),))
    summed = Windowed(counted, "ts", 3 * size * step, size * step, (), (("m", "whole", "max(n)", "max(n)"),))
    case = Case((source, counted, summed), buckets)
    schema = arrow_schema(source.schema)
    with by_every_way(lambda: build(case), ways, buckets=buckets, tasks=2) as mixed:
        assert bag(mixed.result.late("in"), schema) == bag(_table(late, source), schema)
        oracle = Oracle()
        for number, node in enumerate(case.outputs):
            kept = recut(node, lambda of: replace(of, elements=tuple(on_time)))
            answer = arrow_schema(node.schema)
            assert bag(mixed.result[f"o{number}"], answer) == bag(oracle.answer(kept), answer), f"o{number}"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=CASES, suppress_health_check=NO_FIXTURE_CHECK)
@given(case=stepped.cases(), ways=WAYS, buckets=BUCKETS)
def test_boxes_of_every_kind_leave_the_same_bytes_by_any_way(
    case: stepped.Case, ways: list[str], buckets: int, architecture: str
) -> None:
    # Some of these inputs have clocks of their own, which go on from 100 seconds.
    inputs = tuple(replace(given, elements=(pk.clock(100), *given.elements)) for given in case.inputs)
    case = replace(case, inputs=inputs, train=case.train or 3)
    has_stages(stepped.build(case)[0], architecture)
    with by_every_way(
        lambda: stepped.build(case)[0], ways, buckets=buckets, tasks=2, architecture=architecture
    ) as mixed:
        assert mixed.result.record().ended


def test_the_comparison_itself_tells_runs_apart(tmp_path: Path) -> None:
    """It is no rubber stamp: one value more in one group shows in the state of its batch."""
    one, other = (
        journey(traffic(more), tmp_path / str(more), "local", buckets=2, tasks=2, way=EXPRESS) for more in (0, 1)
    )
    with pytest.raises(AssertionError, match=r"batch 0: \['state/"):
        same(one, replace(other, plans=one.plans), "with and without")


# --- on Spark --------------------------------------------------------------------------------------------------------


def traffic(more: int = 0) -> pk.Network:
    """Two inputs with late tuples; a join, groups, and a count of everything."""
    net = pk.Network("traffic")
    schema = {"ts": "int64", "k": "string", "j": "int64", "v": "int64"}
    streams = []
    for name, late in (("one", 19), ("two", 15)):
        rows = [(at - (late if at % 7 == 6 else at % 3), "xyz"[at % 3], at % 4, at) for at in range(24)]
        rows[0] = (*rows[0][:3], rows[0][3] + more)
        elements = [CLOCK, *rows]
        streams.append(net.source(name, pk.memory(elements, schema=schema, train=9), progress=pk.delayed(3)))
    pairs = streams[0].join(streams[1], "l.k = r.k", on="ts", band=(2, 2), progress="left")
    pairs.aggregate({"n": "count(*)", "v": "sum(l_v)::BIGINT"}, on="l_ts", size=4, by=["l_j"]).output("pairs")
    groups = streams[0].aggregate({"n": "count(*)", "v": "max(v)"}, on="ts", size=3, by=["k", "j"])
    groups.aggregate({"n": "sum(n)::BIGINT", "v": "max(v)"}, on="ts", size=6).output("all")
    streams[1].late().output("behind")
    return net


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_on_spark_batches_leave_the_same_bytes_by_any_way(architecture: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"buckets": 2, "tasks": 2, "architecture": architecture}
    assert compile_network(traffic().network, architecture).stages >= 2
    ways = random.Random(7).choices((EXPRESS, EXCHANGE), k=3)
    with by_every_way(traffic, ways, "spark", **options) as mixed:
        locally = journey(traffic(), tmp_path / "local", "local", way=EXCHANGE, **options)
        same(mixed, locally, "on Spark, and in one process")
        assert mixed.result.late("two").num_rows
        assert mixed.result["all"].num_rows
