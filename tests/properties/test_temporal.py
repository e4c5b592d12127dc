"""Temporal streams against databases in plain Python: whatever the cut, the buckets and the tasks, at every batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.arranged import arrangements, assert_same, outcome, run_arranged
from tests.properties.events import SCHEMA, Database, Script, database, database_of, scripts
from tests.thoroughness import tries

import penstock as pk

CUTS = {
    "train": st.sampled_from([1, 2, 3, 7, None]),
    "buckets": st.integers(1, 3),
    "tasks": st.integers(1, 2),
}


def source(net: pk.Network, script: Script, train: int | None, name: str = "in", **promises: bool) -> pk.Stream:
    rows = pk.memory(list(script.rows), schema=SCHEMA, train=train)
    return net.source(name, pk.temporal(rows, **promises), progress=pk.punctuated())


@settings(max_examples=tries(25))
@given(script=scripts(mistakes=True), **CUTS)
def test_an_input_passes_what_is_legal_and_refuses_the_rest(
    script: Script, train: int | None, buckets: int, tasks: int
) -> None:
    net = pk.Network("net")
    source(net, script, train).output("out")
    result = net.run(engine="local", buckets=buckets, tasks=tasks)
    out, errors = result["out"], result.errors("in")
    assert database_of(out) == database(script.legal())
    assert Counter(errors["reason"].to_pylist()) == Counter(
        {"adjusts an event that does not exist": len(script.illegal)} if script.illegal else {}
    )
    counted = result.record().inputs["in"]
    assert (counted.taken, counted.refused) == (len(script.legal()), len(script.illegal))
    if buckets == 1:
        assert [{n: row[n] for n in SCHEMA} for row in out.to_pylist()] == script.legal()


def wanted(database: Database) -> Database:
    """Events of an even start or value 2, with their value halved."""
    found: Database = Counter()
    for ((k, v), vs, ve), number in database.items():
        if vs % 2 == 0 or v == 2:
            found[(k, v // 2), vs, ve] += number
    return found


@settings(max_examples=tries(25))
@given(left=scripts(mistakes=True), right=scripts(), **CUTS)
def test_filter_map_and_union_mean_what_they_mean_for_the_database_at_every_batch(
    left: Script, right: Script, train: int | None, buckets: int, tasks: int
) -> None:
    net = pk.Network("net")
    sources = [source(net, script, train, name) for script, name in ((left, "left"), (right, "right"))]
    mapped = [s.where("vs % 2 = 0 OR v = 2").map(k="k", v="v / 2") for s in sources]
    batches: dict[int, pa.Table] = {}
    pk.union(*mapped).output("out", to=pk.callback(lambda table, batch: batches.setdefault(batch, table)))
    net.run(engine="local", buckets=buckets, tasks=tasks)
    rows: list[dict[str, Any]] = []
    for batch in range(max(batches, default=-1) + 1):
        rows += batches[batch].to_pylist() if batch in batches else []
        upto = None if train is None else (batch + 1) * train
        assert database(rows) == wanted(database(left.legal(upto))) + wanted(database(right.legal(upto)))
    assert database(rows) == wanted(database(left.legal())) + wanted(database(right.legal()))


@settings(max_examples=tries(20))
@given(script=scripts(mistakes=True), train=st.sampled_from([1, 3, None]), buckets=st.integers(1, 3))
def test_what_is_held_is_what_is_not_fully_frozen(script: Script, train: int | None, buckets: int) -> None:
    net = pk.Network("net")
    source(net, script, train).output("out")
    seen: list[tuple[int, int, int]] = []

    def watch(record: Any) -> None:
        count = record.inputs["in"]
        held = record.boxes["in.legal"].held_rows if "in.legal" in record.boxes else 0
        seen.append((count.read, held, record.marks["in"].of("sync")))

    net.run(engine="local", buckets=buckets, on_batch=watch)
    for batch, (_, held, stable) in enumerate(seen[:-1]):
        upto = None if train is None else (batch + 1) * train
        alive = database(script.legal(upto))
        assert held == sum(number for (_, _, ve), number in alive.items() if ve is None or ve >= stable)
    assert not seen or seen[-1][1] == 0


@settings(max_examples=tries(20))
@given(script=scripts(mistakes=True), train=st.sampled_from([1, 3, None]), buckets=st.integers(1, 3))
def test_every_event_is_a_fact_once_and_not_before_it_is_frozen(
    script: Script, train: int | None, buckets: int
) -> None:
    net = pk.Network("net")
    facts = source(net, script, train).as_facts()
    batches: dict[int, pa.Table] = {}
    facts.output("out", to=pk.callback(lambda table, batch: batches.setdefault(batch, table)))
    stable: list[int] = []
    net.run(engine="local", buckets=buckets, on_batch=lambda record: stable.append(record.marks["in"].of("sync")))
    found: Database = Counter()
    for batch, mark in enumerate(stable):
        rows = batches[batch].to_pylist() if batch in batches else []
        found += Counter(((row["k"], row["v"]), row["vs"], row["ve"]) for row in rows)
        upto = None if train is None else (batch + 1) * train
        ended = batch == len(stable) - 1
        frozen = {e: n for e, n in database(script.legal(upto)).items() if ended or (e[2] is not None and e[2] < mark)}
        assert found == frozen
    assert found == database(script.legal())


@settings(max_examples=tries(20), suppress_health_check=[HealthCheck.too_slow])
@given(left=scripts(mistakes=True), right=scripts(), data=st.data())
def test_a_network_that_is_arranged_anew_gives_the_same(left: Script, right: Script, data: Any) -> None:
    net = pk.Network("net")
    one, two = (source(net, script, 4, name) for script, name in ((left, "left"), (right, "right")))
    both = pk.union(one.map(k="k", v="v"), two.where("v < 2"))
    kept = both.where("vs % 2 = 0").map(k="k", v="v", w="v + 1").where("v > 0").where("k IS NULL OR vs > 1")
    kept.output("elements")
    kept.as_facts().output("facts")
    plain = outcome(net.run(engine="local", buckets=2, tasks=1))
    choice = st.one_of(st.none(), arrangements(net.network))
    _, arranged = run_arranged(net, lambda batch: data.draw(choice), buckets=2, tasks=1)
    assert_same(plain, arranged)
