"""Versions of static tables: when a table is read, what the offset says, and which snapshots are kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.boxes.table_join.box import TableJoin
from penstock.connectors.tables.file_store import SETTLED_NS, StoredFiles
from penstock.connectors.tables.static_table import StaticTable
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.offsets import intake_offset, offset_text
from penstock.runtime.planner import Planner
from penstock.runtime.table_versions import KEPT_VERSIONS, TableKeeper, load


def write(path: Path, *names: str) -> None:
    """Names for the keys 0, 1, ...; the file looks as old as it must for its stamp to be trusted."""
    pq.write_table(pa.table({"k": range(len(names)), "name": names, "note": ["-"] * len(names)}), path)
    moment = time.time_ns() - 2 * SETTLED_NS
    os.utime(path, ns=(moment, moment))


def network(table: StaticTable) -> pk.Network:
    net = pk.Network("net")
    elements = [(i, 0) for i in range(4)]
    source = net.source("in", pk.memory(elements, schema={"ts": "int64", "k": "int64"}, train=1))
    source.join(table, "l.k = r.k", name="lookup").map(ts="ts", who="name").output("o")
    return net


def box_of(job: Job, name: str = "lookup") -> TableJoin:
    return next(b for b in job.plan.network.boxes if isinstance(b, TableJoin) and b.name == name)


def names_of(job: Job, version: str) -> list[str]:
    return list(load(job, box_of(job), version).rows["name"].to_pylist())


class Reads:
    """Counts how often files are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        whole = StoredFiles.read

        def counted(store: StoredFiles, schema: pa.Schema) -> pa.Table:
            self.count += 1
            return whole(store, schema)

        monkeypatch.setattr(StoredFiles, "read", counted)


def test_the_offset_names_the_version_from_the_first_batch_on(tmp_path: Path, data: Path) -> None:
    write(data / "t.parquet", "a")
    job = job_of(network(pk.table(data / "t.parquet")), tmp_path)
    planner = Planner(job)
    start = planner.initial()
    assert "tables" not in start.to_json()
    first = planner.latest(start)
    assert intake_offset(offset_text(first)) == first
    assert set(first.tables) == {"lookup"}
    assert names_of(job, first.tables["lookup"]) == ["a"]
    assert all(a.control.tables == first.tables for a in planner.assignments(start, first))
    write(data / "t.parquet", "b")
    second = planner.latest(first)
    assert second.tables != first.tables
    assert names_of(job, second.tables["lookup"]) == ["b"]
    assert names_of(job, first.tables["lookup"]) == ["a"]


def test_without_tables_an_offset_says_nothing_of_them(tmp_path: Path) -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([(1,)], schema={"ts": "int64"})).output("o")
    planner = Planner(job_of(net, tmp_path))
    assert "tables" not in planner.latest(planner.initial()).to_json()


def test_only_the_columns_that_are_needed_are_kept(tmp_path: Path, data: Path) -> None:
    write(data / "t.parquet", "a")
    job = job_of(network(pk.table(data / "t.parquet")), tmp_path)
    versions = TableKeeper(job).current({}, 0)
    assert load(job, box_of(job), versions["lookup"]).rows.column_names == ["k", "name"]


def test_a_table_that_stays_is_read_once_and_one_that_changes_again(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(data / "t.parquet", "a")
    job, reads = job_of(network(pk.table(data / "t.parquet")), tmp_path), Reads(monkeypatch)
    keeper = TableKeeper(job)
    first = keeper.current({}, 0)
    assert keeper.current(first, 1) == first
    assert reads.count == 1
    pq.write_table(pq.read_table(data / "t.parquet"), data / "t.parquet")
    assert keeper.current(first, 2) == first, "the same content is the same version"
    assert keeper.current(first, 3) == first
    assert reads.count == 3, "a file that was written just now may have changed again behind the same stamp"
    assert TableKeeper(job).current(first, 4) == first, "nor does it depend on the process that looks"


def test_an_interval_keeps_it_from_being_looked_at(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(data / "t.parquet", "a")
    job = job_of(network(pk.table(data / "t.parquet", refresh="10 s")), tmp_path)
    keeper = TableKeeper(job)
    first = keeper.current({}, 1_000_000)
    write(data / "t.parquet", "b")
    assert keeper.current(first, 10_999_999) == first
    second = keeper.current(first, 11_000_000)
    assert names_of(job, second["lookup"]) == ["b"]


def test_old_versions_are_deleted_and_the_last_ones_kept(tmp_path: Path, data: Path) -> None:
    write(data / "t.parquet", "v0")
    job = job_of(network(pk.table(data / "t.parquet")), tmp_path)
    keeper, versions = TableKeeper(job), list[dict[str, str]]()
    for number in range(KEPT_VERSIONS + 3):
        write(data / "t.parquet", f"v{number}")
        versions.append(keeper.current(versions[-1] if versions else {}, number))
    kept = [n for n in (tmp_path / "tables" / "lookup").iterdir() if n.suffix == ".arrow"]
    assert {n.stem for n in kept} == {v["lookup"] for v in versions[-KEPT_VERSIONS:]}
    write(data / "t.parquet", f"v{KEPT_VERSIONS}")
    back = TableKeeper(job).current(versions[-1], 99)
    assert back == versions[KEPT_VERSIONS]
    assert names_of(job, back["lookup"]) == [f"v{KEPT_VERSIONS}"]


def test_boxes_that_share_a_table_see_the_same_content(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(data / "t.parquet", "a", "b")
    table, net = pk.table(data / "t.parquet"), pk.Network("net")
    source = net.source("in", pk.memory([(0, 1)], schema={"ts": "int64", "k": "int64"}))
    source.join(table, "l.k = r.k", name="one").output("one")
    source.join(table, "l.k = r.k", how="semi", name="two").output("two")
    job, reads = job_of(net, tmp_path), Reads(monkeypatch)
    versions = TableKeeper(job).current({}, 0)
    assert reads.count == 1
    assert load(job, box_of(job, "one"), versions["one"]).rows.column_names == ["k", "name", "note"]
    assert load(job, box_of(job, "two"), versions["two"]).rows.column_names == ["k"]


def test_a_batch_that_is_read_again_sees_the_table_as_it_was(tmp_path: Path, data: Path) -> None:
    write(data / "t.parquet", "old")
    job = job_of(network(pk.table(data / "t.parquet")), tmp_path)
    planner = Planner(job)
    start = planner.initial()
    end = planner.latest(start)

    def read() -> list[str]:
        for assignment in Planner(job).assignments(start, end):
            list(read_assignment(job, assignment, 0))
        (staged,) = (tmp_path / "outlet" / "o").rglob("part-*.arrow")
        return list(pa.ipc.open_file(staged).read_all()["who"].to_pylist())

    assert read() == ["old"]
    write(data / "t.parquet", "new")
    assert names_of(job, planner.latest(end).tables["lookup"]) == ["new"]
    assert read() == ["old"]


def test_what_is_wrong_with_a_table_names_its_boxes(tmp_path: Path, data: Path) -> None:
    write(data / "t.parquet", "a")
    job = job_of(network(pk.table(data / "t.parquet")), tmp_path)
    keeper = TableKeeper(job)
    keeper.current({}, 0)
    pq.write_table(pa.table({"k": [1]}), data / "t.parquet")
    with pytest.raises(pk.WorldError, match=r"^network 'net', box 'lookup': the table .* does not fit"):
        keeper.current({}, 1)
