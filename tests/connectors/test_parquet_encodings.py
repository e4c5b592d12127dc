"""How the columns of a Parquet file are encoded, and that everybody reads them."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.connectors.parquet_encodings import encodings

DELTA = "DELTA_BINARY_PACKED"


def rows(count: int = 10_000) -> pa.Table:
    """Columns of all kinds, with NULLs."""
    chance = random.Random(7)
    times = [1_700_000_000_000_000 + 10 * at - chance.randrange(2_000_000) for at in range(count)]
    return pa.table(
        {
            "ts": pa.array(
                [None if at % 97 == 0 else time for at, time in enumerate(times)], pa.timestamp("us", "UTC")
            ),
            "number": pa.array(range(count), pa.int64()),
            "short": pa.array([count - at for at in range(count)], pa.int32()),
            "window": pa.array([at // 1000 * 60_000_000 for at in range(count)], pa.timestamp("us", "UTC")),
            "id": pa.array([chance.randrange(-(2**63), 2**63) for _ in range(count)], pa.int64()),
            "name": pa.array([f"n{at % 50}" for at in range(count)]),
            "empty": pa.nulls(count, pa.int64()),
        }
    )


def test_columns_whose_values_are_close_and_do_not_repeat_are_differences() -> None:
    told = encodings(rows())
    assert told["column_encoding"] == {"ts": DELTA, "number": DELTA, "short": DELTA}
    assert told["use_dictionary"] == ["window", "id", "name", "empty"]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"name": pa.array(["a", "b"])}),
        pa.table({"x": pa.array([], pa.int64())}),
        pa.table({"x": pa.array([1], pa.int64())}),
        pa.table({"x": pa.array([None, None], pa.int64())}),
        pa.table({"x": pa.array([-(2**63), 2**63 - 1, 0], pa.int64())}),
        pa.table({"x": pa.array([1, 2, 3]), "list": pa.array([[1], [2], [3]])}),
        pa.table({"a.b": pa.array([1, 2, 3])}),
    ],
)
def test_others_are_left_as_they_are(table: pa.Table, tmp_path: Path) -> None:
    assert encodings(table) == {}


def test_a_table_of_such_columns_alone(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([3, 4, 5], pa.int64())})
    pq.write_table(table, tmp_path / "x.parquet", **encodings(table))
    assert pq.read_table(tmp_path / "x.parquet").equals(table)


def test_everybody_reads_them(tmp_path: Path, spark_ready: SparkSession) -> None:
    table, file = rows(), str(tmp_path / "rows.parquet")
    pq.write_table(table, file, compression="zstd", **encodings(table))
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert DELTA in group.column(0).encodings
    expected = table.to_pylist()
    assert pq.read_table(file).to_pylist() == expected
    with duckdb.connect() as reader:
        reader.execute("SET TimeZone = 'UTC'")
        found = reader.sql(f"SELECT * FROM '{file}'").to_arrow_table()
    assert [list(row.values())[1:] for row in found.to_pylist()] == [list(row.values())[1:] for row in expected]
    assert found["ts"].cast(pa.int64()).to_pylist() == table["ts"].cast(pa.int64()).to_pylist()
    assert (
        polars.read_parquet(file).to_arrow()["ts"].cast(pa.int64()).to_pylist()
        == table["ts"].cast(pa.int64()).to_pylist()
    )
    by_spark = spark_ready.read.parquet(file).orderBy("number").toArrow()
    for name in table.column_names:
        assert by_spark[name].to_pylist() == table[name].to_pylist()
