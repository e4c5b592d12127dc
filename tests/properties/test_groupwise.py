"""Windows that open or close group by group agree with plain Python, tuple by tuple, for any disorder and cut."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.scripted import stamped
from tests.properties.aggregates import OUTPUTS, SCHEMA, Case, Group, Oracle, Spec, cases, check, values
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.schema import parse_schema
from penstock.algebra.ticks import BEGINNING, END
from penstock.runtime.board import Record
from penstock.testing.memory_slots import MemorySlots

BY: Any = st.sampled_from([(), ("k",), ("k", "j")])
SIZES = st.integers(1, 15)
ADVANCES = st.one_of(st.none(), st.integers(1, 20))
NEVER = st.none()
SOON = st.integers(1, 6)
SECOND = 1_000_000


@st.composite
def plain(draw: Any, timeouts: Any = NEVER) -> Spec:
    return Spec(draw(SIZES), draw(ADVANCES), by=draw(BY), timeout=draw(timeouts))


@st.composite
def ordered(draw: Any, timeouts: Any = NEVER) -> Spec:
    by = draw(BY)
    order_by = draw(st.sampled_from([by, by[:1], ()]))
    opens = draw(st.one_of(st.none(), st.integers(-3, 6)))
    first = opens is None and draw(st.booleans())
    advance = None if opens is not None else draw(ADVANCES)
    return Spec(draw(SIZES), advance, opens, by, False, first, draw(st.integers(0, 4)), order_by, draw(timeouts))


@st.composite
def numbered(draw: Any, timeouts: Any = NEVER) -> Spec:
    opens = draw(st.one_of(st.none(), st.integers(-3, 6)))
    advance = None if opens is not None else draw(st.one_of(st.none(), st.integers(1, 9)))
    size = draw(st.integers(1, 8))
    return Spec(size, advance, opens, draw(BY), True, timeout=draw(timeouts), partial=draw(st.booleans()))


@st.composite
def from_first(draw: Any, timeouts: Any = NEVER) -> Spec:
    return Spec(draw(SIZES), draw(ADVANCES), None, draw(BY), first=True, timeout=draw(timeouts))


@st.composite
def opening(draw: Any, timeouts: Any = NEVER) -> Spec:
    return Spec(draw(SIZES), None, draw(st.integers(-4, 10)), draw(BY), timeout=draw(timeouts))


def every_kind(timeouts: Any) -> Any:
    return st.one_of(*(kind(timeouts) for kind in (plain, ordered, numbered, from_first, opening)))


@settings(max_examples=tries(30))
@given(case=cases(st.one_of(every_kind(NEVER), every_kind(SOON)), most=5))
def test_a_run_agrees_with_plain_python(case: Case) -> None:
    check(case, case.network().run("local", buckets=case.buckets, tasks=case.tasks))


@settings(max_examples=tries(35))
@given(case=cases(st.one_of(ordered(), numbered(), from_first(), opening())))
def test_after_every_batch_only_what_is_needed_is_held(case: Case) -> None:
    Batches(case).run()


@settings(max_examples=tries(35))
@given(case=cases(every_kind(SOON)))
def test_after_every_batch_of_windows_that_time_out(case: Case) -> None:
    Batches(case).run()


@settings(max_examples=tries(12))
@given(case=cases(ordered(), most=5), slack=st.integers(0, 4))
def test_slack_is_a_bounded_sort_and_no_slack(case: Case, slack: int) -> None:
    """aurora.md 5.2.2.2: Aggregate with slack n is Aggregate without slack over BSort with slack n."""
    spec, net = case.spec, pk.Network("net")
    arguments, stream = spec.arguments(), case.source(net)
    direct = stream.aggregate(OUTPUTS, name="direct", **{**arguments, "assuming": pk.order("ts", slack, spec.order_by)})
    direct.output("one")
    in_order = stream.bsort(on="ts", slack=slack, by=spec.order_by)
    composed = in_order.aggregate(
        OUTPUTS, name="composed", **{**arguments, "assuming": pk.order("ts", 0, spec.order_by)}
    )
    composed.output("two")
    result = net.run("local", buckets=case.buckets, tasks=case.tasks)
    one, two = (Counter(values(row) for row in result[name].to_pylist()) for name in ("one", "two"))
    assert one == two
    assert Counter(values(r) for r in result.late("direct").to_pylist()) == Counter(
        values(r) for r in result.late("composed").to_pylist()
    )


class InterruptError(Exception):
    pass


@settings(max_examples=tries(10))
@given(case=cases(st.one_of(every_kind(NEVER), every_kind(SOON)), most=5), after=st.integers(0, 3))
def test_a_run_interrupted_after_any_batch_goes_on_to_the_same_answer(case: Case, after: int) -> None:
    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    with tempfile.TemporaryDirectory() as folder:
        options: Any = {"buckets": case.buckets, "tasks": case.tasks, "checkpoint": f"{folder}/checkpoint"}
        with contextlib.suppress(InterruptError):
            case.network().run("local", on_batch=interrupt, **options)
        check(case, case.network().run("local", **options))


class Batches:
    """Drives the two halves of a box batch by batch, beside the oracle."""

    def __init__(self, case: Case) -> None:
        self.case, self.spec, self.oracle = case, case.spec, Oracle(case.spec)
        self.box = next(b for b in case.network().network.boxes if b.name == "box")
        self.slots = MemorySlots()
        self.needed = tuple(frozenset(self.box.schema(port).names) for port in range(len(self.box.ports)))
        self.results: Counter[Any] = Counter()
        self.late: Counter[Any] = Counter()
        self.stated = BEGINNING
        self.released = 0

    def run(self) -> None:
        mark = BEGINNING
        for number, train in enumerate(self.case.trains, 1):
            ended = number == len(self.case.trains)
            mark = END if ended else mark if train.mark is None else train.mark
            operator = self.box.holder(self.slots, self.needed)
            self.take(operator, train.rows, train.now)
            marks = [Marks({"ts": mark}, ended=ended)]
            for port, table in operator.punctuate(marks, train.now * SECOND):
                self.note(port, table)
            self.oracle.train(train.rows, -math.inf if mark == BEGINNING else mark, train.now, ended=ended)
            self.released += operator.released
            self.check(operator, marks, ended=ended)
        assert self.released + self.late.total() == len(self.case.rows)
        assert self.slots.rows() == 0

    def take(self, operator: Any, rows: Any, now: int) -> None:
        if not rows:
            return
        kinds = parse_schema(SCHEMA).types
        columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), kinds, strict=True)]
        tuples = pa.table([*columns, np.arange(len(rows))], names=[*SCHEMA, SEQ])
        low = self.box.entry(self.needed)
        for start in range(0, len(rows), 5):
            low.process(0, tuples.slice(start, 5))
        for part, table in low.flush():
            operator.receive(part, stamped(table, now * SECOND))

    def note(self, port: int, table: pa.Table) -> None:
        hidden = [ARRIVED] if port == 0 else []
        for row in table.select([*self.box.schema(port).names, *hidden]).to_pylist():
            if port == 0:
                row[ARRIVED] //= SECOND
                # The law of punctuation.
                assert not self.box.progressing(0) or row[self.box.on] >= self.stated
            (self.late if port else self.results)[values(row)] += 1

    def check(self, operator: Any, marks: Any, *, ended: bool) -> None:
        assert self.results == Counter(self.oracle.results)
        assert self.late == Counter(self.oracle.late)
        stated = operator.output_marks(marks) or self.box.progress(0, marks)
        if self.box.progressing(0):
            assert stated.of(self.box.on) >= self.stated
            self.stated = stated.of(self.box.on)
        if ended or not hasattr(operator, "_state"):
            return
        groups = self.oracle.groups.items()
        waiting = {(key, s): g for key, g in groups for s in self.oracle.starts(g) if s not in g.left}
        assert operator.open_windows(marks) == len(waiting)
        if self.spec.timeout is not None:
            first = [min(m.arrived for m in self.oracle.inside(g, s)) for (_, s), g in waiting.items()]
            assert (
                operator.wake() == (min(first) + self.spec.timeout) * SECOND + 1 if first else operator.wake() is None
            )
        needed = [(key, m) for key, g in groups for m in g.members if self.is_needed(key, g, m.tick)]
        panes = {(key, self.pane(key, self.oracle.groups[key], m.tick)) for key, m in needed}
        assert self.held("whole") == len(needed)
        # Values become panes when their group is met again after its origin has settled.
        assert self.held("partial") == len(panes) or (self.spec.first and self.held("partial") > len(panes))

    def held(self, part: str) -> int:
        return sum(c.num_rows for parts in self.slots.held.values() for c in parts.get(part, []))

    def is_needed(self, key: Any, group: Group, tick: int) -> bool:
        around = self.oracle.windows_of(group, tick)
        if any(start not in group.left for start in around):
            return True
        if self.spec.opens is not None:
            return tick >= self.oracle.reached(key, group)
        return self.spec.first and not self.is_settled(key, group)

    def is_settled(self, key: Any, group: Group) -> bool:
        assert group.origin is not None
        return group.fixed or self.oracle.reached(key, group) >= group.origin

    def pane(self, key: Any, group: Group, tick: int) -> int:
        spec = self.spec
        if spec.opens is not None or (spec.first and not self.is_settled(key, group)):
            return tick
        origin = group.origin if spec.first else int(spec.numbered)
        assert origin is not None
        length = math.gcd(spec.size, spec.advance or spec.size)
        return origin + (tick - origin) // length * length
