"""A connection point is read a stretch at a time: only the row groups that hold what arrived next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.points import arrival_layout, clustering, point_feed, point_target
from penstock.connectors.points.arrival_layout import Groups, Stretch, stretches
from penstock.connectors.points.point_input import PointInput
from penstock.connectors.points.retention import Horizon
from penstock.connectors.points.units import PointSplit
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string"}


def footer(place: Path, rows: list[tuple[int, int]], group: int = 2) -> pq.FileMetaData:
    """Of a file with these batches and places of arrival."""
    batches, arrivals = zip(*rows, strict=True)
    pq.write_table(pa.table({"_batch": batches, "_arrival": arrivals}), place, row_group_size=group)
    return pq.read_metadata(place)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_layout, "STRETCH_ROWS", 1)
    monkeypatch.setattr(clustering, "PIECE_ROWS", 12)
    monkeypatch.setattr(point_target, "GROUP_ROWS", 3)
    monkeypatch.setattr(point_target, "GROUP_ROWS_BY_TIME", 3)
    monkeypatch.setattr(point_feed, "_CUT_ROWS", 8)


def test_row_groups_that_arrived_one_after_the_other_are_stretches(tmp_path: Path) -> None:
    first = footer(tmp_path / "a", [(0, 0), (0, 1), (0, 4), (0, 5)])
    second = footer(tmp_path / "b", [(0, 2), (0, 3), (1, 0), (1, 1)])
    assert stretches([first, second]) == (
        Stretch(2, (Groups(0, 0, 1),)),
        Stretch(2, (Groups(1, 0, 1),)),
        Stretch(2, (Groups(0, 1, 2),)),
        Stretch(2, (Groups(1, 1, 2),)),
    )


def test_row_groups_that_arrived_among_each_other_are_one(tmp_path: Path) -> None:
    first = footer(tmp_path / "a", [(0, 0), (0, 2), (1, 0), (1, 1)])
    second = footer(tmp_path / "b", [(0, 1), (0, 3), (2, 0), (2, 1)])
    assert stretches([first, second])[0] == Stretch(4, (Groups(0, 0, 1), Groups(1, 0, 1)))


def test_tuples_that_arrived_at_once_are_not_parted(tmp_path: Path) -> None:
    first = footer(tmp_path / "a", [(0, 0), (0, 1), (0, 1), (0, 2)])
    assert [stretch.rows for stretch in stretches([first])] == [4]


def test_a_row_group_with_two_batches_is_with_all_of_both(tmp_path: Path) -> None:
    """Its last place of arrival may be of the first batch."""
    first = footer(tmp_path / "a", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)])
    assert [stretch.rows for stretch in stretches([first])] == [6, 2]


def test_without_statistics_all_is_one_stretch(tmp_path: Path) -> None:
    rows = pa.table({"_batch": [0, 0, 1, 1], "_arrival": [0, 1, 0, 1]})
    pq.write_table(rows, tmp_path / "a", row_group_size=2, write_statistics=False)
    assert [stretch.rows for stretch in stretches([pq.read_metadata(tmp_path / "a")])] == [4]


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("train_rows", [None, 1, 5, 17])
def test_however_trains_are_cut_the_stream_is_what_it_was(
    key: tuple[str, ...], train_rows: int | None, merged: bool, tmp_path: Path
) -> None:
    rows = [((t * 7) % 101, f"k{t % 9}") for t in range(101)]
    net = pk.Network("n")
    source = net.source("s", pk.memory(rows, schema=SCHEMA, train=10 if merged else 50), progress=pk.delayed(200))
    source.connection_point("raw", path=str(tmp_path / "raw"), key=key)
    net.run(engine="local", buckets=2, tasks=3, checkpoint=str(tmp_path / "cp"))
    if merged:
        target: Any = net.network.outputs[0].target
        target.tend(99, Folder(str(tmp_path / "cp" / "outlet" / "raw")), Horizon())
    again = pk.Network("again")
    again.source("s", pk.connection_point(str(tmp_path / "raw"))).output("all")
    result = again.run(engine="local", buckets=2, tasks=2, train_rows=train_rows)
    assert [tuple(row.values()) for row in result["all"].to_pylist()] == rows
    assert result.errors("s").num_rows == 0


def test_few_rows_of_a_large_batch_cost_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = pk.Network("n")
    rows = [(t, "a") for t in range(300)]
    net.source("s", pk.memory(rows, schema=SCHEMA, train=300)).connection_point("raw", path=str(tmp_path / "raw"))
    net.run(engine="local", buckets=1, tasks=1)
    read: list[int] = []
    files_of = PointInput.files_of

    def counting(self: PointInput, unit: PointSplit, groups: Any, schema: pa.Schema, columns: Any) -> Any:
        for chunk in files_of(self, unit, groups, schema, columns):
            read.append(chunk.tuples.num_rows)
            yield chunk

    monkeypatch.setattr(PointInput, "files_of", counting)
    again = pk.Network("again")
    again.source("s", pk.connection_point(str(tmp_path / "raw"))).output("all")
    again.run(engine="local", buckets=1, tasks=1, train_rows=4)
    assert set(read) == {3}
    assert sum(read) <= 2 * len(rows)
