"""A query that is attached to a running network gives what it would have given, had it been there from the start.

Tuples come in disorder, in trains of any length, to any number of buckets; the connection point is at the input or
behind a stage. The query is attached and detached before random batches, reads its history in trains of any length,
and the process ends and begins anew in between. Its boxes are those that would notice another order of arrival; or
those whose history is read ahead, in pieces of any length.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.language import attaching
from penstock.language.attaching import Order
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime import history_pace, history_pieces
from penstock.runtime.attaching import attached_plan, detached_plan
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import PROCESS, Settings
from penstock.runtime.shelf import Shelf
from penstock.storage.folder import Folder

CASES = tries(20)
DELAY = 6
OUTPUTS = ("all", "first", "threes", "sorted", "sums", "per_key", "odd")
PROPERTY = settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOST = 400
"""Batches that no case needs."""

Rows = dict[str, Counter[tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """What is drawn."""

    rows: list[tuple[int, str]]
    train: int
    paced: int
    """Rows of history that a batch reads."""
    buckets: int
    staged: bool
    attach: int
    detach: int | None
    again: int | None
    """After a query was detached, it is attached once more."""
    restarts: frozenset[int]
    share: float = 0.5
    ahead: bool = False
    """Whether the query is one whose history can be read ahead."""

    @property
    def query(self) -> Callable[[pk.Stream], None]:
        return counts if self.ahead else query

    def network(self, *, always: bool = False) -> pk.Network:
        net = pk.Network("live")
        rows = pk.memory(self.rows, schema={"ts": "int64", "k": "string"}, train=self.train)
        source = net.source("s", rows, progress=pk.delayed(DELAY))
        stream = source.aggregate({"n": "count(*)"}, size=2, by="k") if self.staged else source.where("k != 'c'")
        stream = stream.connection_point("point", key="k")
        stream.aggregate({"n": "count(*)"}, on="ts", size=5, name="live").output("live")
        if always:
            self.query(stream)
        return net

    @property
    def plan(self) -> Plan:
        return compile_network(self.network().network)


def query(stream: pk.Stream) -> None:
    stream.output("all")
    stream.dedupe(by="k", on="ts").output("first")
    stream.aggregate({"late": "max(ts)"}, on=pk.TUPLE_NUMBER, size=3, by="k").output("threes")
    stream.bsort(on="ts", slack=1).output("sorted")
    stream.aggregate({"n": "count(*)", "k": "min(k)"}, on="ts", size=4).output("sums")


def counts(stream: pk.Stream) -> None:
    stream.aggregate({"last": "max(ts)"}, on="ts", size=4, advance=2, by="k").output("per_key")
    odd = stream.where("ts % 2 = 1").map(ts="ts + 1", k="k || '!'")
    odd.aggregate({"n": "count(*)"}, on="ts", size=5).output("odd")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, DELAY), st.sampled_from("abc")), min_size=4, max_size=40)
    )
    rows, now = [], 0
    for step, behind, key in steps:
        now += step
        rows.append((now - behind, key))
    batches = len(rows)
    attach = draw(st.integers(0, batches))
    detach = draw(st.none() | st.integers(attach + 1, attach + batches))
    again = None if detach is None else draw(st.none() | st.integers(detach + 1, detach + batches))
    return Case(
        rows,
        draw(st.integers(1, 5)),
        draw(st.integers(1, 20)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
        attach,
        detach,
        again,
        draw(st.frozensets(st.integers(0, 2 * batches), max_size=3)),
        draw(st.sampled_from((0.3, 1.0))),
        draw(st.booleans()),
    )


@contextmanager
def read_in_small_parts(rows: int) -> Iterator[None]:
    """Histories are read so many rows at a time, and all that can be is read ahead."""
    numbers = (
        (attaching, "PIECE_ROWS", rows),
        (history_pieces, "WORTH", 0),
        (history_pieces, "LOOK_SECONDS", 0.0),
        (history_pace, "FIRST_ROWS", rows),
        (history_pace, "LEAST_ROWS", rows),
    )
    with ExitStack() as stack:
        for module, name, number in numbers:
            stack.enter_context(patch.object(module, name, number))
        yield


def opened(case: Case, folder: Path, plan: Plan) -> Job:
    options = Settings(buckets=case.buckets, tasks=2, durability=PROCESS)
    return open_job(plan, options, Folder(str(folder)), 2, dumps=pickle.dumps)


def rows_of(job: Job) -> Rows:
    result = Result(job)
    names = [output.name for output in job.plan.network.outputs]
    return {
        name: Counter(tuple(sorted(row.items())) for row in result[name].to_pylist())
        for name in OUTPUTS
        if name in names
    }


def run_always(case: Case, folder: Path) -> tuple[Rows, Counter[Any]]:
    job = opened(case, folder, compile_network(case.network(always=True).network))
    executor = LocalExecutor(job)
    while executor.step() is not None:
        pass
    executor.close()
    return rows_of(job), Counter(map(str, Result(job)["live"].to_pylist()))


def run_attached(case: Case, folder: Path, since: object = "beginning") -> tuple[Job, bool]:
    """Run with the query attached at its time; the last job, and whether the query is attached at the end."""
    plan, there = case.plan, False
    job = opened(case, folder, plan)
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    ended = False
    for batch in range(MOST):
        changed = False
        if batch == case.attach or batch == case.again:
            shelf.change(
                attached_plan(shelf.newest, Order(case.query, ("point",), "q", since, case.share)),
                (),
                shelf.newest.version,
            )
            there = changed = True
        if batch == case.detach:
            shelf.change(detached_plan(shelf.newest, "q"), (), shelf.newest.version)
            there, changed = False, True
        if batch in case.restarts and not changed:
            executor.close()
            job = opened(case, folder, plan)
            executor, shelf = LocalExecutor(job), Shelf.of(job)
        last = max(case.attach, case.detach or 0, case.again or 0)
        # A batch may read no history, to be measured, where no other input has anything.
        if executor.step() is None and executor.step() is None and batch > last:
            ended = True
            break
    assert ended
    executor.close()
    return shelf.newest, there


@PROPERTY
@given(cases())
def test_attached_is_as_if_it_had_always_been_there(case: Case) -> None:
    event("staged" if case.staged else "at the input")
    with tempfile.TemporaryDirectory() as place, read_in_small_parts(case.paced):
        always, live = run_always(case, Path(place) / "always")
        job, there = run_attached(case, Path(place) / "attached")
        assert Counter(map(str, Result(job)["live"].to_pylist())) == live
        if there:
            event("attached at the end")
            assert rows_of(job) == always
        else:
            assert not {*OUTPUTS} & {output.name for output in job.plan.network.outputs}


@pytest.mark.parametrize("since", [0, 7, 20])
def test_since_leaves_out_what_is_older(tmp_path: Path, since: int) -> None:
    rows = [(i, "ab"[i % 2]) for i in range(60)]
    case = Case(rows, 5, 10, 2, False, 6, None, None, frozenset())
    job, there = run_attached(case, tmp_path / "run", since)
    assert there
    # Six batches have passed: the last tuple has 29, and the low-water mark is its delay behind.
    mark = 29 - DELAY
    assert sorted(row["ts"] for row in Result(job)["all"].to_pylist()) == list(range(mark - since, 60))
