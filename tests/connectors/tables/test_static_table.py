"""Static tables: what they show and hold, how they tell that they have changed, and what is refused."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.tables import file_store
from penstock.connectors.tables.static_table import StaticTable

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None], "x": [0.5, None, 2.5]})


def content(table: StaticTable, *columns: str) -> dict[str, list[Any]]:
    """What a table holds, as it comes out of the copy that a process on another machine has."""
    shipped = pickle.loads(pickle.dumps(table))
    schema = table.schema()
    rows = shipped.read(pa.schema([schema.field(c) for c in columns]) if columns else schema)
    return dict(rows.to_pydict())


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "_PAUSE", 0.02)


def write(path: Path, rows: pa.Table = ROWS) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    elif path.suffix == ".csv":
        pacsv.write_csv(rows, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows)
    else:
        path.write_text("".join(f"{line}\n" for line in map(_json, rows.to_pylist())))


def _json(row: dict[str, Any]) -> str:
    return str(row).replace("'", '"').replace("None", "null")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow"])
def test_a_file_is_a_table(data: Path, suffix: str) -> None:
    write(data / f"t.{suffix}")
    table = pk.table(data / f"t.{suffix}")
    assert table.schema() == ROWS.schema.remove_metadata()
    assert content(table) == ROWS.to_pydict()
    assert content(table, "x", "k") == {"x": [0.5, None, 2.5], "k": [1, 2, 3]}
    assert table.describe() == str(data / f"t.{suffix}")


def test_a_folder_and_a_glob_are_one_table_in_order_of_paths(data: Path) -> None:
    write(data / "b.parquet", ROWS.slice(0, 1))
    write(data / "a.parquet", ROWS.slice(1))
    assert content(pk.table(str(data)), "k") == {"k": [2, 3, 1]}
    assert content(pk.table(f"{data}/b*.parquet"), "k") == {"k": [1]}


def test_files_give_all_their_options_to_a_table(data: Path) -> None:
    (data / "t.txt").write_text("1;a\n2;-\n")
    files = pk.files(
        str(data), "csv", schema={"k": "int32", "name": "string"}, delimiter=";", header=False, null_values=["-"]
    )
    assert content(pk.table(files)) == {"k": [1, 2], "name": ["a", None]}
    assert content(pk.table(files, columns=["name"])) == {"name": ["a", None]}


def test_a_delta_table_is_read_at_its_newest_version(data: Path) -> None:
    path = str(data / "delta")
    deltalake.write_deltalake(path, ROWS)
    table = pk.table(path)
    before = table.stamp()
    assert content(table) == ROWS.to_pydict()
    assert content(table, "name") == {"name": ["a", "b", None]}
    assert table.stamp() == before
    deltalake.write_deltalake(path, ROWS.slice(0, 1), mode="append")
    assert table.stamp() != before
    assert sorted(content(table, "k")["k"]) == [1, 1, 2, 3]
    assert table.describe() == f"{path} (Delta)"


def test_an_arrow_table_in_memory_is_a_table() -> None:
    table = pk.table(ROWS, columns=["name", "k"])
    assert table.schema().names == ["name", "k"]
    assert content(table, "k") == {"k": [1, 2, 3]}
    assert table.stamp() == table.stamp()


# --- SQLite ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(data: Path) -> Path:
    path = data / "shop #1.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, label VARCHAR(20), price DECIMAL(8, 2), weight REAL,
                               sold BOOLEAN, picture BLOB, day DATE, absent DATE);
            INSERT INTO item VALUES (1, 'cup', 3, 0.5, 1, x'00ff', '2026-01-02', NULL),
                                    (2, NULL, 4.5, NULL, 0, NULL, NULL, NULL);
            """
        )
        connection.commit()
    return path


def test_an_sqlite_table_has_the_types_that_it_was_declared_with(database: Path) -> None:
    table = pk.table(database, table="item")
    kinds = {f.name: str(f.type) for f in table.schema()}
    assert kinds == {
        "id": "int64",
        "label": "string",
        "price": "double",
        "weight": "double",
        "sold": "bool",
        "picture": "binary",
        "day": "string",
        "absent": "string",
    }
    assert content(table, "price", "sold", "day") == {
        "price": [3.0, 4.5],
        "sold": [True, False],
        "day": ["2026-01-02", None],
    }
    assert content(table, "picture", "label") == {"picture": [b"\x00\xff", None], "label": ["cup", None]}
    assert table.describe() == f"table item of {database} (SQLite)"


