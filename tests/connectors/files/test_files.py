from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.journal import FileJournal, MemoryJournal
from penstock.errors import QueryError, WorldError

Drain = Callable[..., Any]
EVERYTHING = Limit(2**62, 2**62)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"ts": at, "k": f"k{at % 7}"} for at in range(start, stop)]


def write(path: Path, records: list[dict[str, Any]], schema: pa.Schema = SCHEMA, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(records, schema=schema)
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, schema) as writer:
            writer.write_table(table, **options)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, compression="zstd", **options)
    else:
        with pa.ipc.new_file(path, schema) as writer:
            writer.write_table(table, **options)
    return path


@pytest.mark.parametrize(
    ("name", "options", "splits"),
    [
        ("a.parquet", {"row_group_size": 100}, 10),
        ("a.parquet", {"row_group_size": 100, "compression": "zstd", "use_dictionary": False}, 10),
        ("a.arrow", {"max_chunksize": 100}, 10),
        ("a.feather", {"chunksize": 100}, 10),
        ("a.arrows", {"max_chunksize": 100}, 1),
    ],
)
def test_a_columnar_file_is_cut_and_gives_its_rows(
    data: Path, drain: Drain, any_limit: Callable[[], Limit], name: str, options: dict[str, Any], splits: int
) -> None:
    write(data / name, rows(0, 1_000), **options)
    whole = drain(files(str(data / name)))
    cut = drain(files(str(data / name), split_rows=150))
    assert whole.tuples == cut.tuples == rows(0, 1_000)
    assert drain(files(str(data / name), split_rows=150), limit=any_limit).tuples == whole.tuples
    assert (whole.splits, cut.splits) == (1, splits)
    assert whole.rejects == cut.rejects == []
    assert drain(files(str(data / name)), columns=["k"]).tuples == [{"k": row["k"]} for row in rows(0, 1_000)]


def test_no_columns_still_have_rows(data: Path) -> None:
    connector = files(str(write(data / "a.parquet", rows(0, 10))))
    feed = connector.open(SCHEMA, MemoryJournal())
    (split,) = feed.splits(feed.start(), feed.advance(feed.start(), EVERYTHING).position)
    assert [chunk.tuples.num_rows for chunk in connector.read(split, SCHEMA, [])] == [10]


def test_a_folder_is_read_in_order_of_paths_without_hidden_and_temporary_files(data: Path, drain: Drain) -> None:
    write(data / "b.parquet", rows(10, 20))
    write(data / "a" / "z.parquet", rows(0, 10))
    write(data / "c.arrow", rows(20, 30))
    for name in ("_metadata", ".hidden.parquet", "x.parquet.tmp", "x.parquet.crc", "y._COPYING_", "z.inprogress"):
        (data / name).write_bytes(b"no data")
    write(data / "_temporary" / "d.parquet", rows(0, 5))
    got = drain(files(str(data)))
    assert got.tuples == rows(0, 30)
    assert got.rejects == []


def test_a_glob_a_list_and_a_uri_find_the_same_files(data: Path, drain: Drain) -> None:
    for at, folder in enumerate(["m1", "m2"]):
        write(data / folder / "a.parquet", rows(at * 10, at * 10 + 10))
        write(data / folder / "deep" / "other.parquet", rows(500, 501))
    expected = rows(0, 20)
    assert drain(files(f"{data}/*/a.parquet")).tuples == expected
    assert drain(files(f"{data}/m?/[ab].parquet")).tuples == expected
    assert drain(files([f"{data}/m2/a.parquet", f"{data}/m1/*.parquet"])).tuples == expected
    assert drain(files(f"file://{data}/m*/a.parquet")).tuples == expected
    assert len(drain(files(f"{data}/**/*.parquet")).tuples) == 22


def test_lanes_are_shards_that_take_turns(data: Path, drain: Drain) -> None:
    for at, folder in enumerate(["m1", "m2"]):
        write(data / folder / "a.parquet", rows(at * 100, at * 100 + 50), row_group_size=10)
    connector = files(str(data), lanes="folder", split_rows=10)
    assert connector.shards() == ("m1", "m2")
    feed = connector.open(SCHEMA, MemoryJournal())
    end = feed.advance(feed.start(), Limit(40, 2**60)).position
    assert [split.shard for split in feed.splits(feed.start(), end)] == ["m1", "m2", "m1", "m2"]
    got = drain(connector)
    assert got.by_shard == {"m1": rows(0, 50), "m2": rows(100, 150)}
    assert files(str(data), lanes="file").shards() == (str(data / "m1/a.parquet"), str(data / "m2/a.parquet"))


def test_a_restart_reads_what_the_journal_says(data: Path, tmp_path: Path) -> None:
    write(data / "a.parquet", rows(0, 100), row_group_size=10)
    journal = FileJournal(str(tmp_path / "run" / "journal"))
    connector = files(str(data), split_rows=10)
    feed = connector.open(SCHEMA, journal)
    middle = feed.advance(feed.start(), Limit(30, 2**60)).position
    last = feed.advance(middle, EVERYTHING)
    before = feed.splits(middle, last.position)
    write(data / "0.parquet", rows(900, 999))
    again = files(str(data), split_rows=50).open(SCHEMA, journal)
    assert again.advance(json.loads(json.dumps(middle)), EVERYTHING) == last
    assert again.splits(middle, last.position) == before
    assert last.ended


