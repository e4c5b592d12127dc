"""A connection point whose disk is full: what has left goes at once, and its log is cut short."""

from __future__ import annotations

import os
import time
from pathlib import Path

import deltalake
import pytest

import penstock as pk
from penstock.connectors.points.point_target import NEWS, ConnectionPoint
from penstock.connectors.points.retention import Horizon
from penstock.connectors.points.stored_files import stored_files
from penstock.runtime.board import Record
from penstock.storage.folder import Folder

BATCHES = 150


def network(batches: int = BATCHES, grace: str = "1 day") -> pk.Network:
    net = pk.Network("n")
    rows = [(n, f"k{n % 3}") for n in range(batches * 10)]
    source = net.source("s", pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=10), progress=pk.ordered())
    source.connection_point("raw", grace=grace)
    return net


def written(folder: Path, batches: int = BATCHES, grace: str = "1 day") -> tuple[ConnectionPoint, Folder]:
    network(batches, grace).run(engine="local", checkpoint=str(folder), durability="process")
    return ConnectionPoint(Folder(str(folder / "points" / "raw"))), Folder(str(folder / "outlet" / "raw"))


def data_files(point: ConnectionPoint) -> set[str]:
    return {name for name in point.folder.names() if name.endswith(".parquet")}


def read(place: str) -> pk.Network:
    net = pk.Network("reader")
    net.source("raw", pk.connection_point(place)).output("all")
    return net


def test_what_has_left_goes_at_once_and_the_rest_is_read_as_before(tmp_path: Path) -> None:
    point, scratch = written(tmp_path / "run")
    files = stored_files(deltalake.DeltaTable(point.folder.path))
    assert len(data_files(point)) > len(files)  # merged ones wait for the end of their grace
    point.let_go(files[:2], scratch)
    point.sweep(scratch)
    assert data_files(point) == {file.path for file in files[2:]}
    stayed = sum(file.rows for file in files[2:])
    found = read(point.folder.path).run(engine="local")["all"]["ts"].to_pylist()
    assert found == list(range(BATCHES * 10 - stayed, BATCHES * 10))


def test_the_log_is_cut_and_the_run_goes_on_exactly_once(tmp_path: Path) -> None:
    point, scratch = written(tmp_path / "run")
    log = tmp_path / "run" / "points" / "raw" / "_delta_log"
    assert len(list(log.glob("*.json"))) > NEWS + 20
    last = point.last_committed(scratch)
    point.sweep(scratch)
    assert len(list(log.glob("*[0-9].json"))) <= NEWS + 1
    assert len(list(log.glob("*.checkpoint.parquet"))) == 1
    assert point.last_committed(scratch) == last
    network(BATCHES).run(engine="local", checkpoint=str(tmp_path / "run"), durability="process")
    assert read(point.folder.path).run(engine="local")["all"].num_rows == BATCHES * 10


def test_who_needs_what_has_left_is_told_so(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(record: Record) -> None:
        raise StopError

    point, scratch = written(tmp_path / "run", 40)
    reader = {"engine": "local", "checkpoint": str(tmp_path / "reader"), "train_rows": 10, "durability": "process"}
    with pytest.raises(StopError):
        read(point.folder.path).run(**reader, on_batch=stop)  # type: ignore[arg-type]
    files = stored_files(deltalake.DeltaTable(point.folder.path))
    point.let_go(files[:-1], scratch)
    point.sweep(scratch)
    with pytest.raises(pk.WorldError, match=r"part-.*\.parquet"):
        read(point.folder.path).run(**reader)  # type: ignore[arg-type]


def test_upkeep_beside_the_run_leaves_old_commits_to_the_run(tmp_path: Path) -> None:
    point, scratch = written(tmp_path / "run", 130, grace="1 second")
    log = tmp_path / "run" / "points" / "raw" / "_delta_log"
    before = {file.name for file in log.glob("*.json")}
    time.sleep(1.5)
    for _ in range(3):
        point.tend(129, scratch, Horizon())
    assert before <= {file.name for file in log.glob("*.json")}


@pytest.mark.parametrize("room", [0, 1_000_000, None])
def test_files_are_merged_only_as_long_as_there_is_room_for_the_new_ones(tmp_path: Path, room: int | None) -> None:
    point, scratch = written(tmp_path)

    def size() -> int:
        return sum(file.stat().st_size for file in Path(point.folder.path).rglob("*") if file.is_file())

    files, before = data_files(point), size()
    point.tend(BATCHES - 1, scratch, Horizon(), room)
    assert room is None or size() - before <= room
    assert (data_files(point) == files) == (room == 0)


def test_a_short_grace_deletes_what_no_version_lists_but_not_of_a_batch_under_way(tmp_path: Path) -> None:
    point, scratch = written(tmp_path / "run", 40, grace="1 second")
    token = next(iter(data_files(point))).split("-")[-1].removesuffix(".parquet")
    done, under_way = f"part-00000005-0000-0000-{token}.x.parquet", f"part-00000040-0000-0000-{token}.x.parquet"
    for name in (done, under_way):
        place = tmp_path / "run" / "points" / "raw" / name
        place.write_bytes(b"staged")
        os.utime(place, (time.time() - 60, time.time() - 60))
    time.sleep(1.5)
    point.tend(39, scratch, Horizon())
    listed = {file.path for file in stored_files(deltalake.DeltaTable(point.folder.path))}
    assert under_way in data_files(point)
    assert done not in data_files(point)
    assert listed <= data_files(point)
