"""Any flush, any table: the same results as without, in time, and never more in the table than it has entries."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.operators.scripted import box_of, source, stamped
from tests.properties.networks import TICKS, Case, Input, Oracle, Windowed, arrow_schema, bag, inputs, policy_of
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.boxes.aggregate.holder import AggregateOp
from penstock.boxes.aggregate.low_level.entries import Entries
from penstock.boxes.aggregate.low_level.holder import LowLevelOp
from penstock.runtime.board import Record
from penstock.testing.memory_slots import MemorySlots

SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

CALLS = [
    ("whole", "count(*)", "count(*)"),
    ("whole", "sum(i)", "CAST(sum(i) AS BIGINT)"),
    ("float", "avg(i)", "avg(i)"),
    ("whole", "count(i) FILTER (WHERE i > 0)", "count(i) FILTER (WHERE i > 0)"),
    ("whole", "first(i)", "list(i ORDER BY ts, i NULLS LAST)[1]"),
    ("float", "max(f)", "max(f)"),
    ("float", "sum(f)", "sum(f)"),
    ("text", "last(k)", "list(k ORDER BY ts DESC, k NULLS LAST)[1]"),
    ("bool", "bool_or(b)", "bool_or(b)"),
]


@st.composite
def flushes(draw: Any) -> dict[str, Any]:
    """The arguments that smooth an aggregate."""
    flush = draw(st.sampled_from(["at-once", "slow", "lazy", "in-order"]))
    found: dict[str, Any] = {"flush": flush, "table": draw(st.sampled_from([1, 2, 3, 5, 17, 1000]))}
    if flush in ("slow", "in-order"):
        found["every"] = draw(st.integers(1, 7))
    if flush in ("slow", "lazy"):
        found["delay"] = draw(st.integers(0, 3))
    return found


@st.composite
def smoothed(draw: Any) -> tuple[Case, dict[str, Any]]:
    kind = draw(st.sampled_from(list(TICKS)))
    of: Input = draw(inputs("in0", kind, rows=40))
    step = TICKS[kind][1]
    size = draw(st.integers(1, 20)) * step
    advance = draw(st.sampled_from([size, size, max(step, size // step // 2 * step), size + 3 * step]))
    by = tuple(draw(st.lists(st.sampled_from(["k", "j", "b", "f"]), max_size=2, unique=True)))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True))
    windowed = Windowed(of, "ts", size, advance, by, tuple((f"v{n}", *call) for n, call in enumerate(calls)))
    return Case((windowed,), draw(st.integers(1, 4)), draw(st.integers(1, 3))), draw(flushes())


def build(case: Case, arguments: dict[str, Any]) -> pk.Network:
    (node,) = case.outputs
    net, of = pk.Network("smooth"), node.of
    connector = pk.memory(of.elements, schema=arrow_schema(of.schema), train=of.train, shard_by=of.shard_by)
    unit = TICKS[dict(of.schema)["ts"]][3]
    lengths = {"size": node.size, "advance": node.advance}
    window = {name: n if unit is None else f"{n} {unit}" for name, n in lengths.items()}
    tuples = net.source(of.name, connector, on="ts", progress=policy_of(of))
    outputs = {name: text for name, _, text, _ in node.outputs}
    tuples.aggregate(outputs, on="ts", by=node.by, name="flows", **window, **arguments).output("o")
    return net


@settings(max_examples=tries(60), deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(smoothed())
def test_results_are_those_of_the_whole_input(drawn: tuple[Case, dict[str, Any]]) -> None:
    case, arguments = drawn
    net = build(case, arguments)
    note(net.explain())
    records: list[Record] = []
    result = net.run(engine="local", buckets=case.buckets, tasks=case.tasks, on_batch=records.append)
    schema = arrow_schema(case.outputs[0].schema)
    assert result["o"].schema.equals(schema)
    assert bag(result["o"], schema) == bag(Oracle().answer(case.outputs[0]), schema)
    for record in records:
        # A slow flush also keeps one row about its turn, in every bucket.
        assert record.boxes["flows.low"].held_rows <= case.buckets * arguments["table"]
    if records and result.record().boxes.get("flows.low"):
        low = result.record().boxes["flows.low"]
        assert (low.held_rows, low.released) == (0, low.tuples_in)


class Both:
    """An aggregate that is smoothed beside one that is not, over the same batches."""

    def __init__(self, size: int, advance: int, arguments: dict[str, Any]) -> None:
        tuples = source({"ts": "int64", "k": "int64"})
        window = {"on": "ts", "size": size, "advance": advance, "by": "k"}
        self.plain = box_of(tuples.aggregate({"n": "count(*)"}, **window))
        self.high = box_of(tuples.aggregate({"n": "count(*)"}, **window, **arguments))
        self.low = self.high.inputs[0].box
        self.slots = {name: MemorySlots() for name in ("plain", "low", "high")}
        self.left: dict[str, list[tuple[int, ...]]] = {"plain": [], "high": []}
        self.partials: list[int] = []
        self.mark = BEGINNING

    def batch(self, rows: list[tuple[int, int]], mark: int) -> None:
        table = pa.table([pa.array([r[i] for r in rows], pa.int64()) for i in (0, 1)], ["ts", "k"])
        low, plain, high = (
            LowLevelOp(self.low, self.slots["low"]),
            AggregateOp(self.plain, self.slots["plain"]),
            AggregateOp(self.high, self.slots["high"]),
        )
        feed(self.plain, plain, table)
        self._close("plain", plain, mark)
        feed(self.low, low, table)
        for _, ejected in low.punctuate([Marks({"ts": mark})], now=0):
            self.partials += ejected.column("ts").to_pylist()
            assert min(ejected.column("ts").to_pylist()) >= self.mark, "a partial below what was stated"
            feed(self.high, high, ejected)
        stated = low.output_marks([Marks({"ts": mark})]).of("ts")
        assert self.mark <= stated <= mark
        assert stated >= self.low.progress(0, [Marks({"ts": mark})]).of("ts")
        self.mark = stated
        self._close("high", high, stated)
        assert Entries(self.slots["low"], self.low.table).number <= self.low.table

    def _close(self, name: str, holder: AggregateOp, mark: int) -> None:
        for _, results in holder.punctuate([Marks({"ts": mark})], now=0):
            self.left[name] += [tuple(row.values())[:3] for row in results.to_pylist()]


def feed(box: Any, holder: Any, tuples: pa.Table) -> None:
    entry = SubAggregateOp(box)
    if tuples.num_rows:
        entry.process(0, tuples)
    for part, partials in entry.flush():
        holder.receive(part, partials if "#arrived" in partials.column_names else stamped(partials))


@st.composite
def batches(draw: Any) -> list[tuple[list[tuple[int, int]], int]]:
    """Batches of disordered tuples, each with the low-water mark at its end: nothing later is below it."""
    at, found = draw(st.integers(-30, 30)), []
    for _ in range(draw(st.integers(1, 12))):
        rows = draw(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 9)), max_size=15))
        found.append(([(at + offset, group) for offset, group in rows], at))
        at += draw(st.integers(0, 12))
    marks = [mark for _, mark in found[1:]] + [END]
    return [(rows, mark) for (rows, _), mark in zip(found, marks, strict=True)]


@settings(max_examples=tries(60), deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(st.integers(1, 12), st.integers(1, 15), flushes(), batches())
def test_a_result_is_at_most_the_delay_later(
    size: int, advance: int, arguments: dict[str, Any], given_batches: list[tuple[list[tuple[int, int]], int]]
) -> None:
    both = Both(size, advance, arguments)
    delay = {"at-once": 0, "in-order": 1}.get(arguments["flush"], arguments.get("delay"))
    window = both.low.window
    for rows, mark in given_batches:
        both.batch(rows, mark)
        due = math.inf if mark == END else window.start_of(window.last_closed(mark) - delay)
        late = [r for r in both.left["plain"] if r[0] <= due and r not in both.left["high"]]
        assert not late, f"at {mark}"
    assert sorted(both.left["high"]) == sorted(both.left["plain"])
    assert both.mark == END


@settings(max_examples=tries(40), deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(st.integers(1, 12), st.integers(1, 15), st.integers(1, 9), st.integers(1, 20), batches())
def test_what_leaves_an_in_order_table_is_in_order(
    size: int, advance: int, every: int, table: int, given_batches: list[tuple[list[tuple[int, int]], int]]
) -> None:
    both = Both(size, advance, {"flush": "in-order", "every": every, "table": table})
    # The same tuples in order: then each batch states the first tuple of the next.
    rows = sorted(row for batch, _ in given_batches for row in batch)
    cuts = [len(batch) for batch, _ in given_batches]
    for number, count in enumerate(cuts):
        mine, rows = rows[:count], rows[count:]
        both.batch(mine, END if number == len(cuts) - 1 else rows[0][0] if rows else both.mark)
    assert both.partials == sorted(both.partials)
    assert sorted(both.left["high"]) == sorted(both.left["plain"])


@settings(max_examples=tries(20), deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(smoothed())
def test_the_same_batches_give_the_same_bytes(drawn: tuple[Case, dict[str, Any]]) -> None:
    case, arguments = drawn
    runs = [build(case, arguments).run(engine="local", buckets=case.buckets, tasks=case.tasks) for _ in range(2)]
    first, second = (run["o"] for run in runs)
    assert first.equals(second)
    assert list(map(str, runs[0].elements("o"))) == list(map(str, runs[1].elements("o")))


def test_cuts_and_buckets_do_not_change_the_results() -> None:
    rows = tuple((i // 3, f"g{i * 7 % 11}", i % 3, None, i, 0.5) for i in range(80))
    schema = (("ts", "int"), ("k", "text"), ("j", "whole"), ("b", "bool"), ("i", "whole"), ("f", "float"))
    base = Input("in0", schema, rows, "ordered", train=80)
    found = []
    for train, buckets in ((80, 1), (1, 2), (13, 3)):
        node = Windowed(replace(base, train=train), "ts", 10, 10, ("k",), (("n", "whole", "sum(i)", ""),))
        net = build(Case((node,)), {"flush": "slow", "table": 4, "every": 3})
        found.append(bag(net.run(engine="local", buckets=buckets)["o"], arrow_schema(node.schema)))
    assert found[0] == found[1] == found[2]
