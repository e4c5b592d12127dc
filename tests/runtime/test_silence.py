"""Inputs that fall silent: who speaks for them, when, and what becomes of tuples that come after all.

The fast link brings the clock along: at clock reading c it delivers tuples of time c. The other one is a folder in
which nothing, or something late, appears.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING
from penstock.progress.idle import Idle, heartbeat, on_demand
from penstock.runtime.board import Record
from penstock.runtime.local import LocalExecutor
from penstock.runtime.result import Result
from penstock.runtime.silence import Silence

SCHEMA = {"ts": "int64", "k": "string"}


def _script(*seconds: int) -> list[Any]:
    return [element for at in seconds for element in (pk.clock(at), (at, "fast"))]


def _network(folder: Path, idle: Idle | None, *seconds: int, unite: bool = True) -> pk.Network:
    net = pk.Network("silence")
    folder.mkdir(exist_ok=True)
    fast = net.source("fast", pk.memory(_script(*seconds), schema=SCHEMA, train=2))
    slow = net.source(
        "slow", pk.files(str(folder / "*.parquet"), follow=True), schema=SCHEMA, progress=pk.ordered(idle=idle)
    )
    both = pk.union(fast, slow) if unite else fast
    both.aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    if not unite:
        slow.output("slow")
    return net


def _deliver(folder: Path, *seconds: int) -> None:
    table = pa.table({"ts": pa.array(seconds, pa.int64()), "k": ["slow"] * len(seconds)})
    pq.write_table(table, folder / f"{len(list(folder.iterdir())):04d}.parquet")


class Stepping:
    """Runs a job batch by batch."""

    def __init__(self, net: pk.Network, tmp_path: Path) -> None:
        self.job = job_of(net, tmp_path)
        self.executor = LocalExecutor(self.job)
        self.batches = 0

    def step(self) -> bool:
        self.batches += (ran := self.executor.step() is not None)
        return ran

    def counts(self) -> list[tuple[int, int]]:
        return [(row["ts"], row["n"]) for row in Result(self.job)["counts"].to_pylist()]


def test_without_a_policy_for_silence_nothing_closes(tmp_path: Path) -> None:
    run = Stepping(_network(tmp_path / "slow", None, 1, 12, 25, 38, 51), tmp_path)
    for _ in range(4):
        run.step()
    assert run.counts() == []


@pytest.mark.parametrize("idle", [heartbeat("1 s", "5 s", unit="s"), on_demand("5 s", unit="s")])
def test_an_input_that_is_silent_from_the_start_does_not_hold_windows_back(idle: Idle, tmp_path: Path) -> None:
    run = Stepping(_network(tmp_path / "slow", idle, 1, 12, 25, 38, 51), tmp_path)
    closed = []
    for _ in range(4):
        run.step()
        closed.append(run.counts())
    # The silent input states clock - 5: 7, 20, 33. What is stated in a batch counts in that batch.
    assert closed == [[], [], [(0, 1), (10, 1)], [(0, 1), (10, 1), (20, 1)]]


def test_tuples_that_violate_a_heartbeat_are_late(tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    run = Stepping(_network(folder, heartbeat("1 s", "5 s", unit="s"), 1, 12, 25, 38, 51), tmp_path)
    for _ in range(3):
        run.step()
    _deliver(folder, 19, 20, 36)  # 20 was stated at 25: the first is late, the others are not
    run.step()
    assert [row["ts"] for row in Result(run.job).late("slow").to_pylist()] == [19]
    run.step()
    assert run.counts()[:3] == [(0, 1), (10, 1), (20, 2)]


def test_a_heartbeat_comes_on_a_timer_even_if_nobody_waits(tmp_path: Path) -> None:
    net = _network(tmp_path / "slow", heartbeat("10 s", "0 s", unit="s"), 5, 9, 15, 21, unite=False)
    run = Stepping(net, tmp_path)
    stated = []
    for _ in range(4):
        run.step()
        stated.append(Result(run.job).record().shards["slow"]["0"].stated)
    # It has been silent since the epoch: 9 s are too few, 15 s are enough; and at 21 only 6 s have passed since then.
    assert stated == [BEGINNING, BEGINNING, 15, 15]


def test_on_demand_nothing_runs_when_nobody_waits(tmp_path: Path) -> None:
    net = _network(tmp_path / "slow", on_demand("0 s", unit="s"), 5, 9, unite=False)
    run = Stepping(net, tmp_path)
    while run.step():
        pass
    # Two trains of the fast input, and no batch for the silent one, whatever the machine's clock says.
    assert run.batches == 2


def _pairs(tmp_path: Path, syn: Idle | None, ack: Idle | None, batches: int) -> tuple[Silence, Record]:
    """Q3 of oop.md 7, with a band of an hour: a count for each pair of times. What is known after some batches.

    SYN come at seconds 1 and 5, an ACK at second 1.
    """
    net = pk.Network("q3")
    scripts = {"syn": _script(1, 5, 9), "ack": [*_script(1), pk.clock(5), pk.clock(5), *_script(9)]}
    links = [
        net.source(name, pk.memory([*script], schema=SCHEMA, train=2), progress=pk.ordered(idle=idle))
        for (name, script), idle in zip(scripts.items(), (syn, ack), strict=True)
    ]
    pairs = links[0].join(links[1], "l.k = r.k", on="ts", size=3600)
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size=1, by="l_ts", name="count").output("counts")
    run = Stepping(net, tmp_path)
    for _ in range(batches):
        run.step()
    return Silence(run.job.plan.network), Result(run.job).record()


ASKED = on_demand("0 s", unit="s")


def test_for_a_pair_both_links_are_asked_when_both_together_release_it(tmp_path: Path) -> None:
    silence, record = _pairs(tmp_path, ASKED, ASKED, 1)
    assert silence.on_demand(record, (), 1_900_000, anyway=False) == {}
    asked = silence.on_demand(record, (), 2_000_000, anyway=False)
    assert asked == {"syn": {"0": Marks({"ts": 2})}, "ack": {"0": Marks({"ts": 2})}}


def test_for_a_pair_only_the_link_that_holds_it_back_is_asked(tmp_path: Path) -> None:
    silence, record = _pairs(tmp_path, ASKED, ASKED, 2)
    # With the batch of second 5 ACK have stated 5, which let (1, 1) go: (5, 1) waits for SYN alone.
    assert silence.on_demand(record, (), 5_900_000, anyway=False) == {}
    assert silence.on_demand(record, (), 6_000_000, anyway=False) == {"syn": {"0": Marks({"ts": 6})}}


def test_nobody_is_asked_for_what_alone_releases_no_pair(tmp_path: Path) -> None:
    silence, record = _pairs(tmp_path, None, ASKED, 1)
    assert silence.on_demand(record, (), 1000 * 1_000_000, anyway=False) == {}


def test_a_link_that_is_closed_states_what_a_pair_needs_and_no_more(tmp_path: Path) -> None:
    silence, record = _pairs(tmp_path, None, None, 2)
    seen = record.shards["ack"]["0"]
    record.shards["ack"]["0"] = replace(seen, left=seen.at + 1)
    assert silence.released(record) == {"ack": {"0": Marks({"ts": 2})}}


def test_a_pair_leaves_by_the_clock_alone_and_then_nothing_runs(tmp_path: Path) -> None:
    net, links = pk.Network("q3"), []
    for name in ("syn", "ack"):
        (tmp_path / name).mkdir()
        _deliver(tmp_path / name, 1)
        files = pk.files(str(tmp_path / name / "*.parquet"), follow=True)
        links.append(net.source(name, files, schema=SCHEMA, progress=on_demand("0 s", unit="us")))
    pairs = links[0].join(links[1], "l.k = r.k", on="ts", size=3_600_000_000)
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size=1, by="l_ts", name="count").output("counts")
    run = Stepping(net, tmp_path)
    assert [run.step() for _ in range(3)] == [True, True, False]
    assert Result(run.job)["counts"].to_pylist() == [{"r_ts": 1, "l_ts": 1, "n": 1}]