def test_an_sqlite_query_has_the_types_of_its_values(database: Path) -> None:
    query = "SELECT id, price * 2 AS twice, id + 1 AS next, upper(label) AS loud, count(*) AS n FROM item GROUP BY id;"
    table = pk.table(database, query=query)
    assert [str(f.type) for f in table.schema()] == ["int64", "double", "int64", "string", "int64"]
    assert content(table, "twice", "loud") == {"twice": [6.0, 9.0], "loud": ["CUP", None]}


def test_an_sqlite_file_tells_that_it_has_changed_through_its_log_too(database: Path) -> None:
    table = pk.table(database, table="item")
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        before = table.stamp()
        writer.execute("UPDATE item SET label = 'mug' WHERE id = 1")
        writer.commit()
        assert table.stamp() != before
        assert content(table, "label") == {"label": ["mug", None]}
        writer.execute("BEGIN")
        writer.execute("DELETE FROM item")
        assert content(table, "label") == {"label": ["mug", None]}, "what is not committed is not seen"


def test_an_sqlite_query_can_change_nothing(database: Path) -> None:
    with pytest.raises(pk.WorldError, match="syntax error"):
        pk.table(database, query="DELETE FROM item RETURNING id").schema()
    with pytest.raises(pk.WorldError, match="one statement at a time"):
        pk.table(database, query="SELECT 1; DROP TABLE item").schema()


# --- change ----------------------------------------------------------------------------------------------------------


def test_files_tell_that_they_have_changed(data: Path) -> None:
    write(data / "a.parquet")
    table = pk.table(str(data))
    stamps = [table.stamp()]
    write(data / "a.parquet", ROWS.slice(1))
    stamps.append(table.stamp())
    write(data / "b.parquet")
    stamps.append(table.stamp())
    os.unlink(data / "b.parquet")
    stamps.append(table.stamp())
    os.utime(data / "a.parquet", ns=(0, 10**18))
    stamps.append(table.stamp())
    texts = [stamp.text for stamp in stamps if stamp is not None]
    assert len(set(texts)) == 4
    assert texts[1] == texts[3]


def test_a_stamp_is_settled_when_no_change_can_hide_behind_it_any_more(data: Path) -> None:
    write(data / "a.parquet")
    fresh, old = pk.table(str(data)), time.time_ns() - file_store.SETTLED_NS - 1
    assert not _settled(fresh)
    os.utime(data / "a.parquet", ns=(old, old))
    assert _settled(fresh)


def _settled(table: StaticTable) -> bool:
    stamp = table.stamp()
    assert stamp is not None
    return stamp.settled


