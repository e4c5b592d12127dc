"""What may happen to a Delta table that is read: files and columns that come, go or change; and all its types."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from tests.connectors.conftest import EVERYTHING, Drained
from tests.connectors.delta.tables import SCHEMA, add, forget_commits, stamps

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.journal import MemoryJournal
from penstock.errors import WorldError

Drain = Callable[..., Drained]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def test_a_file_that_was_vacuumed_is_named_with_its_table_and_version(place: str, drain: Drain) -> None:
    add(place, 1)
    add(place, 2)
    table = deltalake.DeltaTable(place)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(WorldError, match=r"the file part-.*\.parquet of version 0 of the Delta table .* is gone"):
        drain(pk.delta(place))


def test_versions_that_delete_or_rewrite_are_refused_unless_told(place: str, drain: Drain) -> None:
    add(place, 1, 2)
    deltalake.DeltaTable(place).delete("ts = 1")
    add(place, 3)
    feed = pk.delta(place).open(SCHEMA, MemoryJournal())
    before = feed.advance(feed.start(), EVERYTHING)
    assert (before.rows, before.position["version"]) == (2, 1)  # what comes before is read first
    with pytest.raises(WorldError, match=r"version 1 of the Delta table .* deletes or rewrites rows") as refused:
        feed.advance(before.position, EVERYTHING)
    assert refused.value.found == "DELETE that removes 1 file and adds 1"
    assert stamps(drain(pk.delta(place, changes="skip"))) == [1, 2, 3]
    assert stamps(drain(pk.delta(place, changes="append"))) == [1, 2, 2, 3]


def test_a_run_that_such_a_version_has_ended_goes_on_with_other_changes(place: str, tmp_path: Path) -> None:
    def network(changes: Any) -> pk.Network:
        net = pk.Network("n")
        net.source("s", pk.delta(place, changes=changes), on="ts").output("o")
        return net

    add(place, 1, 2)
    deltalake.DeltaTable(place).delete("ts = 1")
    add(place, 3)
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(WorldError, match="deletes or rewrites rows"):
        network("error").run("local", checkpoint=checkpoint)
    result = network("skip").run("local", checkpoint=checkpoint)
    assert result["o"]["ts"].to_pylist() == [1, 2, 3]


def test_a_batch_is_read_again_as_it_was_planned_whatever_is_declared_by_then(place: str) -> None:
    add(place, 1, 2)
    deltalake.DeltaTable(place).delete("ts = 1")
    journal = MemoryJournal()
    feed = pk.delta(place, changes="skip").open(SCHEMA, journal)
    start = feed.start()
    end = feed.advance(start, EVERYTHING).position
    again = pk.delta(place, changes="append").open(SCHEMA, journal)
    assert again.splits(start, end) == feed.splits(start, end)


def test_an_overwritten_table_is_refused_too(place: str, drain: Drain) -> None:
    add(place, 1)
    deltalake.write_deltalake(place, pa.table({"ts": [9], "k": ["z"]}, schema=SCHEMA), mode="overwrite")
    with pytest.raises(WorldError, match=r"version 1 .* deletes or rewrites rows"):
        drain(pk.delta(place), limit=Limit(1))


def test_another_table_in_the_same_place_is_refused(place: str, tmp_path: Path) -> None:
    add(place, 1)
    journal = MemoryJournal()
    pk.delta(place).open(SCHEMA, journal)
    (tmp_path / "table").rename(tmp_path / "away")
    add(place, 1)
    with pytest.raises(WorldError, match="is another one than was read before"):
        pk.delta(place).open(SCHEMA, journal)


def test_a_column_that_came_later_is_null_before(place: str, drain: Drain) -> None:
    add(place, 1)
    rows = pa.table({"ts": [2], "k": ["b"], "v": [0.5]})
    deltalake.write_deltalake(place, rows, mode="append", schema_mode="merge")
    assert drain(pk.delta(place)).tuples == [{"ts": 1, "k": "k1", "v": None}, {"ts": 2, "k": "b", "v": 0.5}]
    assert drain(pk.delta(place), columns=["v"]).tuples == [{"v": None}, {"v": 0.5}]


def test_a_column_that_comes_while_the_table_is_followed_is_not_read(place: str) -> None:
    add(place, 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    at = feed.advance(feed.start(), EVERYTHING).position
    rows = pa.table({"ts": [2], "k": ["b"], "v": [0.5]})
    deltalake.write_deltalake(place, rows, mode="append", schema_mode="merge")
    step = feed.advance(at, EVERYTHING)
    (split,) = feed.splits(at, step.position)
    (chunk,) = pk.delta(place).read(split, SCHEMA, ["ts", "k"])
    assert chunk.tuples.to_pylist() == [{"ts": 2, "k": "b"}]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ([("ts", pa.int64())], "'k' is gone"),
        ([("ts", pa.int64()), ("key", pa.string())], "'k' is gone"),
        ([("ts", pa.int32()), ("k", pa.string())], "'ts' is int32"),
    ],
)
def test_a_column_that_is_dropped_renamed_or_retyped_is_an_error(
    fields: list[tuple[str, pa.DataType]], told: str, place: str
) -> None:
    add(place, 1)
    feed = pk.delta(place, follow=True, changes="append").open(SCHEMA, MemoryJournal())
    at = feed.advance(feed.start(), EVERYTHING).position
    empty = pa.schema(fields).empty_table()
    deltalake.write_deltalake(place, empty, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(WorldError, match=f"version 1 of the Delta table .* has other columns: {told}"):
        feed.advance(at, EVERYTHING)


def test_columns_that_the_table_does_not_have_are_refused_when_it_is_opened(place: str) -> None:
    add(place, 1)
    with pytest.raises(WorldError, match="has no column 'v'"):
        pk.delta(place).open(pa.schema([("ts", pa.int64()), ("v", pa.int64())]), MemoryJournal())
    with pytest.raises(WorldError, match=r"the column 'ts' of the Delta table .* is int64"):
        pk.delta(place).open(pa.schema([("ts", pa.list_(pa.int64()))]), MemoryJournal())


# Types


def test_partition_columns_are_filled_from_the_log_in_their_types(place: str, drain: Drain) -> None:
    rows = pa.table(
        {
            "ts": [1, 2],
            "day": [dt.date(2026, 1, 1), None],
            "hour": pa.array([dt.datetime(2026, 1, 1, 5), None], pa.timestamp("us")),
            "at": pa.array([dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
            "n": pa.array([7, None], pa.int32()),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "name": ["a b/c=d%20", None],
            "yes": [True, None],
        }
    )
    deltalake.write_deltalake(place, rows, partition_by=rows.column_names[1:])
    found = drain(pk.delta(place))
    assert sorted(found.tuples, key=lambda row: row["ts"]) == rows.to_pylist()
    assert sorted(drain(pk.delta(place), columns=["name"]).tuples, key=str) == [{"name": "a b/c=d%20"}, {"name": None}]


def test_the_partitions_of_a_log_that_was_cut_short_are_the_same(place: str, drain: Drain) -> None:
    rows = pa.table({"ts": [1, 2], "day": [dt.date(2026, 1, 1), None], "name": ["a b", "c%d"]})
    deltalake.write_deltalake(place, rows, partition_by=["day", "name"])
    more = pa.table({"ts": [3], "day": [dt.date(2026, 1, 2)], "name": ["e"]})
    deltalake.write_deltalake(place, more, mode="append")
    deltalake.DeltaTable(place).create_checkpoint()
    forget_commits(place, 1)
    found = drain(pk.delta(place)).tuples
    assert sorted(found, key=lambda row: row["ts"]) == [*rows.to_pylist(), *more.to_pylist()]


def test_all_types_of_a_table_come_back(place: str, drain: Drain) -> None:
    rows = pa.table(
        {
            "ts": pa.array([dt.datetime(2026, 1, 1, 1, 2, 3, 4)], pa.timestamp("us")),
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
            "i": pa.array([-3], pa.int8()),
            "d": pa.array([Decimal("12.34")], pa.decimal128(10, 2)),
            "f": pa.array([0.5], pa.float32()),
            "b": pa.array([b"\x00x"], pa.binary()),
            "day": pa.array([dt.date(2026, 1, 1)], pa.date32()),
            "l": pa.array([["a", None]], pa.list_(pa.string())),
            "s": pa.array([{"x": 1}], pa.struct([("x", pa.int64())])),
            "yes": [True],
        }
    )
    deltalake.write_deltalake(place, rows)
    assert drain(pk.delta(place)).tuples == rows.to_pylist()
    narrow = pa.schema([("at", pa.timestamp("ms", "UTC")), ("i", pa.int64())])
    assert drain(pk.delta(place), schema=narrow).tuples == [{"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "i": -3}]


def test_a_value_that_does_not_fit_is_refused_with_its_row(place: str, drain: Drain) -> None:
    add(place, 1, 400)
    drained = drain(pk.delta(place), schema=pa.schema([("ts", pa.int8())]))
    assert stamps(drained) == [1]
    assert [one["reason"] for one in drained.rejects] == ["column 'ts': 400 is no int8"]


def rewrite(place: str, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(place) / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("\n".join(map(json.dumps, lines)))


def test_a_table_that_names_its_columns_otherwise_in_files_is_refused(place: str) -> None:
    add(place, 1)

    def map_columns(line: dict[str, Any]) -> None:
        if "metaData" in line:
            line["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}

    rewrite(place, 0, map_columns)
    with pytest.raises(WorldError, match="asks more of a reader") as refused:
        pk.delta(place).open(SCHEMA, MemoryJournal())
    assert "delta.columnMapping.mode=name" in str(refused.value)


def test_a_file_with_a_deletion_vector_is_refused(place: str) -> None:
    add(place, 1)
    add(place, 2)
    feed = pk.delta(place).open(SCHEMA, MemoryJournal())

    def delete(line: dict[str, Any]) -> None:
        if "add" in line:
            line["add"]["deletionVector"] = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 4}

    rewrite(place, 1, delete)
    at = feed.advance(feed.start(), EVERYTHING).position
    with pytest.raises(WorldError, match=r"version 1 .* cannot be read") as refused:
        feed.advance(at, EVERYTHING)
    assert "with a deletion vector" in str(refused.value)


def test_a_log_that_is_no_log_is_refused(place: str, drain: Drain) -> None:
    add(place, 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    (Path(place) / "_delta_log" / f"{1:020d}.json").write_text("{broken\n")
    at = feed.advance(feed.start(), EVERYTHING).position
    with pytest.raises(WorldError, match=r"the log of version 1 of the Delta table .* cannot be read"):
        feed.advance(at, EVERYTHING)


def test_files_without_statistics_are_counted(place: str, drain: Drain) -> None:
    add(place, *range(10))

    def forget(line: dict[str, Any]) -> None:
        if "add" in line:
            line["add"]["stats"] = None

    rewrite(place, 0, forget)
    drained = drain(pk.delta(place), limit=Limit(3))
    assert stamps(drained) == list(range(10))
    assert drained.batches >= 4