def test_a_folder_that_grows_is_followed(data: Path) -> None:
    connector, journal = files(str(data), schema=SCHEMA, follow=True), MemoryJournal()
    feed = connector.open(SCHEMA, journal)
    nothing = feed.advance(feed.start(), EVERYTHING)
    assert (nothing.position, nothing.ended) == (feed.start(), False)
    write(data / "b.parquet", rows(0, 10))
    one = feed.advance(nothing.position, EVERYTHING).position
    write(data / "c.parquet", rows(20, 30))
    write(data / "a.parquet", rows(10, 20))
    two = feed.advance(one, EVERYTHING)
    assert [os.path.basename(split.path) for split in feed.splits(feed.start(), two.position)] == [  # type: ignore[attr-defined]
        "b.parquet",
        "a.parquet",
        "c.parquet",
    ]
    assert not two.ended
    assert feed.advance(two.position, EVERYTHING).position == two.position
    assert connector.open(SCHEMA, journal).splits(one, two.position) == feed.splits(one, two.position)
    shutil.rmtree(data)
    with pytest.raises(WorldError, match=f"the folder {data} does not exist"):
        feed.advance(two.position, EVERYTHING)


def test_columns_are_found_by_name_and_cast_safely(data: Path, drain: Drain) -> None:
    odd = pa.schema([("extra", pa.int8()), ("k", pa.large_string()), ("ts", pa.int32())])
    write(data / "a.parquet", [{"extra": 1, "k": "x", "ts": 5}], odd)
    write(data / "b.arrow", [{"extra": 1, "k": "y", "ts": 6}], odd)
    got = drain(files(str(data), schema=SCHEMA))
    assert got.tuples == [{"ts": 5, "k": "x"}, {"ts": 6, "k": "y"}]


@pytest.mark.parametrize("columns", [["ts", "k"], ["k"]])
def test_values_that_do_not_fit_are_refused_row_by_row(data: Path, drain: Drain, columns: list[str]) -> None:
    wide = [{"ts": at if at % 10 else 2**40 + at, "k": "x"} for at in range(30)]
    for name in ("a.parquet", "b.arrow"):
        write(data / name, wide)
    narrow = pa.schema([("ts", pa.int32()), ("k", pa.string())])
    got = drain(files(str(data), schema=narrow), columns=columns)
    assert len(got.tuples) == 54
    assert got.told() == 2 * [(at + 1, None, f"column 'ts': {2**40 + at} is no int32") for at in (0, 10, 20)]


def test_a_file_that_cannot_fit_is_one_reject(data: Path, drain: Drain) -> None:
    write(data / "a.parquet", rows(0, 10))
    write(data / "b.parquet", [{"ts": 1}] * 30, pa.schema([("ts", pa.int64())]), row_group_size=10)
    write(data / "c.parquet", [{"ts": [1], "k": "x"}], pa.schema([("ts", pa.list_(pa.int64())), ("k", pa.string())]))
    write(data / "d.arrow", [{"k": "x"}] * 7, pa.schema([("k", pa.string())]))
    write(data / "e.parquet", rows(10, 20))
    got = drain(files(str(data), schema=SCHEMA, split_rows=10))
    assert got.tuples == rows(0, 20)
    assert [(os.path.basename(one["origin"]), one["position"], one["rows"], one["reason"]) for one in got.rejects] == [
        ("b.parquet", None, 30, "has no column 'k': expected string, the file has ts"),
        ("c.parquet", None, 1, "column 'ts' is list<element: int64>, which cannot become int64"),
        ("d.arrow", None, 7, "has no column 'ts': expected int64, the file has k"),
    ]


def test_a_file_that_is_not_what_its_name_says_is_one_reject(data: Path, drain: Drain) -> None:
    good = write(data / "a.parquet", rows(0, 10)).read_bytes()
    (data / "b.parquet").write_bytes(b"garbage" * 50)
    (data / "c.parquet").write_bytes(good[:-20])
    (data / "d.parquet").write_bytes(b"")
    (data / "e.arrow").write_bytes(b"")
    (data / "f.arrow").write_bytes(b"ARROW1\0\0garbage, no footer")
    (data / "g.txt").write_bytes(b"what is this")
    write(data / "h.parquet", rows(10, 20))
    got = drain(files(str(data)))
    assert got.tuples == rows(0, 20)
    told = [(os.path.basename(one["origin"]), one["rows"], one["reason"]) for one in got.rejects]
    assert [(name, count) for name, count, _ in told] == [(f"{c}.parquet", None) for c in "bcd"] + [
        ("e.arrow", None),
        ("f.arrow", None),
        ("g.txt", None),
    ]
    assert all("is no Parquet file" in reason for _, _, reason in told[:3])
    assert all("is no Arrow file" in reason for _, _, reason in told[3:5])
    assert told[5][2] == "its name does not tell its format: give format="


