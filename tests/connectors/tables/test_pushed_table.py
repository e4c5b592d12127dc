"""A static table as an input: every store, what is read again, what a followed table sends, and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.connectors.conftest import Drained

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.journal import FileJournal
from penstock.connectors.tables import file_store
from penstock.connectors.tables.pushed_table import KEPT_VERSIONS, PushedTable, TableFeed
from penstock.connectors.tables.static_table import StaticTable
from penstock.runtime.board import Record

ROWS = pa.table({"day": pa.array([3, 1, 2], pa.int64()), "name": ["c", "a", None]})
IN_ORDER = [{"day": 1, "name": "a"}, {"day": 2, "name": None}, {"day": 3, "name": "c"}]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "_PAUSE", 0.02)


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def sqlite(path: Path, rows: pa.Table = ROWS) -> None:
    execute(path, "CREATE TABLE IF NOT EXISTS t (day INTEGER, name TEXT)")
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("INSERT INTO t VALUES (?, ?)", zip(*rows.to_pydict().values(), strict=True))


def in_parquet(path: Path) -> StaticTable:
    pq.write_table(ROWS, path / "t.parquet")
    return pk.table(path / "t.parquet")


def in_csv(path: Path) -> StaticTable:
    pacsv.write_csv(ROWS, path / "t.csv")
    return pk.table(pk.files(str(path / "t.csv"), schema={"day": "int64", "name": "string"}, null_values=[""]))


def in_delta(path: Path) -> StaticTable:
    deltalake.write_deltalake(str(path / "t"), ROWS)
    deltalake.DeltaTable(str(path / "t")).delete("day = 1")
    deltalake.write_deltalake(str(path / "t"), ROWS.slice(1, 1), mode="append")
    return pk.table(path / "t")


def in_sqlite(path: Path) -> StaticTable:
    sqlite(path / "t.sqlite")
    return pk.table(path / "t.sqlite", table="t")


def in_memory(path: Path) -> StaticTable:
    return pk.table(ROWS)


STORES: Sequence[Callable[[Path], StaticTable]] = (in_parquet, in_csv, in_delta, in_sqlite, in_memory)


@pytest.mark.parametrize("store", STORES)
def test_the_rows_of_any_store_come_in_order_and_end(tmp_path: Path, store: Callable[[Path], StaticTable]) -> None:
    net = pk.Network("n")
    net.source("t", store(tmp_path), on="day").output("rows")
    result = net.run(engine="local", train_rows=2)
    assert result["rows"].to_pylist() == IN_ORDER
    assert result.late("t").num_rows == 0


def test_an_attribute_that_decreases_is_an_order_too(tmp_path: Path) -> None:
    net = pk.Network("n")
    net.source("t", in_memory(tmp_path), on="day", progress=pk.ordered(descending=True)).output("rows")
    assert net.run(engine="local", train_rows=1)["rows"].to_pylist() == IN_ORDER[::-1]


def test_without_an_attribute_of_use_rows_have_the_time_of_their_arrival() -> None:
    net = pk.Network("n")
    net.source("t", pk.table(pa.table({"name": ["b", "a"]})), timestamps="internal").output("rows")
    assert net.run(engine="local")["rows"]["name"].to_pylist() == ["b", "a"]
    with pytest.raises(pk.QueryError, match="say on which attribute the input makes progress") as refusal:
        pk.Network("n").source("t", pk.table(pa.table({"name": ["b", "a"]})))
    assert "timestamps='internal'" in str(refusal.value)


def test_a_run_that_was_stopped_goes_on_with_what_the_table_had_been(tmp_path: Path) -> None:
    place, checkpoint = tmp_path / "t.sqlite", str(tmp_path / "run")
    sqlite(place)

    def network() -> pk.Network:
        net = pk.Network("n")
        net.source("t", pk.table(place, table="t"), on="day").output("rows")
        return net

    def stopping(record: Record) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network().run(engine="local", train_rows=1, checkpoint=checkpoint, on_batch=stopping)
    execute(place, "DELETE FROM t", "INSERT INTO t VALUES (9, 'z')")
    result = network().run(engine="local", train_rows=1, checkpoint=checkpoint)
    assert result["rows"].to_pylist() == IN_ORDER


def test_an_empty_table_ends_at_once() -> None:
    net = pk.Network("n")
    net.source("t", pk.table(ROWS.slice(0, 0)), on="day").output("rows")
    assert net.run(engine="local")["rows"].num_rows == 0


def test_any_cut_into_trains_gives_the_same(drain: Callable[..., Drained], any_limit: Callable[[], Limit]) -> None:
    rows = pa.table({"x": pa.array([at * 7 % 5000 for at in range(5000)]), "s": [f"s{at % 9}" for at in range(5000)]})
    connector = PushedTable(pk.table(rows)).in_order_of("x", descending=False)
    whole = drain(connector)
    assert [row["x"] for row in whole.tuples] == sorted(rows["x"].to_pylist())
    assert drain(connector, limit=any_limit).tuples == whole.tuples
    assert drain(connector, columns=["s"]).tuples == [{"s": row["s"]} for row in whole.tuples]


class Followed:
    """A followed table, read as a run reads it; `again` opens it anew, as after a crash."""

    def __init__(self, table: StaticTable, folder: Path) -> None:
        self.connector, self.folder = PushedTable(table), folder
        self.again()
        self.position = self.feed.start()

    def again(self) -> None:
        journal = FileJournal(f"{self.folder}/journal.jsonl")
        self.feed: TableFeed = self.connector.open(self.connector.schema(), journal)

    def news(self) -> list[Any]:
        end = self.feed.advance(self.position, Limit()).position
        found = self.rows(self.position, end)
        assert self.rows(self.position, end) == found
        self.position = end
        return found

    def rows(self, start: Any, end: Any) -> list[Any]:
        schema, names = self.connector.schema(), ["day", "name"]
        chunks = [c for split in self.feed.splits(start, end) for c in self.connector.read(split, schema, names)]
        return [tuple(row.values()) for chunk in chunks for row in chunk.tuples.to_pylist()]


def test_a_followed_table_sends_what_is_added(tmp_path: Path) -> None:
    place = tmp_path / "t.sqlite"
    sqlite(place)
    table = Followed(pk.table(place, table="t", follow=True), tmp_path / "input")
    assert not table.connector.bounded
    assert table.news() == [(3, "c"), (1, "a"), (2, None)]
    assert table.news() == []
    first = table.position
    execute(place, "INSERT INTO t VALUES (1, 'a'), (0, 'new')")
    assert table.news() == [(1, "a"), (0, "new")]
    table.again()
    assert table.rows(first, table.position) == [(1, "a"), (0, "new")]
    assert table.news() == []
    execute(place, "INSERT INTO t VALUES (5, 'e')")
    assert table.news() == [(5, "e")]


def test_a_file_that_is_replaced_sends_its_new_rows(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "t.parquet")
    table = Followed(pk.table(tmp_path / "t.parquet", follow=True), tmp_path / "input")
    table.news()
    pq.write_table(pa.concat_tables([ROWS, ROWS.slice(0, 1)]), tmp_path / "t.parquet")
    assert table.news() == [(3, "c")]


def test_rows_that_leave_end_the_run_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    place = tmp_path / "t.sqlite"
    sqlite(place)
    strict = Followed(pk.table(place, table="t", follow=True), tmp_path / "strict")
    lenient = Followed(pk.table(place, table="t", follow=True, changes="append"), tmp_path / "lenient")
    strict.news(), lenient.news()
    execute(place, "UPDATE t SET name = 'other' WHERE day = 1", "DELETE FROM t WHERE day = 2")
    with pytest.raises(pk.WorldError, match=r"2 rows of table t .* left, or became other rows") as error:
        strict.news()
    assert "2 gone, 1 new" in str(error.value)
    assert lenient.news() == [(1, "other")]
    execute(place, "DELETE FROM t WHERE day = 3")
    assert lenient.news() == []


def test_what_no_batch_can_ask_for_is_deleted(tmp_path: Path) -> None:
    place = tmp_path / "t.sqlite"
    sqlite(place)
    table = Followed(pk.table(place, table="t", follow=True), tmp_path / "input")
    for at in range(2 * KEPT_VERSIONS):
        table.news()
        execute(place, f"INSERT INTO t VALUES ({at}, 'x')")
    kept = sorted(path.name for path in (tmp_path / "input").iterdir())
    assert sum(name.startswith("content-") for name in kept) == 1
    assert sum(name.startswith("rows-") for name in kept) == KEPT_VERSIONS


def test_a_table_is_not_looked_at_before_its_time(tmp_path: Path) -> None:
    place = tmp_path / "t.sqlite"
    sqlite(place)
    table = Followed(pk.table(place, table="t", follow=True, refresh="1 hour"), tmp_path / "input")
    table.news(), table.news()
    execute(place, "INSERT INTO t VALUES (5, 'e')")
    assert table.news() == []


def test_a_damaged_copy_is_told(tmp_path: Path) -> None:
    table = Followed(pk.table(ROWS), tmp_path / "input")
    (tmp_path / "input" / "rows-0.arrow").write_bytes(b"ARROW1")
    with pytest.raises(pk.WorldError, match=r"rows-0.arrow is damaged"):
        table.news()


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pk.QueryError, match="a table in memory does not change, so there is nothing to follow"):
        pk.table(ROWS, follow=True)
    table: Any = pk.table
    with pytest.raises(pk.QueryError, match="unknown changes='skip'"):
        table(tmp_path / "t.parquet", follow=True, changes="skip")
    with pytest.raises(pk.QueryError, match="goes with a table that is followed"):
        pk.table(tmp_path / "t.parquet", changes="append")
    pq.write_table(ROWS, tmp_path / "t.parquet")
    net = pk.Network("n")
    calls = net.source("calls", pk.memory([(1,)], schema={"ts": "int64"}))
    with pytest.raises(pk.QueryError, match="follow= is for a table that is an input"):
        calls.join(pk.table(tmp_path / "t.parquet", follow=True), "l.ts = r.day")
    net.source("t", pk.table(tmp_path / "t.parquet", follow=True), on="day").output("rows")
    with pytest.raises(pk.QueryError, match="the input 't' never ends"):
        net.run(engine="local")