def test_a_file_that_is_being_written_is_given_a_moment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(data / "a.parquet")
    table, schema = pk.table(str(data)), pk.table(str(data)).schema()
    whole = (data / "a.parquet").read_bytes()
    (data / "a.parquet").write_bytes(whole[: len(whole) // 2])
    monkeypatch.setattr(file_store, "_PAUSE", 0.2)
    finishing = threading.Timer(0.1, lambda: (data / "a.parquet").write_bytes(whole))
    finishing.start()
    assert table.read(schema).num_rows == 3
    finishing.join()


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_table_that_no_longer_fits_is_told(data: Path) -> None:
    write(data / "a.parquet")
    table = pk.table(str(data / "a.parquet"))
    schema = table.schema()
    write(data / "a.parquet", ROWS.drop_columns(["x"]))
    with pytest.raises(pk.WorldError) as told:
        table.read(schema)
    assert str(told.value) == (
        f"the table {data}/a.parquet does not fit what the network was built with\n"
        "  expected: k int64, name string, x double\n"
        f"  found: {data}/a.parquet has no column 'x': expected double, the file has k, name\n"
        "  to do: bring the table back to this shape and resume, or build the network anew, with a new checkpoint"
    )
    write(data / "a.parquet", ROWS.set_column(0, "k", pa.array(["one", "two", "three"])))
    with pytest.raises(pk.WorldError, match="row 1: column 'k': 'one' is no int64"):
        table.read(schema)
    write(data / "a.parquet", ROWS.append_column("more", pa.array([1, 2, 3])))
    assert table.read(schema).column_names == ["k", "name", "x"]


def test_databases_that_no_longer_fit_are_told(data: Path, database: Path) -> None:
    path = str(data / "delta")
    deltalake.write_deltalake(path, ROWS)
    table = pk.table(path)
    schema = table.schema()
    deltalake.write_deltalake(path, ROWS.select(["k"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(pk.WorldError, match="found: no column 'name', only k"):
        table.read(schema)
    deltalake.write_deltalake(
        path, ROWS.set_column(0, "k", ROWS["k"].cast("string")), mode="overwrite", schema_mode="overwrite"
    )
    with pytest.raises(pk.WorldError, match="found: column 'k' is string, not int64"):
        table.read(schema)
    items = pk.table(database, table="item")
    schema = items.schema()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE item SET weight = 'heavy' WHERE id = 2")
        connection.commit()
        with pytest.raises(pk.WorldError, match=r"found: column 'weight': .*heavy"):
            items.read(schema)
        connection.execute("ALTER TABLE item DROP COLUMN weight")
        connection.commit()
        with pytest.raises(pk.WorldError, match="found: no column 'weight', only id, label"):
            items.read(schema)


def test_what_is_missing_or_unreadable_is_told(data: Path, database: Path) -> None:
    def schema_of(*arguments: Any, **options: Any) -> None:
        pk.table(*arguments, **options).schema()

    with pytest.raises(pk.WorldError, match=rf"there is no table at {data}/t.parquet\n  found: no file; looked in"):
        schema_of(data / "t.parquet")
    with pytest.raises(pk.WorldError, match=r"there is no table at .*\(Delta\)"):
        schema_of(data / "gone", "delta")
    with pytest.raises(pk.WorldError, match=r"there is no table at table t of .*gone.db \(SQLite\)\n  found: no file"):
        schema_of(data / "gone.db", table="t")
    (data / "t.parquet").write_bytes(b"nonsense")
    with pytest.raises(pk.WorldError, match=r"cannot read the table .*t.parquet\n  found: .* is no Parquet file"):
        schema_of(data / "t.parquet")
    (data / "t.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(pk.WorldError, match=r"cannot read the table .*\n  found: file is not a database"):
        schema_of(data / "t.db", table="t")
    with pytest.raises(pk.WorldError, match=r"cannot read the table table nix of .*\n  found: no such table: "):
        schema_of(database, table="nix")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE odd (v)")
        connection.execute("INSERT INTO odd VALUES (1), ('x')")
        connection.commit()
    with pytest.raises(pk.WorldError, match=r"column 'v' has values of the types integer, text\n  to do: decide"):
        schema_of(database, table="odd")
    with pytest.raises(pk.QueryError, match=r"has no column 'y'\n  expected: some of k, name, x\n"):
        schema_of(ROWS, columns=["k", "y"])


def test_a_table_that_vanishes_is_told(data: Path) -> None:
    write(data / "a.parquet")
    table = pk.table(str(data))
    schema = table.schema()
    os.unlink(data / "a.parquet")
    with pytest.raises(pk.WorldError, match="goes on from its checkpoint when the table is back"):
        table.read(schema)


@pytest.mark.parametrize(
    ("place", "options", "text"),
    [
        (7, {}, "a table needs a place"),
        ("t.parquet", {"format": "xml"}, "unknown format 'xml'"),
        ("t.parquet", {"columns": []}, "columns= names the columns to be seen"),
        ("t.parquet", {"columns": "k"}, "columns= names the columns to be seen"),
        ("t.parquet", {"table": "t"}, "table= and query= name a part of a database"),
        ("t.parquet", {"refresh": "soon"}, "cannot read the duration 'soon'"),
        ("t.parquet", {"refresh": 5}, "refresh= is a duration"),
        ("t.db", {}, "say what to take from the database"),
        ("t.db", {"table": "t", "query": "SELECT 1"}, "found: both"),
        ("t.db", {"format": "postgresql", "table": "t"}, "'t.db' is no URI of PostgreSQL"),
        (ROWS, {"refresh": "1 s"}, "a table in memory does not change"),
        (ROWS, {"format": "csv"}, "format= goes with a path"),
        (ROWS, {"query": "SELECT 1"}, "table= and query= name a part of a database"),
    ],
)
def test_a_wrong_declaration_is_refused(place: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        pk.table(place, **options)
    assert text in str(refused.value)


def test_a_folder_that_is_followed_is_no_static_table(data: Path) -> None:
    with pytest.raises(pk.QueryError, match="cannot follow a folder"):
        pk.table(pk.files(str(data), schema={"k": "int64"}, follow=True))
