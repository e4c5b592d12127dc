"""Copies that join an LMerge while it runs, and leave it: the output is what it would have been with all of them.

One copy is there from the start. Another joins before a random batch, and has all events from some time on. Once the
output has come to that time, the first may leave. The process ends and begins anew in between.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.language.copies import CopyOrder
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.attaching import detached_plan, joined_plan
from penstock.runtime.board import Board
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import PROCESS, Settings
from penstock.runtime.shelf import Shelf
from penstock.storage.folder import Folder

CASES = tries(15)
SCHEMA = {"ts": "int64", "k": "string"}
DELAY = 5
MOST = 200


@dataclass(frozen=True)
class Case:
    """What is drawn."""

    case: str
    rows: list[tuple[int, str]]
    first: list[tuple[int, str]]
    """The rows as the copy brings them that is there from the start."""
    second: list[tuple[int, str]]
    trains: tuple[int, int]
    buckets: int
    join: int
    since: int
    leave: int
    restarts: frozenset[int]

    @property
    def progress(self) -> pk.Policy:
        return pk.delayed(DELAY) if self.case in ("R3", "R4") else pk.ordered()

    def copy(self, net: Any, name: str, rows: list[tuple[int, str]], train: int) -> pk.Stream:
        return net.source(name, pk.memory(rows, schema=SCHEMA, train=train), progress=self.progress)

    def plan(self, folder: Path) -> Plan:
        net = pk.Network("merging")
        # It says nothing, and never ends: like a copy whose process has died.
        silent = net.source("silent", pk.files(str(folder), follow=True), schema=SCHEMA, progress=self.progress)
        pk.lmerge(silent, case=self.case, name="merged").output("all")
        return compile_network(net.network)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    case = draw(st.sampled_from(["R0", "R1", "R2", "R3", "R4"]))
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), min_size=6, max_size=30))
    rows, now = [], 0
    for step, key in steps:
        now += max(1, step) if case == "R0" else step
        rows.append((now, key))
    if case in ("R2", "R3"):
        rows = list(dict.fromkeys(rows))
    if case == "R1":
        rows = sorted(rows)
    since = draw(st.integers(0, rows[-1][0]))

    def shuffled(kept: list[tuple[int, str]]) -> list[tuple[int, str]]:
        if case in ("R0", "R1"):
            return kept
        slack = DELAY if case in ("R3", "R4") else 0
        order = [(ts + draw(st.integers(0, slack)), draw(st.integers(0, 9)), ts, k) for ts, k in kept]
        return [(ts, k) for _, _, ts, k in sorted(order)]

    return Case(
        case,
        rows,
        shuffled(rows),
        shuffled([row for row in rows if row[0] >= since]),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        draw(st.integers(1, 3)),
        draw(st.integers(0, 10)),
        since,
        draw(st.integers(0, 20)),
        draw(st.frozensets(st.integers(1, 20), max_size=2)),
    )


def opened(case: Case, folder: Path, plan: Plan) -> Job:
    options = Settings(buckets=case.buckets, tasks=2, durability=PROCESS)
    return open_job(plan, options, Folder(str(folder / "checkpoint")), 2, dumps=pickle.dumps)


def run(case: Case, folder: Path) -> tuple[Counter[tuple[Any, ...]], bool]:
    """What comes out, and whether the first copy has left."""
    (folder / "nothing").mkdir()
    plan = case.plan(folder / "nothing")
    job = opened(case, folder, plan)
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    second, left = False, False

    def change(plan: Plan) -> None:
        shelf.change(plan, (), shelf.newest.version)

    change(
        joined_plan(
            shelf.newest, CopyOrder(lambda net: case.copy(net, "first", case.first, case.trains[0]), "merged", "1st")
        )
    )
    for batch in range(MOST):
        if batch == case.join:
            order = CopyOrder(
                lambda net: case.copy(net, "second", case.second, case.trains[1]), "merged", "2nd", case.since
            )
            change(joined_plan(shelf.newest, order))
            second = True
        if batch >= case.leave and second and not left and stable(shelf.newest) >= case.since:
            change(detached_plan(shelf.newest, "1st"))
            left = True
        if batch in case.restarts:
            executor.close()
            shelf.newest.release()
            job = opened(case, folder, plan)
            executor, shelf = LocalExecutor(job), Shelf.of(job)
        if executor.step() is None:
            break
    executor.close()
    found = Result(shelf.newest)["all"]
    refused = Result(shelf.newest).errors("merged").num_rows
    assert refused == 0
    return Counter(tuple(row.values()) for row in found.to_pylist()), left


def stable(job: Job) -> int:
    board = Board(job.board)
    record = board.at(board.newest())
    return record.marks["merged"].of("ts") if "merged" in record.marks else -(2**63)


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_copies_that_join_and_leave_give_what_all_of_them_give(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found, left = run(case, tmp_path_factory.mktemp("copies"))
    event(f"{case.case}, the first copy has {'left' if left else 'stayed'}")
    assert found == Counter(case.rows)
