"""Small files of a Delta table become one, unless somebody else has taken them meanwhile."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.delta.upkeep import merge_small_files
from penstock.storage.folder import Folder

TOKEN = "abc"


@pytest.fixture
def table(tmp_path: Path) -> deltalake.DeltaTable:
    """Four files of one writer, with a row each."""
    rows = pa.table({"x": pa.array([], pa.int64())})
    deltalake.write_deltalake(str(tmp_path), rows)
    table = deltalake.DeltaTable(str(tmp_path))
    for number in range(4):
        name = f"part-{number}-{TOKEN}-0.parquet"
        pq.write_table(pa.table({"x": pa.array([number])}), tmp_path / name)
        size = (tmp_path / name).stat().st_size
        added = deltalake.transaction.AddAction(name, size, {}, 0, True, '{"numRecords": 1}')
        table.create_write_transaction([added], "append", table.schema())
        table.update_incremental()
    return table


def merged(table: deltalake.DeltaTable, folder: Path) -> int:
    def write(rows: pa.Table) -> tuple[str, int, str]:
        pq.write_table(rows, folder / "merged.parquet")
        return "merged.parquet", (folder / "merged.parquet").stat().st_size, f'{{"numRecords": {rows.num_rows}}}'

    return merge_small_files(table, Folder(str(folder)), TOKEN, write)


def rows(folder: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(folder)).to_pyarrow_table()["x"].to_pylist())


def test_small_files_become_one(table: deltalake.DeltaTable, tmp_path: Path) -> None:
    assert merged(table, tmp_path) == 4
    assert rows(tmp_path) == [0, 1, 2, 3]
    assert any("merged" in uri for uri in deltalake.DeltaTable(str(tmp_path)).file_uris())


def test_files_that_somebody_else_has_merged_meanwhile_are_left_alone(
    table: deltalake.DeltaTable, tmp_path: Path
) -> None:
    deltalake.DeltaTable(str(tmp_path)).optimize.compact()
    merged(table, tmp_path)
    assert rows(tmp_path) == [0, 1, 2, 3]
    assert not any("merged" in uri for uri in deltalake.DeltaTable(str(tmp_path)).file_uris())
