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


def test_differences_that_do_not_repeat_are_not_compressed() -> None:
    told = encodings(rows())["compression"]
    assert (told["ts"], told["number"], told["short"], told["name"]) == ("none", "zstd", "zstd", "zstd")
    assert set(told) == set(rows().column_names)
    assert encodings(rows(), None)["compression"]["number"] == "none"


def texts(number: int, rows: int, *, in_turn: bool = False) -> pa.Table:
    """So many different texts of 23 bytes, by chance or one after the other."""
    chance = random.Random(3)
    drawn = (at % number if in_turn else chance.randrange(number) for at in range(rows))
    return pa.table({"host": pa.array([f"host-{each:09d}.example" for each in drawn]), "kind": pa.array([1] * rows)})


@pytest.mark.parametrize(
    ("table", "with_dictionary"),
    [
        (texts(10**9, 20_000), False),
        (texts(200_000, 20_000), False),
        (texts(1_000, 20_000), True),
        (texts(20_000, 20_000), True),
        (texts(5_000, 20_000, in_turn=True), True),
        (texts(10**9, 1_000), True),
        (pa.table({"host": pa.nulls(20_000, pa.string()), "kind": pa.array([1] * 20_000)}), True),
    ],
    ids=["all differ", "many", "few", "as many as there is room for", "few in turn", "a short table", "NULLs"],
)
def test_texts_of_which_there_are_too_many_have_no_dictionary(table: pa.Table, with_dictionary: bool) -> None:
    assert ("host" in encodings(table).get("use_dictionary", table.column_names)) == with_dictionary


def test_the_same_rows_are_encoded_alike_however_they_are_cut() -> None:
    whole = pa.concat_tables([rows(), rows()]).append_column("host", texts(300_000, 20_000).column("host"))
    for size in (1, 4_095, 7_000):
        cut = pa.Table.from_batches(whole.combine_chunks().to_batches(max_chunksize=size))
        assert encodings(cut) == encodings(whole)


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
    assert encodings(table) == {"compression": "zstd"}


def test_a_table_of_such_columns_alone(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([3, 4, 5], pa.int64())})
    pq.write_table(table, tmp_path / "x.parquet", **encodings(table))
    assert pq.read_table(tmp_path / "x.parquet").equals(table)


def test_everybody_reads_them(tmp_path: Path, spark_ready: SparkSession) -> None:
    table, file = rows().append_column("host", texts(10**9, 10_000).column("host")), str(tmp_path / "rows.parquet")
    pq.write_table(table, file, **encodings(table))
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert DELTA in group.column(0).encodings
    assert group.column(0).compression == "UNCOMPRESSED"
    assert not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & set(group.column(7).encodings)
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
