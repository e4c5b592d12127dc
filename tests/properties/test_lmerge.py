"""LMerge of random copies of a random temporal database: every case, policy, cut into batches and number of buckets."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.algebra.temporal.prefixes import SCHEMA, table
from tests.boxes.lmerge import oracle
from tests.boxes.lmerge.copies import Merge, batches, element_source, mark_of, random_copies
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.ticks import BEGINNING, END

INF = math.inf
POLICIES = {
    "eager": pk.merge_policy(),
    "every": pk.merge_policy(adjust="every"),
    "leading": pk.merge_policy(insert="leading"),
    "leading, every": pk.merge_policy(insert="leading", adjust="every"),
    "half-frozen": pk.merge_policy(insert="half-frozen"),
    "half of them": pk.merge_policy(insert=0.5),
    "all of them, behind": pk.merge_policy(insert=1, stable=2),
    "behind, every": pk.merge_policy(adjust="every", stable=3),
}
IN_SEQUENCE = {"eager": pk.merge_policy(), "behind": pk.merge_policy(stable=3)}
CHOICES = [
    *((case, policy) for case in ("R0", "R1", "R2") for policy in IN_SEQUENCE),
    *((case, policy) for case in ("R3", "R3-", "R4") for policy in POLICIES),
]


def rows(elements: pa.Table) -> list[Any]:
    return list(zip(*(elements.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def stable_of(mark: int) -> float:
    return -INF if mark == BEGINNING else INF if mark == END else mark


@pytest.mark.parametrize(("case", "policy"), CHOICES)
@settings(max_examples=tries(8))
@given(
    seed=st.integers(0, 2**32),
    inputs=st.integers(2, 4),
    buckets=st.integers(1, 3),
    most=st.sampled_from([1, 2, 5, 40]),
)
def test_the_output_is_the_database_and_follows_all_copies(
    case: str, policy: str, seed: int, inputs: int, buckets: int, most: int
) -> None:
    random = Random(seed)
    events, copies = random_copies(case, random, inputs)
    merge = Merge(len(copies), case, buckets, {**POLICIES, **IN_SEQUENCE}[policy])
    output = oracle.Reconstituted()
    told = [oracle.Reconstituted() for _ in copies]
    received: Counter[str] = Counter()
    for known, copy in zip(told, copies, strict=True):
        known.events.update(copy.skipped)
    for batch in batches(copies, random, most):
        # The test bench refuses elements below the output's own stable point.
        output.add(rows(merge.batch(batch)))
        for known, (elements, _) in zip(told, batch, strict=True):
            known.add(elements)
            received.update(element[1] for element in elements)
        inputs_now = [(known.events, said) for known, (_, said) in zip(told, batch, strict=True)]
        assert oracle.compatible(output.events, stable_of(merge.stable), inputs_now) == []
    assert merge.errors == []
    assert output.events == Counter(events)
    assert sum(slots.rows() for slots in merge.slots) == 0
    if policy == "eager" and case == "R3":
        # Theorem 1. What it says of adjusts is read so: each answers to an element that came.
        sent = Counter(merge.elements.column("kind").to_pylist())
        assert sent["insert"] <= received["insert"]
        assert sent.total() <= received.total()


@settings(max_examples=tries(12))
@given(
    seed=st.integers(0, 2**32),
    case=st.sampled_from(["R0", "R1", "R2", "R3", "R3-", "R4"]),
    train=st.sampled_from([1, 4, None]),
    buckets=st.integers(1, 3),
    tasks=st.integers(1, 2),
)
def test_a_network_gives_the_database_however_it_is_cut(
    seed: int, case: str, train: int | None, buckets: int, tasks: int
) -> None:
    random = Random(seed)
    events, copies = random_copies(case, random, 2)
    net = pk.Network("net")
    streams = []
    for at, copy in enumerate(copies[:2]):
        script = [s if isinstance(s, tuple) else pk.punctuation(sync=int(s)) for s in copy.steps if s != INF]
        streams.append(element_source(net, f"in{at}", script, train=train))
    merged = pk.lmerge(*streams, case=case, name="merged")
    merged.output("out")
    result = net.run(engine="local", buckets=buckets, tasks=tasks)
    output = oracle.Reconstituted()
    output.add(rows(result["out"].select(SCHEMA.names)))
    assert output.events == Counter(events)
    assert result.errors("merged").num_rows == 0
    assert result.record().boxes["merged"].held_rows == 0


@settings(max_examples=tries(6))
@given(seed=st.integers(0, 2**32), case=st.sampled_from(["R3", "R4"]))
def test_the_product_agrees_with_the_definitions(seed: int, case: str) -> None:
    """pk.tdb and pk.compatible against plain Python, on prefixes that are compatible and on such that are not."""
    random = Random(seed)
    _, copies = random_copies(case, random, 2)
    script = batches(copies, random, 5)
    cut = random.randrange(len(script)) + 1
    told, prefixes = [], []
    for at in range(len(copies)):
        elements = [element for batch in script[:cut] for element in batch[at][0]]
        known = oracle.Reconstituted()
        known.add(elements)
        said = script[cut - 1][at][1]
        told.append((known.events, said))
        prefixes.append(pk.Prefix(table(elements), None if said == -INF else said))
        found = pk.tdb(table(elements))
        columns = (found.column(name).to_pylist() for name in ("p", "vs", "ve"))
        assert Counter((p, vs, oracle.end(ve)) for p, vs, ve in zip(*columns, strict=True)) == known.events
    (output, mark), (first, *_) = told[0], told[1:]
    wrong = oracle.compatible(output, mark, [first])
    assert bool(pk.compatible(prefixes[0], [prefixes[1]])) == (not wrong)
    assert mark_of(mark) == prefixes[0].mark
