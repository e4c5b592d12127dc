"""A rewrite changes no answer: random networks, arranged in random ways between any batches, give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st
from tests.properties.arranged import Outcome, arrangements, assert_same, outcome, possible, run_arranged
from tests.properties.networks import Case, Oracle, arrow_schema, bag, build, cases
from tests.thoroughness import tries

import penstock as pk
from penstock.plan.plan import Arrangement
from penstock.plan.rewrites.draft import Draft

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SCHEMA = {"ts": "int64", "k": "int64", "i": "int32", "s": "string"}
WHERE = ("k > 0", "i % 3 = 1", "s LIKE 'a%'", "k IS NOT NULL", "CAST(i AS BIGINT) * 2 < 9", "length(s) > 1")
PARTIAL = ("CAST(k + 1 AS TINYINT) > 1", "CAST(s AS INTEGER) > 0")
GUARDS = ("k < 5", "s IN ('7', '8')")
"""With these in front of them, they do not fail."""
MAPS: tuple[dict[str, str], ...] = (
    {"ts": "ts", "k": "k", "i": "i", "s": "upper(s)"},
    {"ts": "ts", "k": "k", "i": "CAST(k % 7 AS INTEGER)", "s": "s"},
    {"ts": "ts", "k": "CAST(i AS BIGINT)", "i": "CAST(k % 9 AS INTEGER)", "s": "s || 'a'"},
    {"s": "s", "k": "k", "i": "i", "ts": "ts"},
    {"ts": "ts // 2", "k": "coalesce(k, 4)", "i": "i", "s": "lower(s)"},
)

rows = st.tuples(
    st.one_of(st.none(), st.integers(-4, 9), st.just(500)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.sampled_from([None, "", "a", "ab", "7", "8", "b7"]),
)


@st.composite
def inputs(draw: Any) -> list[tuple[Any, ...]]:
    payloads = draw(st.lists(rows, min_size=4, max_size=30))
    return [(number // 2, *payload) for number, payload in enumerate(payloads)]


@st.composite
def shapes(draw: Any) -> list[tuple[str, Any]]:
    """What happens to a stream, box by box: filters most of all."""
    kinds = st.sampled_from(["where", "where", "where", "map", "union", "guarded"])
    return [(kind := draw(kinds), draw(_texts(kind))) for _ in range(draw(st.integers(1, 5)))]


def _texts(kind: str) -> st.SearchStrategy[Any]:
    choices: dict[str, Any] = {
        "where": WHERE,
        "guarded": zip(GUARDS, PARTIAL, strict=True),
        "map": MAPS,
        "union": (None,),
    }
    return st.sampled_from(list(choices[kind]))


def behind(stream: pk.Stream, other: pk.Stream, shape: list[tuple[str, Any]]) -> pk.Stream:
    for kind, given_ in shape:
        match kind:
            case "map":
                stream = stream.map(**given_)
            case "union":
                stream = pk.union(stream, other)
            case "guarded":
                stream = stream.where(given_[0]).where(given_[1])
            case _:
                stream = stream.where(given_)
    return stream


@st.composite
def networks(draw: Any) -> pk.Network:
    net = pk.Network("arranged")
    left, right = (
        net.source(name, pk.memory(draw(inputs()), schema=SCHEMA, train=draw(st.sampled_from([3, 7]))))
        for name in ("left", "right")
    )
    first = behind(left, right, draw(shapes()))
    match draw(st.sampled_from(["stream", "join", "aggregate", "both"])):
        case "stream":
            behind(first, right, draw(shapes())).output("o")
        case "join":
            pairs = first.join(right, "l.k = r.k", on=("ts", "ts"), band=(2, 1))
            pairs = pairs.where(draw(st.sampled_from(["l_i > 0", "r_s LIKE 'a%'", "l_k > 2", "l_i < r_i"])))
            pairs.map(ts="l_ts", k="r_k", s="r_s", j="l_i").where("j < 5").where("s <> 'b7'").output("o")
        case "aggregate":
            counts = first.aggregate({"n": "count(*)", "m": "max(s)"}, on="ts", size=4, by=["k", "i"])
            counts.where("k > 1").map(ts="ts", key="k", n="n").where("n < 3").where("key < 7").output("o")
        case "both":
            counts = first.aggregate({"n": "count(*)"}, on="ts", size=3, by=["k"]).where("k > 0")
            pairs = counts.join(right, "l.k = r.k", on=("ts", "ts"), band=(3, 3)).where("l_k < 6").where("n > 0")
            pairs.aggregate({"t": "count(*)"}, on="l_ts", size=6, by=["l_k"]).where("l_k <> 3").output("o")
    return net


@settings(max_examples=tries(30), suppress_health_check=QUIET)
@given(net=networks(), data=st.data(), buckets=st.integers(1, 3), way=st.sampled_from(["express", "exchange"]))
def test_a_network_arranged_in_any_way_at_any_batch_gives_the_same(
    net: pk.Network, data: Any, buckets: int, way: str
) -> None:
    options = {"buckets": buckets, "tasks": 2, "way": way}
    expected = _tried(lambda: run_arranged(net, lambda _: None, **options)[1])

    def choose(batch: int) -> Arrangement | None:
        return data.draw(arrangements(net.network), label=f"before batch {batch}") if data.draw(st.booleans()) else None

    found = _tried(lambda: run_arranged(net, choose, **options)[1])
    if isinstance(expected, str) or isinstance(found, str):
        assert expected == found
    else:
        assert_same(expected, found)


@settings(max_examples=tries(30), suppress_health_check=QUIET)
@given(maps=st.lists(st.sampled_from(MAPS), min_size=2, max_size=4), rows=inputs(), batch=st.integers(0, 2))
def test_maps_that_are_combined_at_any_batch_give_the_same(
    maps: list[dict[str, str]], rows: list[tuple[Any, ...]], batch: int
) -> None:
    net = pk.Network("maps")
    stream = net.source("x", pk.memory(rows, schema=SCHEMA, train=5), progress=pk.delayed(3))
    for outputs in maps:
        stream = stream.map(**outputs)
    stream.output("o")
    draft = Draft.of(net.network)
    steps = [step for step in possible(draft) if step.rewrite == "combine_maps"]
    # Only two times that are computed one from the other, and what is used twice, keep maps apart.
    event(f"{len(steps)} places")
    assert steps or len([outputs for outputs in maps if outputs["ts"] != "ts"]) > 1
    plain = run_arranged(net, lambda _: None)[1]
    for step in steps:
        assert_same(plain, run_arranged(net, lambda now, chosen=step: (chosen,) if now == batch else None)[1])


def _tried(run: Callable[[], Outcome]) -> Outcome | str:
    """What came of a run, or with what it failed."""
    try:
        return run()
    except pk.PenstockError as error:
        return f"{type(error).__name__}: {error.what}"


@settings(max_examples=tries(20), suppress_health_check=QUIET)
@given(case=cases(trains=st.sampled_from([3, 9])), data=st.data())
def test_arranged_networks_agree_with_duckdb(case: Case, data: Any) -> None:
    net = build(case)
    chosen = data.draw(arrangements(net.network))
    note(str(chosen))
    options = {"buckets": case.buckets, "tasks": case.tasks}
    plain = run_arranged(net, lambda _: None, **options)[1]
    found = run_arranged(net, lambda batch: chosen if batch == 1 else None, **options)[1]
    assert_same(plain, found)
    oracle = Oracle()
    for number, node in enumerate(case.outputs):
        schema = arrow_schema(node.schema)
        assert bag(found[f"o{number}"][0], schema) == bag(oracle.answer(node), schema)


@pytest.mark.spark
@pytest.mark.parametrize("way", ["express", "exchange"])
def test_the_optimizer_at_work_changes_nothing_on_spark(way: str, spark_ready: Any) -> None:
    def network() -> pk.Network:
        net = pk.Network("optimized")
        rows = [(n, n % 11, n % 7, f"s{n % 13}") for n in range(40_000)]
        left = net.source("left", pk.memory(rows, schema=SCHEMA, train=4_000))
        right = net.source("right", pk.memory(rows[::50], schema=SCHEMA, train=80))
        dear = left.where("md5(s) > '1'", name="dear").map(ts="ts", k="k", i="i", s="upper(s)", name="upper")
        few = dear.where("i = 3", name="few").where("k = 5", name="fewer")
        few.join(right, "l.k = r.k", on=("ts", "ts"), band=(5, 5)).where("r_i = 2", name="late").output("pairs")
        few.aggregate({"n": "count(*)"}, on="ts", size=1_000, by=["k"]).output("counts")
        return net

    plain = network().run(buckets=2, way=way)
    seen: list[int] = []
    optimized = network().run(buckets=2, way=way, optimize="on", on_batch=lambda record: seen.append(record.version))
    assert max(seen) > 1
    assert_same(outcome(plain), outcome(optimized))
