"""A connection point that is read back gives the stream that has passed there.

Tuples come in disorder, in trains of any length, to any number of buckets. Boxes that are defined on arrival order
stand behind the point, and behind an input that reads it: one that follows it from the start, one that comes at the
end. Between batches files are merged, and old ones leave.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.connectors.points import clustering
from penstock.connectors.points.retention import Horizon
from penstock.plan.compile import compile_network
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.settings import PROCESS, Settings
from penstock.storage.folder import Folder

CASES = tries(10)
DELAY = 6
OUTPUTS = ("all", "first", "threes", "sorted")
PROPERTY = settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Results = dict[str, Counter[tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """What is drawn: tuples in disorder, how they are cut, and where the point is."""

    rows: list[tuple[int, str]]
    train: int
    read: int
    buckets: int
    staged: bool
    """Whether the point is behind a stage."""
    moves: list[str]

    def head(self, net: pk.Network) -> pk.Stream:
        rows = pk.memory(self.rows, schema={"ts": "int64", "k": "string"}, train=self.train)
        source = net.source("s", rows, progress=pk.delayed(DELAY))
        return source.aggregate({"n": "count(*)"}, size=2, by="k") if self.staged else source.where("k != 'c'")

    @staticmethod
    def tail(stream: pk.Stream) -> None:
        stream.output("all")
        stream.dedupe(by="k", on="ts").output("first")
        stream.aggregate({"late": "max(ts)"}, on=pk.TUPLE_NUMBER, size=3, by="k").output("threes")
        stream.bsort(on="ts", slack=1).output("sorted")

    def first(self, place: str) -> pk.Network:
        net = pk.Network("first")
        self.tail(self.head(net).connection_point("point", path=place, key="k"))
        return net

    def second(self, place: str, **options: Any) -> pk.Network:
        net = pk.Network("second")
        schema = {"ts": "int64", "k": "string"} | ({"n": "int64"} if self.staged else {})
        self.tail(net.source("s", pk.connection_point(place, **options), schema=schema, progress=pk.punctuated()))
        return net


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, DELAY), st.sampled_from("abc")), min_size=1, max_size=40)
    )
    now, rows = 0, []
    for step, behind, key in steps:
        now += step
        rows.append((max(0, now - behind), key))
    moves = st.lists(st.sampled_from(["first", "first", "second", "again", "merge"]), max_size=25)
    return Case(
        rows,
        draw(st.integers(1, 6)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 4)),
        draw(st.booleans()),
        draw(moves),
    )


class Runner:
    """A run that is stepped by hand, and may be stopped and started again between any two batches."""

    def __init__(self, build: Callable[[], pk.Network], folder: Path, buckets: int, train_rows: int | None = None):
        self._build = build
        self._folder = folder
        self._settings = Settings(buckets=buckets, tasks=2, durability=PROCESS, train_rows=train_rows)
        self._begin()

    def _begin(self) -> None:
        self._job = open_job(compile_network(self._build().network), self._settings, Folder(str(self._folder)), cores=2)
        self._executor = LocalExecutor(self._job)

    def restart(self) -> None:
        self._executor.close()
        self._begin()

    def step(self) -> bool:
        return self._executor.step() is not None

    def catch_up(self) -> None:
        while self.step():
            pass

    def tend(self, horizon: Horizon) -> None:
        """Do what a run does beside itself, now."""
        (output,) = [output for output in self._job.plan.network.outputs if output.name == "point"]
        target: Any = self._job.target(output)
        target.tend(self._job.epoch, self._job.scratch("point"), horizon)

    def results(self) -> Results:
        result = pk.Result(self._job)
        assert result.late("s").num_rows == 0
        return {name: Counter(tuple(row.values()) for row in result[name].to_pylist()) for name in OUTPUTS}

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pk.Result(self._job)["all"].to_pylist()]

    def close(self) -> None:
        self._executor.close()


def at_any_time(results: Results) -> Results:
    """Without what waits for the end of the input: who follows a point does not take it for ended."""
    return {name: tuples for name, tuples in results.items() if name != "sorted"}


@pytest.fixture
def any_two_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "FAN", 2)


@PROPERTY
@given(case=cases())
def test_boxes_behind_the_point_and_behind_who_reads_it_agree(case: Case, any_two_are_merged: None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/point"
        first = Runner(lambda: case.first(place), Path(folder, "first"), case.buckets)
        second = Runner(lambda: case.second(place, follow=True), Path(folder, "second"), 2, case.read)
        for move in case.moves:
            match move:
                case "merge":
                    first.tend(Horizon())
                case "again":
                    second.restart()
                case "first":
                    first.step()
                case "second":
                    second.step()
        first.catch_up()
        first.tend(Horizon())
        second.catch_up()
        after = Runner(lambda: case.second(place), Path(folder, "after"), case.buckets, case.read)
        after.catch_up()
        expected = first.results()
        event("staged" if case.staged else "at the intake")
        assert after.results() == expected
        assert at_any_time(second.results()) == at_any_time(expected)
        if not case.staged:
            assert second.rows() == after.rows() == first.rows()
        for runner in (first, second, after):
            runner.close()


@PROPERTY
@given(case=cases(), horizons=st.lists(st.integers(0, 60), max_size=4))
def test_what_has_left_is_missed_by_those_alone_who_come_later(
    case: Case, horizons: list[int], any_two_are_merged: None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/point"
        first = Runner(lambda: case.first(place), Path(folder, "first"), case.buckets)
        second = Runner(lambda: case.second(place, follow=True), Path(folder, "second"), 2, case.read)
        second.step()
        for horizon in horizons:
            for _ in range(4):
                first.step()
            first.tend(Horizon("ts", least=horizon))
        first.catch_up()
        second.catch_up()
        assert at_any_time(second.results()) == at_any_time(first.results())
        kept = (
            deltalake.DeltaTable(place).to_pyarrow_table().sort_by([("_batch", "ascending"), ("_arrival", "ascending")])
        )
        left = Counter(ts for ts, *_ in first.rows()) - Counter(kept["ts"].to_pylist())
        assert all(ts < max(horizons) for ts in left)
        after = Runner(lambda: case.second(place), Path(folder, "after"), case.buckets, case.read)
        after.catch_up()
        assert Counter(after.rows()) == Counter(
            tuple(row.values()) for row in kept.drop_columns(["_batch", "_arrival", "_arrived"]).to_pylist()
        )
        assert pk.Result(after._job).late("s").num_rows == 0
        for runner in (first, second, after):
            runner.close()
