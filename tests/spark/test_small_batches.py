"""Small batches, which the driver reads itself: who reads when, and that only the planner's word counts."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock import api
from penstock.runtime.planner import Assignment, Planner
from penstock.runtime.small_batch import FEW_ROWS, FEW_SPLITS, few_splits
from penstock.spark import run
from penstock.spark.carrier import JobTicket
from penstock.spark.shares import Shares
from penstock.spark.source import IntakeReader

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(at, "xyz"[at % 3]) for at in range(30)]


def counts(rows: Sequence[tuple[int, str]] | pa.Table = ROWS, train: int | None = 10) -> pk.Network:
    net = pk.Network("small")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), progress=pk.ordered())
    source.aggregate({"n": "count(*)"}, on="ts", size=5, by=["k"]).output("counts")
    return net


@pytest.fixture
def assignments(tmp_path: Path) -> list[Assignment]:
    planner = Planner(job_of(counts(), tmp_path))
    start = planner.initial()
    return planner.assignments(start, planner.latest(start))


# --- what the planner leaves for the driver --------------------------------------------------------------------------


def test_the_driver_finds_what_the_planner_has_left(tmp_path: Path, assignments: list[Assignment]) -> None:
    shares = Shares.in_folder(str(tmp_path))
    Shares.parse(shares.text).leave("a1", assignments)
    assert shares.take("a1") == assignments


def test_another_batch_is_left_to_sparks_tasks(tmp_path: Path, assignments: list[Assignment]) -> None:
    shares = Shares.in_folder(str(tmp_path))
    assert shares.take("a1") is None
    shares.leave("a1", assignments)
    assert shares.take("b2") is None
    shares.leave("b2", assignments)
    assert (shares.take("a1"), shares.take("b2")) == (None, assignments)


def test_a_planner_that_cannot_leave_anything_leaves_the_batch_to_tasks(
    tmp_path: Path, assignments: list[Assignment]
) -> None:
    (tmp_path / "file").touch()
    shares = Shares.in_folder(str(tmp_path / "file"))
    shares.leave("a1", assignments)
    assert shares.take("a1") is None


class _Bomb:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.trace),))


def _forged(content: bytes, trace: Path) -> bytes:
    return content[:32] + pickle.dumps(("a1", _Bomb(trace)))


@pytest.mark.parametrize(
    "damage",
    [_forged, lambda content, trace: content[:-1], lambda content, trace: content[:20], lambda content, trace: b""],
)
def test_what_this_run_has_not_signed_is_not_unpickled(
    damage: Callable[[bytes, Path], bytes], tmp_path: Path, assignments: list[Assignment]
) -> None:
    shares, trace = Shares.in_folder(str(tmp_path)), tmp_path / "trace"
    shares.leave("a1", assignments)
    (file,) = tmp_path.glob("next")
    file.write_bytes(damage(file.read_bytes(), trace))
    assert shares.take("a1") is None
    assert not trace.exists()


def test_the_key_of_another_run_does_not_fit(tmp_path: Path, assignments: list[Assignment]) -> None:
    Shares.in_folder(str(tmp_path)).leave("a1", assignments)
    assert Shares.in_folder(str(tmp_path)).take("a1") is None


def test_neither_workers_nor_texts_see_the_key(tmp_path: Path) -> None:
    shares = Shares.in_folder(str(tmp_path))
    reader = IntakeReader(JobTicket(str(tmp_path), "0" * 64, "key"), shares)
    assert shares.key not in repr(shares)
    assert shares.key.encode() not in pickle.dumps(reader)


def test_many_splits_are_not_for_one_thread(assignments: list[Assignment], tmp_path: Path) -> None:
    (first, *_), (split, *_) = assignments, assignments[0].splits
    half = replace(first, splits=(split,) * (FEW_SPLITS // 2))
    job = job_of(counts(), tmp_path / "other")
    assert few_splits(job, [half, half])
    assert not few_splits(job, [half, half, first])
    assert few_splits(replace(job, settings=replace(job.settings, threads=2)), [half, half, first])


# --- who reads a batch -----------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who has read each batch: the driver, or tasks of Spark's."""
    found: list[str] = []

    def told(who: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found.append(who)
            return function(*arguments)

        return call

    monkeypatch.setattr(run, "collect", told("tasks", run.collect))
    monkeypatch.setattr(run, "read_shares", told("driver", run.read_shares))
    return found


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_the_driver_reads_small_batches_and_tasks_those_that_go_by_exchange(reads: list[str]) -> None:
    expected = counts().run("local")["counts"]
    assert counts().run(tasks=1)["counts"] == expected
    assert reads == ["driver"] * 3
    reads.clear()
    assert counts().run(tasks=1, way="exchange")["counts"] == expected
    assert reads == ["tasks"] * 3


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_tasks_read_a_large_batch_also_if_it_is_told_to_go_the_express_way(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "shared_cores", lambda master: 1)
    rows = pa.table({"ts": np.arange(FEW_ROWS + 1) // 1000, "k": pa.repeat("x", FEW_ROWS + 1)})
    result = counts(rows, None).run(way="express")
    assert sum(result["counts"]["n"].to_pylist()) == FEW_ROWS + 1
    assert reads == ["tasks"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_what_tasks_read_of_a_long_train_does_not_come_to_the_driver(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart, when nobody has left shares of the batch."""
    exchanges: list[str] = []

    def exchanged(*arguments: Any) -> Any:
        exchanges.append("exchange")
        return run_exchanged(*arguments)

    run_exchanged = run.exchanged
    monkeypatch.setattr(run, "exchanged", exchanged)
    monkeypatch.setattr(api, "shared_cores", lambda master: 2)
    monkeypatch.setattr(Shares, "take", lambda *_: None)
    rows = pa.table({"ts": np.arange(FEW_ROWS + 1) // 1000, "k": pa.repeat("x", FEW_ROWS + 1)})
    for length, expected in ((FEW_ROWS + 1, ["exchange"]), (1000, [])):
        exchanges.clear()
        result = counts(rows.slice(0, length), None).run(tasks=2)
        assert sum(result["counts"]["n"].to_pylist()) == length
        assert exchanges == expected
    assert set(reads) == {"tasks"}


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_the_driver_reads_more_where_it_has_threads_for_all_cores(
    reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "shared_cores", lambda master: 2)
    rows = pa.table({"ts": np.arange(FEW_ROWS + 1) // 1000, "k": pa.repeat("x", FEW_ROWS + 1)})
    result = counts(rows, None).run(tasks=2)
    assert sum(result["counts"]["n"].to_pylist()) == FEW_ROWS + 1
    assert reads == ["driver"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_tasks_read_what_the_driver_cannot(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise OSError("no such path on this machine")

    expected = counts().run("local")["counts"]
    monkeypatch.setattr(run, "read_shares", failing)
    assert counts().run()["counts"] == expected
    assert reads == ["tasks"] * 3
