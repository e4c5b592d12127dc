"""Two networks chained through a Delta table give what one network gives: at the end, and after every batch.

The first network writes windows to a table, the second one reads the table while it grows. Tuples come in disorder, in
trains of any length; a filter in between leaves many batches without tuples; small files are merged; both networks
are stopped and started again at random.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.settings import PROCESS, Settings
from penstock.storage.folder import Folder

CASES = tries(10)
DELAY = 6
SCHEMA = {"ts": "int64", "k": "string"}


@dataclass(frozen=True)
class Chain:
    """What is drawn: tuples in disorder, how they are cut, and how the table is kept."""

    rows: list[tuple[int, str]]
    train: int
    least: int
    compact: int
    partitioned: bool
    read: int

    def head(self, net: pk.Network) -> pk.Stream:
        source = net.source(
            "s", pk.memory(self.rows, schema=SCHEMA, train=self.train), on="ts", progress=pk.delayed(DELAY)
        )
        return source.aggregate({"n": "count(*)"}, on="ts", size=4, by="k").where(f"n >= {self.least}")

    @staticmethod
    def tail(counts: pk.Stream) -> None:
        counts.aggregate({"n": "sum(n)", "most": "max(n)"}, on="ts", size=12, advance=4).output("sums")
        counts.aggregate({"n": "sum(n)"}, on="ts", size=8, by="k").output("by_k")

    def whole(self) -> pk.Network:
        net = pk.Network("whole")
        self.tail(self.head(net))
        return net

    def first(self, table: str) -> pk.Network:
        net = pk.Network("first")
        by = ("k",) if self.partitioned else ()
        self.head(net).output("counts", to=pk.delta(table, compact=self.compact, partition_by=by))
        return net

    def second(self, table: str, **options: Any) -> pk.Network:
        net = pk.Network("second")
        schema = {"ts": "int64", "k": "string", "n": "int64"}
        self.tail(net.source("counts", pk.delta(table, **options), schema=schema, progress=pk.punctuated()))
        return net


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, DELAY), st.sampled_from("ab")), max_size=40))
    now, rows = 0, []
    for step, behind, key in steps:
        now += step
        rows.append((max(0, now - behind), key))
    return Chain(
        rows,
        draw(st.integers(1, 6)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([0, 2, 3])),
        draw(st.booleans()),
        draw(st.integers(1, 5)),
    )


class Runner:
    """A run that is stepped by hand, and may be stopped and started again between any two batches."""

    def __init__(self, build: Callable[[], pk.Network], folder: Path, train_rows: int | None = None) -> None:
        self._build = build
        self._folder = folder
        self._settings = Settings(buckets=2, tasks=2, durability=PROCESS, train_rows=train_rows)
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.close()
        plan = compile_network(self._build().network)
        self._job = open_job(plan, self._settings, Folder(str(self._folder)), cores=2)
        self._executor = LocalExecutor(self._job)

    def step(self) -> bool:
        return self._executor.step() is not None

    def catch_up(self) -> None:
        while self.step():
            pass

    def results(self) -> dict[str, Counter[tuple[Any, ...]]]:
        result = pk.Result(self._job)
        return {name: Counter(tuple(row.values()) for row in result[name].to_pylist()) for name in ("sums", "by_k")}

    def late(self) -> int:
        return pk.Result(self._job).late("counts").num_rows

    def close(self) -> None:
        self._executor.close()


@settings(max_examples=CASES, deadline=None)
@given(chain=chains())
def test_after_every_batch_the_chain_has_given_what_one_network_has(chain: Chain) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        whole = Runner(chain.whole, Path(folder, "whole"))
        first = Runner(lambda: chain.first(table), Path(folder, "first"))
        second = Runner(lambda: chain.second(table, follow=True), Path(folder, "second"), chain.read)
        while whole.step():
            assert first.step()
            second.catch_up()
            assert second.results() == whole.results()
        assert not first.step()
        assert second.late() == 0
        for runner in (whole, first, second):
            runner.close()


@settings(max_examples=CASES, deadline=None)
@given(chain=chains(), moves=st.lists(st.sampled_from(["first", "second", "again first", "again second"]), max_size=30))
def test_however_the_two_take_turns_and_are_restarted_the_end_is_the_same(chain: Chain, moves: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        runners = {
            # The second one begins before there is a table.
            "second": Runner(lambda: chain.second(table, follow=True), Path(folder, "second"), chain.read),
            "first": Runner(lambda: chain.first(table), Path(folder, "first")),
        }
        for move in moves:
            runner = runners[move.removeprefix("again ")]
            if move.startswith("again"):
                runner.restart()
            runner.step()
        runners["first"].catch_up()
        runners["second"].catch_up()
        whole = Runner(chain.whole, Path(folder, "whole"))
        whole.catch_up()
        expected = whole.results()
        event("results" if expected["sums"] else "none")
        assert runners["second"].results() == expected
        assert runners["second"].late() == 0
        # Who comes when all is over, and reads to the end, finds the same.
        after = Runner(lambda: chain.second(table), Path(folder, "after"), chain.read)
        after.catch_up()
        assert after.results() == expected == plain(chain)
        for runner in (*runners.values(), whole, after):
            runner.close()


def plain(chain: Chain) -> dict[str, Counter[tuple[Any, ...]]]:
    """The same in plain Python."""
    counts = Counter((ts // 4 * 4, key) for ts, key in chain.rows)
    kept = {group: n for group, n in counts.items() if n >= chain.least}
    starts = {start for ts, _ in kept for start in range(ts - 8, ts + 1, 4)}
    windows = {start: [n for (ts, _), n in kept.items() if start <= ts < start + 12] for start in starts}
    by_k: Counter[tuple[int, str]] = Counter()
    for (ts, key), n in kept.items():
        by_k[ts // 8 * 8, key] += n
    return {
        "sums": Counter((start, sum(ns), max(ns)) for start, ns in windows.items()),
        "by_k": Counter((*group, n) for group, n in by_k.items()),
    }
