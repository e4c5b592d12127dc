"""Of an input with marks of groups, only tuples that may be late are read with all columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.files.declaration import Files
from penstock.progress.extremes import Extremes
from penstock.progress.issued import Issued, issued_by
from penstock.runtime.doubtful import columns_surely_needed, in_doubt_below
from penstock.runtime.local import run_locally

SCHEMA = {"ts": "int64", "k": "string", "note": "string"}


def network(folder: Path, *, follow: bool = False, **options: Any) -> pk.Network:
    net = pk.Network("net")
    tuples = net.source(
        "in",
        pk.files(str(folder / "*.parquet"), follow=follow),
        schema=SCHEMA,
        progress=pk.delayed(2, by="k"),
        **options,
    )
    tuples.aggregate({"n": "count(*)"}, size=10, by="k").output("o")
    return net


def write(folder: Path, files: list[list[tuple[int, str]]]) -> None:
    for number, rows in enumerate(files):
        ts, keys = zip(*rows, strict=True)
        pq.write_table(
            pa.table({"ts": ts, "k": keys, "note": [f"{t}{k}" for t, k in rows]}), folder / f"{number}.parquet"
        )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns that are read, split by split."""
    seen: list[list[str]] = []
    before = Files.read

    def reading(self: Files, split: Any, schema: pa.Schema, columns: Any) -> Any:
        seen.append(list(columns))
        return before(self, split, schema, columns)

    monkeypatch.setattr(Files, "read", reading)
    return seen


def test_who_keeps_the_promise_is_read_once_without_what_nobody_needs(tmp_path: Path, read: list[list[str]]) -> None:
    write(tmp_path, [[(10, "a"), (12, "b")], [(20, "a"), (13, "b")]])
    found = network(tmp_path).run(engine="local", train_rows=2)
    assert found.late("in").num_rows == 0
    assert read == [["ts", "k"], ["ts", "k"]]


def test_who_may_be_late_is_read_again_and_leaves_whole(tmp_path: Path, read: list[list[str]]) -> None:
    write(tmp_path, [[(10, "a"), (30, "b")], [(31, "b"), (12, "a"), (5, "a"), (40, "b")]])
    found = network(tmp_path).run(engine="local", train_rows=4)
    *first, again = read
    assert again == ["ts", "k", "note"]
    assert all(columns == ["ts", "k"] for columns in first)
    assert found.late("in").to_pylist() == [{"ts": 5, "k": "a", "note": "5a"}]
    counted = {(row["ts"], row["k"]): row["n"] for row in found["o"].to_pylist()}
    assert counted == {(10, "a"): 2, (30, "b"): 2, (40, "b"): 1}


def test_late_tuples_that_nobody_keeps_are_not_read_again(tmp_path: Path, read: list[list[str]]) -> None:
    write(tmp_path, [[(10, "a"), (30, "b")], [(31, "b"), (5, "a")]])
    assert network(tmp_path, late="drop").run(engine="local", train_rows=2)["o"].num_rows == 2
    assert all(columns == ["ts", "k"] for columns in read)


def test_doubt_ends_at_the_largest_value_less_the_delay_and_at_what_is_stated(tmp_path: Path) -> None:
    write(tmp_path, [[(10, "a")]])
    job = job_of(network(tmp_path), tmp_path / "checkpoint")
    (source,) = job.plan.network.sources
    assert columns_surely_needed(job, source) == {"ts", "k"}
    assert in_doubt_below(job, source, Issued()) == BEGINNING
    for seen, bound in (
        ({"x": Extremes(10)}, 8),
        ({"x": Extremes(10), "y": Extremes(30)}, 28),
        ({"x": Extremes(10, stated=50)}, 50),
        ({"x": Extremes(BEGINNING + 1)}, BEGINNING),
    ):
        assert in_doubt_below(job, source, issued_by(source, seen)) == bound


def test_an_input_that_takes_the_place_of_another_is_read_whole(tmp_path: Path, read: list[list[str]]) -> None:
    """The box behind it knows of marks that this input has not brought, so any of its tuples may be late."""
    for folder, rows in (("old", [(50, "a"), (51, "b")]), ("new", [(7, "a"), (60, "a"), (8, "b")])):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, [rows])
    run_locally(job_of(network(tmp_path / "old", follow=True), tmp_path / "checkpoint"))
    read.clear()
    checkpoint = str(tmp_path / "checkpoint")
    found = network(tmp_path / "new").run(engine="local", checkpoint=checkpoint, buckets=2, discard=["in"])
    assert read == [["ts", "k", "note"]]
    assert found.late("in").to_pylist() == [{"ts": 7, "k": "a", "note": "7a"}, {"ts": 8, "k": "b", "note": "8b"}]
