"""Files that change after they were taken: an error that says so, or a report; never silence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.files.known_files import END_BYTES
from penstock.connectors.journal import MemoryJournal
from penstock.errors import QueryError, WorldError

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
EVERYTHING = Limit()
LONG_AGO = (1_700_000_000_000_000_000, 1_700_000_000_000_000_000)


def taken(connector: Any, journal: Any = None) -> tuple[Any, Any]:
    """A feed that has taken everything, and its position."""
    feed = connector.open(SCHEMA, MemoryJournal() if journal is None else journal)
    return feed, feed.advance(feed.start(), EVERYTHING).position


def read(connector: Any, feed: Any, start: Any, end: Any) -> tuple[list[Any], list[Any]]:
    chunks = [c for split in feed.splits(start, end) for c in connector.read(split, SCHEMA, SCHEMA.names)]
    rejects = [row for c in chunks if c.rejects is not None for row in c.rejects.to_pylist()]
    return [row["ts"] for chunk in chunks for row in chunk.tuples.to_pylist()], rejects


def text(name: str, rows: range) -> str:
    if name.endswith("csv"):
        return "ts,k\n" + "".join(f"{at},k\n" for at in rows)
    return "".join(json.dumps({"ts": at, "k": "k"}) + "\n" for at in rows)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_rewritten_in_equal_size_is_an_error_when_it_is_read(data: Path, name: str, settled: bool) -> None:
    path = data / name
    path.write_text(text(name, range(100, 200)))
    if settled:
        os.utime(path, ns=LONG_AGO)
    connector = files(str(data), schema=SCHEMA)
    feed, end = taken(connector)
    assert read(connector, feed, feed.start(), end)[0] == list(range(100, 200))
    path.write_text(text(name, range(200, 300)))
    with pytest.raises(WorldError, match=f"the file {path} has changed since it was taken") as failure:
        read(connector, feed, feed.start(), end)
    assert "put the file back as it was and restart" in str(failure.value)
    path.write_text(text(name, range(100, 200)))
    assert read(connector, feed, feed.start(), end)[0] == list(range(100, 200))


def test_a_large_file_of_another_time_is_refused_and_its_time_is_told(data: Path) -> None:
    """What lies between its ends is not compared, so it must not be taken for the same."""
    path = data / "a.csv"
    content = text("a.csv", range(100_000, 100_000 + END_BYTES // 2))
    path.write_text(content)
    os.utime(path, ns=LONG_AGO)
    connector = files(str(path), schema=SCHEMA)
    feed, end = taken(connector)
    middle = len(content) // 2
    path.write_text(content[:middle] + "\n" + content[middle + 1 :])
    with pytest.raises(WorldError, match="has changed") as failure:
        read(connector, feed, feed.start(), end)
    assert "touch -d @1700000000.000000000" in str(failure.value)
    path.write_text(content)
    os.utime(path, ns=LONG_AGO)
    assert len(read(connector, feed, feed.start(), end)[0]) == END_BYTES // 2


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(lambda p: p.write_text(text("a.csv", range(200, 300))), "other content", id="rewritten"),
        pytest.param(lambda p: p.write_text(text("a.csv", range(100, 110))), "65 bytes", id="truncated"),
        pytest.param(lambda p: p.write_text(text("a.csv", range(200, 400))), "other content", id="replaced by more"),
    ],
)
def test_a_followed_file_that_was_taken_and_changes_ends_the_run(
    data: Path, change: Callable[[Path], Any], found: str
) -> None:
    path = data / "a.csv"
    path.write_text(text("a.csv", range(100, 200)))
    connector, journal = files(str(data), schema=SCHEMA, follow=True), MemoryJournal()
    feed, end = taken(connector, journal)
    assert feed.advance(end, EVERYTHING).position == end
    change(path)
    with pytest.raises(WorldError, match=f"the file {path} has changed since it was taken") as failure:
        feed.advance(end, EVERYTHING)
    assert found in str(failure.value)
    with pytest.raises(WorldError, match="has changed"):
        connector.open(SCHEMA, journal).advance(end, EVERYTHING)
    path.unlink()  # it has been read, so it may go
    assert feed.advance(end, EVERYTHING).position == end


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz"])
def test_a_followed_file_that_is_no_text_of_lines_must_not_grow(data: Path, name: str) -> None:
    pq.write_table(pa.table({"ts": [1], "k": ["a"]}), data / "a.parquet")
    path = data / name
    if name != "a.parquet":
        (data / "a.parquet").rename(path)
    connector = files(str(data), schema=SCHEMA, follow=True)
    feed, end = taken(connector)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(WorldError, match="has changed since it was taken"):
        feed.advance(end, EVERYTHING)


def test_lines_added_to_a_followed_file_are_reported_and_counted(data: Path) -> None:
    path = data / "a.csv"
    path.write_text(text("a.csv", range(3)))
    connector, journal = files(str(data), schema=SCHEMA, follow=True), MemoryJournal()
    feed, first = taken(connector, journal)
    with path.open("a") as file:
        file.write("4,k\n5,k\n")
    second = feed.advance(first, EVERYTHING).position
    rows, told = read(connector, feed, first, second)
    assert rows == []
    assert [(one["origin"], one["position"], one["rows"]) for one in told] == [(str(path), None, None)]
    assert told[0]["reason"] == (
        "has grown by 8 bytes since it was taken, and they are not read: write new data to new files, or give grow=True"
    )
    # Once, and again when it has doubled: who writes all the time is not told of at every look.
    with path.open("a") as file:
        file.write("6,k\n")
    assert feed.advance(second, EVERYTHING).position == second
    again = connector.open(SCHEMA, journal)
    assert again.splits(first, second) == feed.splits(first, second)
    assert again.advance(second, EVERYTHING).position == second
    with path.open("a") as file:
        file.write("7,k\n")
    third = feed.advance(second, EVERYTHING).position
    assert "has grown by 16 bytes" in read(connector, feed, second, third)[1][0]["reason"]
    # What was taken is read as it was.
    assert read(connector, feed, feed.start(), first)[0] == [0, 1, 2]


def test_lines_added_may_be_declared_an_error(data: Path) -> None:
    path = data / "a.csv"
    path.write_text(text("a.csv", range(3)))
    feed, end = taken(files(str(data), schema=SCHEMA, follow=True, grow="error"))
    with path.open("a") as file:
        file.write("4,k\n")
    with pytest.raises(WorldError, match="has grown since it was taken") as failure:
        feed.advance(end, EVERYTHING)
    assert "found: 4 bytes more" in str(failure.value)
    assert "grow=True reads on" in str(failure.value)


def test_a_file_that_grows_during_a_bounded_run_is_reported(data: Path) -> None:
    path = data / "a.csv"
    path.write_text(text("a.csv", range(10)))

    def append(_: object) -> None:
        if path.stat().st_size < 100:
            with path.open("a") as file:
                file.write("99,k\n")

    net = pk.Network("grown")
    net.source("s", pk.files(str(data)), schema=SCHEMA).output("all")
    result = net.run(engine="local", train_rows=4, on_batch=append)
    assert result["all"]["ts"].to_pylist() == list(range(10))
    (told,) = result.errors("s").to_pylist()
    assert "bytes since it was taken, and they are not read" in told["reason"]
    assert result.record().inputs["s"].refused == 1


def test_a_file_deleted_before_it_was_read_is_an_error(data: Path) -> None:
    path = data / "a.csv"
    path.write_text(text("a.csv", range(10)))
    connector = files(str(data), schema=SCHEMA, follow=True)
    feed, end = taken(connector)
    path.unlink()
    with pytest.raises(WorldError, match=r"a\.csv is gone") as failure:
        read(connector, feed, feed.start(), end)
    assert "put it back and restart" in str(failure.value)


def test_a_journal_of_an_older_version_is_read(data: Path) -> None:
    """It knows files by path and size alone."""
    path = data / "a.csv"
    path.write_text(text("a.csv", range(3)))
    size = path.stat().st_size
    entry = {"path": str(path), "size": size, "lane": "0", "format": "csv", "cuts": [[0, size, 1, size]]}
    connector = files(str(data), schema=SCHEMA, follow=True)
    feed, end = taken(connector, MemoryJournal([{"files": [entry]}]))
    assert end == {"seq": 1, "file": 1, "at": 0}
    assert read(connector, feed, {"seq": 0, "file": 0, "at": 0}, end)[0] == [0, 1, 2]
    path.write_text("ts,k\n")
    with pytest.raises(WorldError, match="has changed"):
        feed.advance(end, EVERYTHING)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda: files("x", grow=True), "grow=True reads on in files that grow, so the input never ends"),
        (lambda: files("x", follow=True, grow="maybe"), "unknown grow 'maybe'"),
        (lambda: files("x", "parquet", follow=True, grow=True), "only files of lines can be read on"),
        (lambda: files("x", follow=True, grow=True, multiline=True), "only files of lines can be read on"),
    ],
)
def test_what_cannot_grow_is_refused(call: Callable[[], object], refusal: str) -> None:
    with pytest.raises(QueryError, match=refusal):
        call()
