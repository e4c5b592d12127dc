"""Stepping gives what a run gives: random networks of all kinds of boxes, stepped to their end or fed by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.properties import networks
from tests.properties.stepped import Case, Flow, build, cases
from tests.thoroughness import tries

import penstock as pk
from penstock.plan.plan import ARCHITECTURES

CASES = tries(6)
"""Of each architecture; a search takes thousands."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=CASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases(), relaxed=st.booleans())
def test_any_network_stepped_to_its_end_gives_what_a_run_gives(case: Case, relaxed: bool, architecture: str) -> None:
    net, flows = build(case)
    note(net.explain(architecture=architecture))
    wanted = net.run(engine="local", buckets=case.buckets, tasks=1, architecture=architecture)
    stepper = net.stepper(architecture=architecture, relaxed=relaxed)
    note("\n".join(map(str, stepper.run(inputs=True))))
    assert not any(stepper.queues().values()), stepper.queues()
    for number, flow in enumerate(flows):
        found = stepper.output(f"o{number}")
        assert bag(found) == bag(wanted[f"o{number}"]), f"o{number}"
        check_order(flow, found, architecture)
    for box in net.network.boxes:
        if box.late_port() is not None and getattr(box, "late", "route") == "route":
            assert bag(stepper.late(box.name)) == bag(wanted.late(box.name)), f"late tuples of {box.name}"
    for source in net.network.sources:
        assert bag(stepper.errors(source.name)) == bag(wanted.errors(source.name)), f"errors of {source.name}"


@settings(max_examples=max(2, CASES // 2), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=networks.cases(rows=16), relaxed=st.booleans(), architecture=st.sampled_from(ARCHITECTURES))
def test_networks_over_all_kinds_of_time_step_to_what_a_run_gives(
    case: networks.Case, relaxed: bool, architecture: str
) -> None:
    net = networks.build(case)
    wanted = net.run(engine="local", buckets=case.buckets, tasks=1, architecture=architecture)
    stepper = net.stepper(architecture=architecture, relaxed=relaxed)
    stepper.run(inputs=True)
    assert not any(stepper.queues().values()), stepper.queues()
    for number, node in enumerate(case.outputs):
        name, schema = f"o{number}", networks.arrow_schema(node.schema)
        assert networks.bag(stepper.output(name), schema) == networks.bag(wanted[name], schema), name


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def check_order(flow: Flow, found: pa.Table, architecture: str) -> None:
    """What is sorted leaves in order; in an in-order system everything that makes progress does."""
    box = flow.stream._port.box
    on = getattr(box, "on", None) if box.kind in ("merge", "cleanse") and not getattr(box, "by", ()) else None
    if architecture == "in-order" and flow.stream.progressing:
        on = flow.stream.progressing[0] if on is None else on
    if on is not None:
        times = found.column(on).to_pylist()
        assert times == sorted(times), f"{box.name} is not in order of {on}"


SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


@st.composite
def inputs(draw: Any) -> tuple[list[tuple[int, str, int]], int]:
    """Rows at most a bound behind the largest before them, and the bound."""
    bound = draw(st.sampled_from([0, 0, 2]))
    rows, now = [], draw(st.integers(-5, 5))
    for number in range(draw(st.integers(0, 12))):
        now += draw(st.integers(0, 3))
        rows.append((now - draw(st.integers(0, bound)), draw(st.sampled_from("ab")), number))
    return rows, bound


def _grown(net: pk.Network, streams: list[pk.Stream], draws: list[tuple[str, int, int]]) -> list[pk.Stream]:
    """Streams, and boxes over them as drawn; all have the same attributes."""
    for number, (kind, one, other) in enumerate(draws):
        left, right = streams[one % len(streams)], streams[other % len(streams)]
        name = f"{kind}{number}"
        match kind:
            case "filter":
                made = left.where("v % 3 <> 1", name=name)
            case "map":
                made = left.map(ts="ts + 2", k="k", v="v * 2", name=name)
            case "union":
                made = pk.union(left, right, name=name)
            case "merge":
                made = pk.merge(left, right, on="ts", name=name)
            case "aggregate":
                made = left.aggregate({"v": "sum(v)::BIGINT"}, on="ts", size=5, by="k", name=name)
            case _:
                pairs = left.join(right, "l.k = r.k", on="ts", band=(2, 1), progress="left", name=name)
                made = pairs.map(ts="l_ts", k="l_k", v="l_v + r_v", name=f"{name}.pairs")
        streams.append(made)
    return streams


KINDS = st.sampled_from(["filter", "map", "union", "merge", "aggregate", "join"])


@settings(max_examples=tries(20))
@given(
    given_inputs=st.lists(inputs(), min_size=1, max_size=3),
    draws=st.lists(st.tuples(KINDS, st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=5),
    turns=st.lists(st.integers(0, 2), max_size=40),
    pauses=st.lists(st.integers(0, 9), max_size=40),
)
def test_stepping_gives_what_a_run_gives(
    given_inputs: list[Any], draws: list[tuple[str, int, int]], turns: list[int], pauses: list[int]
) -> None:
    net = pk.Network("net")
    sources = [
        net.source(f"in{n}", pk.memory(rows, schema=SCHEMA, train=3), progress=pk.delayed(bound))
        for n, (rows, bound) in enumerate(given_inputs)
    ]
    streams = _grown(net, list(sources), draws)
    for number, stream in enumerate(streams):
        stream.output(f"o{number}")
    wanted = net.run(engine="local", buckets=2, tasks=1)

    stepper = net.stepper()
    waiting = [list(rows) for rows, _ in given_inputs]
    for turn, pause in zip(turns, pauses, strict=False):
        number = turn % len(waiting)
        if waiting[number]:
            stepper.feed(f"in{number}", waiting[number].pop(0))
        stepper.run(limit=pause)
    for number, rows in enumerate(waiting):
        stepper.feed(f"in{number}", *rows)
    stepper.end()
    stepper.run()
    assert set(stepper.queues().values()) == {0}
    for number, stream in enumerate(streams):
        name = f"o{number}"
        found = [tuple(row.values()) for row in stepper.output(name).to_pylist()]
        assert Counter(found) == Counter(tuple(row.values()) for row in wanted[name].to_pylist()), name
        if stream._port.box.kind == "merge":
            assert [row[0] for row in found] == sorted(row[0] for row in found)
