"""What a connection point holds, for readers that know nothing of Penstock: the same rows for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest

import penstock as pk
from penstock.connectors.points.retention import Horizon
from penstock.storage.folder import Folder

COLUMNS = ("ts", "cell", "minutes")
ROWS = [(t ^ 3, f"cell{t % 4}" if t % 5 else None, t % 7) for t in range(200)]


@pytest.fixture
def point(tmp_path: Path) -> str:
    """A point with merged files, files of single batches, and files that have left."""
    place = str(tmp_path / "point")
    net = pk.Network("n")
    schema = {"ts": "int64", "cell": "string", "minutes": "int64"}
    source = net.source("calls", pk.memory(ROWS, schema=schema, train=10), progress=pk.delayed(4))
    source.connection_point("calls", path=place, key="cell")
    scratch = Folder(str(tmp_path / "run" / "outlet" / "calls"))
    target: Any = net.network.outputs[0].target

    def tending(record: Any) -> None:
        if record.batch == 16:
            target.tend(record.batch, scratch, Horizon())

    net.run(engine="local", checkpoint=str(tmp_path / "run"), buckets=2, tasks=2, on_batch=tending)
    files = deltalake.DeltaTable(place).file_uris()
    assert 1 < len(files) < 20
    assert any("merged" in file for file in files)
    return place


def in_some_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


def files_of(place: str) -> list[str]:
    return [uri.removeprefix("file://") for uri in deltalake.DeltaTable(place).file_uris()]


def test_deltalake_reads_it(point: str) -> None:
    table = deltalake.DeltaTable(point).to_pyarrow_table()
    assert in_some_order(row.values() for row in table.select(COLUMNS).to_pylist()) == in_some_order(ROWS)


def test_duckdb_reads_it_through_deltalake(point: str) -> None:
    calls = deltalake.DeltaTable(point).to_pyarrow_dataset()
    found = duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM calls").fetchall()
    assert in_some_order(found) == in_some_order(ROWS)
    few = duckdb.sql("SELECT count(*) FROM calls WHERE cell = 'cell1'").fetchall()
    assert few == [(sum(cell == "cell1" for _, cell, _ in ROWS),)]
    assert calls.schema.names == [*COLUMNS, "_arrival", "_arrived", "_batch"]


def test_duckdb_reads_the_listed_files(point: str) -> None:
    found = duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM read_parquet({files_of(point)!r})").fetchall()
    assert in_some_order(found) == in_some_order(ROWS)


def test_duckdb_reads_it_by_its_own_extension(point: str) -> None:
    connection = duckdb.connect()
    try:
        connection.execute("LOAD delta")
    except duckdb.Error:
        pytest.skip("DuckDB's extension 'delta' is not installed")
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM delta_scan('{point}')").fetchall()
    assert in_some_order(found) == in_some_order(ROWS)


def test_polars_reads_it(point: str) -> None:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    found = polars.scan_delta(point).select(*COLUMNS).collect().rows()
    assert in_some_order(found) == in_some_order(ROWS)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_spark_reads_the_listed_files_without_knowing_delta(point: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    found = spark.read.parquet(*files_of(point)).select(*COLUMNS)
    assert in_some_order(found.collect()) == in_some_order(ROWS)
