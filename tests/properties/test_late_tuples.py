"""Late tuples: exactly those below what their shard had issued before their train; everything else is on time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.networks import BASE, TICKS, Case, Input, Oracle, Windowed, arrow_schema, bag, build
from tests.thoroughness import tries

import penstock as pk

BEFORE_ALL = -(10**30)


@st.composite
def broken_inputs(draw: Any) -> Input:
    """Times and punctuation in no order at all, whatever the policy promises."""
    kind = draw(st.sampled_from(["int", "us", "date"]))
    _, step, _, _, _ = TICKS[kind]
    times = draw(st.lists(st.integers(-10, 30), max_size=25))
    elements: list[Any] = [
        (t * step, draw(st.sampled_from([None, "x", "y"])), n % 3, None, n, n / 4) for n, t in enumerate(times)
    ]
    policy = draw(st.sampled_from(["ordered", "delayed", "slack", "punctuated"]))
    shard_by = draw(st.sampled_from([None, "k"]))
    for _ in range(draw(st.integers(0, 3))):
        stated: dict[str, Any] = {"ts": draw(st.integers(-10, 30)) * step}
        if shard_by and draw(st.booleans()):
            stated[shard_by] = draw(st.sampled_from(["x", "y"]))
        elements.insert(draw(st.integers(0, len(elements))), pk.punctuation(**stated))
    bound = draw(st.integers(0, 8)) * (1 if policy == "slack" else step)
    train = draw(st.sampled_from([1, 2, 4, 7, None]))
    return Input("in", (("ts", kind), *BASE), tuple(elements), policy, bound, train, shard_by)


def late_and_on_time(source: Input) -> tuple[list[Any], list[Any]]:
    """The rule, train by train, in plain Python."""
    seen: dict[str, list[int]] = {}
    stated: dict[str, int] = {}
    late, on_time = [], []
    shards = {_shard(e, source) for e in source.elements} - {None} or {"0"}
    length = source.train or max(1, len(source.elements))
    for start in range(0, len(source.elements), length):
        train = source.elements[start : start + length]
        issued = {}
        for shard in shards:
            issued[shard] = max(stated.get(shard, BEFORE_ALL), deduced(source, sorted(seen.get(shard, []))))
        for element in train:
            shard = _shard(element, source)
            if not isinstance(element, tuple):
                for told in shards if shard is None else {shard}:
                    stated[told] = max(stated.get(told, BEFORE_ALL), dict(element.value)["ts"])
            elif element[0] < issued[shard]:
                late.append(element)
            else:
                on_time.append(element)
                seen.setdefault(shard, []).append(element[0])
    return late, on_time


def deduced(source: Input, values: list[int]) -> int:
    """What values state, in ascending order."""
    if source.policy == "punctuated" or not values:
        return BEFORE_ALL
    if source.policy == "slack":
        return values[-1 - source.bound] if len(values) > source.bound else BEFORE_ALL
    return values[-1] - (source.bound if source.policy == "delayed" else 0)


def _shard(element: Any, source: Input) -> str | None:
    if source.shard_by is None:
        return "0"
    if isinstance(element, tuple):
        return str(element[1])
    return dict(element.value).get(source.shard_by)


def _table(rows: list[Any], source: Input) -> pa.Table:
    schema = arrow_schema(source.schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@settings(max_examples=tries(50), suppress_health_check=[HealthCheck.too_slow])
@given(source=broken_inputs(), size=st.integers(1, 9), advance=st.integers(1, 9), by=st.sampled_from([(), ("k",)]))
def test_late_is_what_lies_below_what_its_shard_had_issued_before_its_train(
    source: Input, size: int, advance: int, by: tuple[str, ...]
) -> None:
    step = TICKS[dict(source.schema)["ts"]][1]
    counted = Windowed(source, "ts", size * step, advance * step, by, (("n", "whole", "count(*)", "count(*)"),))
    result = build(Case((source, counted), buckets=2, tasks=2)).run(engine="local", buckets=2, tasks=2)
    late, on_time = late_and_on_time(source)
    schema = arrow_schema(source.schema)
    assert bag(result.late("in"), schema) == bag(_table(late, source), schema)
    assert bag(result["o0"], schema) == bag(_table(on_time, source), schema)
    kept = replace(counted, of=replace(source, elements=tuple(on_time)))
    answer = arrow_schema(kept.schema)
    assert bag(result["o1"], answer) == bag(Oracle().answer(kept), answer)
    count = result.record().inputs.get("in")
    assert (count.late, count.taken) == (len(late), len(on_time)) if count else not late + on_time


def test_the_model_itself_knows_a_late_tuple() -> None:
    # train 1: 5 8 | train 2: 7 9  -> 7 is below 8, which was issued when train 1 ended
    rows = tuple((t, "x", 0, None, 0, 0.0) for t in (5, 8, 7, 9))
    source = Input("in", (("ts", "int"), *BASE), rows, "ordered", train=2)
    late, on_time = late_and_on_time(source)
    assert Counter(r[0] for r in late) == Counter([7])
    assert [r[0] for r in on_time] == [5, 8, 9]
