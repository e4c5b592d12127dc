"""Finer punctuation is kept at a connection point: who reads it closes the same windows as the boxes behind the point.

Tuples come in disorder, in trains of any length, to any number of buckets. An aggregate that lives on marks of an
attribute that decreases, on joint marks or on marks of groups stands behind the point; behind one who follows the point
batch by batch; behind one who comes later and reads in trains of any length, after files were merged and old ones have
left; and in a query that is attached to the point.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.properties.test_attach import read_in_small_parts
from tests.properties.test_points import Runner as PointRunner
from tests.thoroughness import tries

import penstock as pk
from penstock.connectors.points import clustering
from penstock.connectors.points.retention import Horizon
from penstock.language.attaching import Order
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.progress.policy import Policy
from penstock.runtime.attaching import attached_plan
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.settings import PROCESS, Settings
from penstock.runtime.shelf import Shelf
from penstock.storage.folder import Folder

DELAY = 4
KINDS = ("falling", "joint", "groups", "groups of a union", "groups of pairs")
PROPERTY = settings(max_examples=tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Runner(PointRunner):
    """A run of which the closed windows are of interest."""

    def windows(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.values()) for row in pk.Result(self._job)["windows"].to_pylist())

    def passed(self) -> int:
        """How many tuples have come to the point, or from it."""
        return pk.Result(self._job)["all"].num_rows

    def late(self) -> int:
        return pk.Result(self._job).late("s").num_rows


@dataclass(frozen=True)
class Case:
    """What is drawn."""

    kind: str
    rows: list[tuple[int, str]]
    others: list[tuple[int, str]]
    train: int
    read: int
    buckets: int
    merges: frozenset[int]
    """The batches behind which files are merged."""
    restarts: frozenset[int]

    @property
    def policy(self) -> Policy:
        return pk.delayed(DELAY, by="k") if self.kind.startswith("groups") else pk.delayed(DELAY)

    def head(self, net: pk.Network) -> pk.Stream:
        schema = {"ts": "int64", "k": "string"}
        # One group is ahead of the other, so that its own marks are worth something.
        ahead = 15 if self.kind.startswith("groups") else 0
        scripts = [[(ts + ahead * (k == "b"), k) for ts, k in rows] for rows in (self.rows, self.others)]
        sources = [
            net.source(name, pk.memory(rows, schema=schema, train=self.train), progress=self.policy)
            for name, rows in zip(("left", "right"), scripts, strict=True)
        ]
        if self.kind in ("joint", "groups of pairs"):
            return sources[0].join(sources[1], "l.k = r.k", on="ts", size=9)
        if self.kind == "groups":
            sources[1].output("others")
            return sources[0].where("ts % 3 > 0").map(at="ts + 1", unit="k")
        if self.kind == "groups of a union":
            return pk.union(*sources)
        return pk.union(*sources).map(left="100 - ts", k="k")

    def tail(self, stream: pk.Stream) -> None:
        stream.output("all")
        if self.kind == "joint":
            stream.aggregate({"n": "count(*)"}, on="r_ts", size=4, by=["l_ts", "l_k"]).output("windows")
        elif self.kind == "groups":
            stream.aggregate({"n": "count(*)"}, on="at", size=4, by="unit").output("windows")
        elif self.kind == "groups of pairs":
            stream.aggregate({"n": "count(*)"}, on="l_ts", size=4, by="l_k").output("windows")
        elif self.kind == "groups of a union":
            stream.aggregate({"n": "count(*)"}, on="ts", size=4, by="k").output("windows")
        else:
            stream.aggregate({"n": "count(*)"}, on="left", size=4, by="k").output("windows")

    def first(self, place: str) -> pk.Network:
        net = pk.Network("first")
        self.tail(self.head(net).connection_point("point", path=place))
        return net

    def second(self, place: str, **options: Any) -> pk.Network:
        net = pk.Network("second")
        self.tail(net.source("s", pk.connection_point(place, **options)))
        return net


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps = st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, DELAY), st.sampled_from("ab")), min_size=4, max_size=24
    )

    def in_disorder() -> list[tuple[int, str]]:
        now, rows = 0, []
        for step, behind, key in draw(steps):
            now += step
            rows.append((now - behind, key))
        return rows

    some = st.frozensets(st.integers(0, 12), max_size=3)
    return Case(
        draw(st.sampled_from(KINDS)),
        in_disorder(),
        in_disorder(),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 3)),
        draw(st.frozensets(st.integers(0, 12), max_size=2)),
        draw(some),
    )


@pytest.fixture
def any_two_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "FAN", 2)


@PROPERTY
@given(case=cases())
def test_who_follows_a_point_closes_windows_batch_by_batch_as_behind_it(case: Case, any_two_are_merged: None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/point"
        first = Runner(lambda: case.first(place), Path(folder, "first"), case.buckets)
        first.step()
        second = Runner(lambda: case.second(place, follow=True), Path(folder, "second"), 2)
        batch = 0
        while True:
            second.catch_up()
            assert second.windows() == first.windows()
            assert second.late() == 0
            if batch in case.merges:
                first.tend(Horizon())
            if batch in case.restarts:
                second.restart()
            batch += 1
            if not first.step():
                break
        event(f"{case.kind}, {'some' if first.windows() else 'no'} windows")
        first.close()
        second.close()


@PROPERTY
@given(case=cases(), leaves=st.none() | st.integers(0, 12))
def test_who_comes_later_closes_what_was_closed_there(case: Case, leaves: int | None, any_two_are_merged: None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/point"
        first = Runner(lambda: case.first(place), Path(folder, "first"), case.buckets)
        closed, batch = [(0, first.windows())], 0
        while first.step():
            closed.append((first.passed(), first.windows()))
            if batch in case.merges:
                first.tend(Horizon())
            batch += 1
        gone = leaves is not None
        if leaves is not None:
            first.tend(Horizon(rows=max(1, first.passed() - leaves)))
        after = Runner(lambda: case.second(place), Path(folder, "after"), case.buckets, case.read)
        while after.step():
            assert after.late() == 0
            if not case.merges and not gone and (read := after.passed()) < first.passed():
                # Between stored batches everything is stated that had been stated there.
                known = max((at for at in closed if at[0] <= read), key=lambda at: at[0])
                assert not known[1] - after.windows()
        assert gone or after.windows() == first.windows()
        first.close()
        after.close()


@PROPERTY
@given(case=cases(), attach=st.integers(0, 8))
def test_an_attached_query_closes_windows_as_if_it_had_always_been_there(case: Case, attach: int) -> None:
    def network(*, always: bool) -> Plan:
        net = pk.Network("live")
        stream = case.head(net).connection_point("point")
        if always:
            case.tail(stream)
        return compile_network(net.network)

    with tempfile.TemporaryDirectory() as folder, read_in_small_parts(case.read):
        options = Settings(buckets=case.buckets, tasks=2, durability=PROCESS)
        job = open_job(network(always=True), options, Folder(f"{folder}/always"), 2, dumps=pickle.dumps)
        expected = dict(closing(LocalExecutor(job), job))
        job = open_job(network(always=False), options, Folder(f"{folder}/attached"), 2, dumps=pickle.dumps)
        executor, shelf = LocalExecutor(job), Shelf.of(job)
        for _ in range(attach):
            executor.step()
        order = Order(case.tail, ("point",), "q", "beginning", 1.0)
        shelf.change(attached_plan(shelf.newest, order), (), shelf.newest.version)
        live = list(closing(executor, shelf.newest, "q point past"))
        event(f"{case.kind}, {'with' if len(live) > 1 else 'without'} live batches")
        assert live
        for at, windows in live:
            assert windows == expected[at]


def closing(
    executor: LocalExecutor, job: Job, past: str | None = None
) -> Iterator[tuple[tuple[int, ...], Counter[tuple[Any, ...]]]]:
    """What was read of both inputs after each batch, and the windows that were closed then; of a query that reads its
    past, from its end on."""
    # A batch may read no history, to be measured, where no other input has anything.
    while (record := executor.step() or executor.step()) is not None:
        if past is None or record.marks[past].ended:
            windows = Counter(tuple(row.values()) for row in pk.Result(job)["windows"].to_pylist())
            yield tuple(record.inputs[name].read for name in ("left", "right")), windows
    executor.close()
