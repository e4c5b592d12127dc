"""A Parquet file that takes its rows piece by piece."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors import growing_parquet
from penstock.connectors.growing_parquet import GrowingParquet


@pytest.fixture(autouse=True)
def short_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_parquet, "GROUP_ROWS", 1_000)


def rows(count: int) -> pa.Table:
    chance = random.Random(count)
    return pa.table(
        {
            "number": pa.array(range(count), pa.int64()),
            "name": pa.array([None if at % 7 == 0 else f"n{chance.randrange(10**6)}" for at in range(count)]),
        }
    )


def written(table: pa.Table, sizes: list[int]) -> pa.Buffer:
    file, at = GrowingParquet("zstd"), 0
    for size in sizes:
        file.add(table.slice(at, size))
        at += size
    assert file.rows == at == table.num_rows
    return file.done()


@pytest.mark.parametrize("sizes", [[3_500], [1] * 500 + [3_000], [999, 1, 1_000, 1_500], [0, 2_500, 1_000, 0]])
def test_the_rows_come_back_and_the_same_rows_are_the_same_bytes(sizes: list[int]) -> None:
    content = written(rows(3_500), sizes)
    assert pq.read_table(pa.BufferReader(content)).equals(rows(3_500))
    groups = pq.read_metadata(pa.BufferReader(content))
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [1_000, 1_000, 1_000, 500]
    assert content.equals(written(rows(3_500), [1_000, 2_500]))


def test_long_rows_are_encoded_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_parquet, "GROUP_BYTES", 1_000)
    content = written(rows(300), [100, 100, 100])
    assert pq.read_metadata(pa.BufferReader(content)).num_row_groups == 3
    assert pq.read_table(pa.BufferReader(content)).equals(rows(300))


def test_whole_groups_leave_nothing_behind() -> None:
    content = written(rows(2_000), [2_000])
    assert pq.read_metadata(pa.BufferReader(content)).num_row_groups == 2