def test_a_damaged_row_group_takes_no_other_with_it(data: Path, drain: Drain) -> None:
    path = write(data / "a.parquet", rows(0, 3_000), row_group_size=1_000, compression="snappy", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    got = drain(files(str(data)))
    assert got.tuples == rows(0, 1_000) + rows(2_000, 3_000)
    assert [(one["position"], one["rows"]) for one in got.rejects] == [(None, 1_000)]
    assert got.rejects[0]["reason"].startswith("row group 1 cannot be decoded: ")


def test_files_without_rows_are_simply_empty(data: Path, drain: Drain) -> None:
    write(data / "a.parquet", [])
    write(data / "b.arrow", [])
    write(data / "c.arrows", [])
    (data / "d.csv").write_bytes(b"")
    (data / "e.jsonl").write_bytes(b"")
    (data / "f.csv").write_bytes(b"ts,k\n")
    got = drain(files(str(data), schema=SCHEMA))
    assert (got.tuples, got.rejects) == ([], [])


def test_a_file_that_vanished_or_changed_stops_the_run(data: Path) -> None:
    paths = [write(data / "a.parquet", rows(0, 10)), data / "b.csv"]
    paths[1].write_text("ts,k\n1,a\n2,b\n")
    connector = files(str(data))
    feed = connector.open(SCHEMA, MemoryJournal())
    splits = feed.splits(feed.start(), feed.advance(feed.start(), EVERYTHING).position)
    write(paths[0], rows(0, 2_000))
    with pytest.raises(WorldError, match="has changed since it was taken"):
        list(connector.read(splits[0], SCHEMA, ["ts"]))
    paths[1].write_text("ts,k\n1,a\n2,b\n3,c\n4,d\n")
    (chunk,) = connector.read(splits[1], SCHEMA, ["ts"])
    assert chunk.tuples.to_pylist() == [{"ts": 1}, {"ts": 2}]
    paths[1].write_text("ts,k\n")
    with pytest.raises(WorldError, match="has changed since it was taken"):
        list(connector.read(splits[1], SCHEMA, ["ts"]))
    for path, split in zip(paths, splits, strict=True):
        path.unlink()
        with pytest.raises(WorldError, match=f"{path.name} is gone") as gone:
            list(connector.read(split, SCHEMA, ["ts"]))
        assert "can be resumed" in str(gone.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_stops_the_run(data: Path) -> None:
    path = write(data / "a.parquet", rows(0, 10))
    path.chmod(0)
    with pytest.raises(WorldError, match="cannot be read"):
        files(str(data), schema=SCHEMA).open(SCHEMA, MemoryJournal())


def test_the_first_readable_file_shows_the_schema(data: Path) -> None:
    (data / "a.parquet").write_bytes(b"garbage")
    write(data / "b.parquet", rows(0, 1))
    assert files(str(data)).schema() == SCHEMA


def test_no_file_is_refused_when_built_and_when_opened(data: Path) -> None:
    with pytest.raises(QueryError, match="no file matches") as refused:
        files(f"{data}/*.parquet").schema()
    assert f"looked in {data}" in str(refused.value)
    assert "give schema= or check the path" in str(refused.value)
    with pytest.raises(WorldError, match="no file matches"):
        files(f"{data}/*.parquet", schema=SCHEMA).open(SCHEMA, MemoryJournal())
    with pytest.raises(WorldError, match="does not exist"):
        files(f"{data}/nowhere", schema=SCHEMA, follow=True).open(SCHEMA, MemoryJournal())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: files([]), "files needs a path"),
        (lambda: files("x", "xml"), "unknown format 'xml'"),
        (lambda: files("x", lanes="row"), "unknown lanes 'row'"),  # type: ignore[arg-type]
        (lambda: files("x", split_rows=0), "at least one row"),
        (lambda: files("x", delimiter=";;"), "a delimiter is one character"),
        (lambda: files("nope://x/y"), "cannot use the place"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(QueryError, match=text):
        call()


def test_a_name_that_tells_no_format_is_refused(data: Path) -> None:
    (data / "a.txt").write_text("1")
    with pytest.raises(QueryError, match="does not tell its format"):
        files(str(data / "a.txt"))


def test_a_journal_that_lacks_what_an_offset_speaks_of_is_told(data, tmp_path):
    pq.write_table(pa.table({"ts": [1, 2]}), data / "a.parquet")
    schema = pa.schema([("ts", pa.int64())])
    connector, journal = files(str(data), schema=schema), FileJournal(str(tmp_path / "run" / "journal"))
    feed = connector.open(schema, journal)
    end = feed.advance(feed.start(), Limit(100, 1 << 30)).position
    (tmp_path / "run" / "journal").unlink()
    again = connector.open(schema, journal)
    for ask in (lambda: again.advance(end, Limit(100, 1 << 30)), lambda: again.splits(again.start(), end)):
        with pytest.raises(WorldError, match=r"journal of the input .* does not reach as far as its offset"):
            ask()
