from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files

Drain = Callable[..., Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def rows(count: int) -> list[dict[str, Any]]:
    return [{"ts": at, "k": f"k{at % 7}"} for at in range(count)]


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("split_bytes", [1, 11, 100, 1 << 20])
def test_any_cut_gives_the_same_rows(
    data: Path, drain: Drain, any_limit: Callable[[], Limit], split_bytes: int
) -> None:
    (data / "a.jsonl").write_text(lines(rows(200)).rstrip("\n"))
    got = drain(files(str(data), split_bytes=split_bytes), schema=SCHEMA, limit=any_limit)
    assert got.tuples == rows(200)
    assert got.rejects == []


def test_compressed_files_give_their_rows(data: Path, drain: Drain) -> None:
    (data / "a.ndjson.gz").write_bytes(gzip.compress(lines(rows(500)).encode()))
    assert drain(files(str(data)), schema=SCHEMA).tuples == rows(500)


BROKEN = """{"ts": 1, "k": "a", "extra": [1, {"x": 2}]}

{"ts": 2}
{"ts": 3, "k": "c"
{"ts": "4", "k": "d"}
{"ts": 5.5, "k": "e"}
{"ts": 6, "k": 6}
[7]
{"ts": 99999999999999999999, "k": "h"}
{"ts": 9, "k": null} {"ts": 9}
hello
{"ts": 10, "k": "j", "ts": 11}
  {"k": "l"}
"""


@pytest.mark.parametrize("split_bytes", [1, 20, 50, 1 << 20])
@pytest.mark.parametrize("columns", [["ts", "k"], ["k"]])
def test_broken_lines_are_refused_one_by_one(data: Path, drain: Drain, split_bytes: int, columns: list[str]) -> None:
    (data / "a.jsonl").write_text(BROKEN)
    got = drain(files(str(data), split_bytes=split_bytes), schema=SCHEMA, columns=columns)
    expected = [{"ts": 1, "k": "a"}, {"ts": 2, "k": None}, {"ts": None, "k": "l"}]
    assert got.tuples == [{name: row[name] for name in columns} for row in expected]
    broken = BROKEN.splitlines()
    assert [(at, record) for at, record, _ in got.told()] == [(at, broken[at - 1]) for at in range(4, 13)]
    assert [reason for _, _, reason in got.told()][:8] == [
        "is no JSON",
        "column 'ts': a text (4) is no int64",
        "column 'ts': a number (5.5) is no int64",
        "column 'k': a number (6) is no string",
        "is an array, expected an object: one object to a line is expected, as `jq -c '.[]'` writes them",
        "column 'ts': a number (99999999999999999999) is no int64",
        "is no JSON",
        "is no JSON",
    ]


def test_two_records_on_a_line_do_not_make_up_for_one_on_two_lines(data: Path, drain: Drain) -> None:
    (data / "a.jsonl").write_text('{"ts": 1} {"ts": 2}\n{\n"ts": 3}\n{"ts": 4}\n')
    got = drain(files(str(data), schema=SCHEMA))
    assert got.tuples == [{"ts": 4, "k": None}]
    assert [(at, reason) for at, _, reason in got.told()] == [(at, "is no JSON") for at in (1, 2, 3)]


def test_times_are_read_with_and_without_zones(data: Path, drain: Drain) -> None:
    texts = ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "2026-01-02T05:04:05+02:00", "never", None, 5]
    (data / "a.jsonl").write_text(lines([{"ts": text, "d": "2026-01-02"} for text in texts]))
    schema = pa.schema([("ts", pa.timestamp("us")), ("d", pa.date32())])
    got = drain(files(str(data), schema=schema))
    assert [row["ts"] for row in got.tuples] == [dt.datetime(2026, 1, 2, 3, 4, 5)] * 3 + [None]
    assert {row["d"] for row in got.tuples} == {dt.date(2026, 1, 2)}
    assert [at for at, _, _ in got.told()] == [4, 6]
    assert got.told()[0][2] == "column 'ts': 'never' is no timestamp[us]"


def test_odd_names_nested_values_and_blank_lines_are_read(data: Path, drain: Drain) -> None:
    schema = pa.schema([("a/b", pa.int64()), ("it's", pa.list_(pa.int32())), ("~x", pa.bool_())])
    text = '\ufeff\n{"a/b": 1, "it\'s": [1, 2], "~x": true}\n\n{"a/b": "x"}\n{"~x": 5}\n{"it\'s": 7}\n'
    (data / "a.json").write_bytes(text.encode())
    got = drain(files(str(data), schema=schema))
    assert got.tuples == [{"a/b": 1, "it's": [1, 2], "~x": True}]
    assert [at for at, _, _ in got.told()] == [4, 5, 6]


def test_text_that_is_no_utf8_is_refused(data: Path, drain: Drain) -> None:
    (data / "a.jsonl").write_bytes(b'{"ts": 1, "k": "a"}\n{"ts": 2, "k": "\xff"}\n{"ts": 3}\n')
    got = drain(files(str(data), schema=SCHEMA))
    assert [row["ts"] for row in got.tuples] == [1, 3]
    assert [at for at, _, _ in got.told()] == [2]


def test_a_file_full_of_broken_lines_is_read_in_good_time(data: Path, drain: Drain) -> None:
    text = "".join(f'{{"ts": {at}}}\n' if at % 2 else f'{{"ts": "{at}"}}\n' for at in range(100_000))
    (data / "a.jsonl").write_text(text)
    got = drain(files(str(data), schema=SCHEMA), columns=["ts"])
    assert [row["ts"] for row in got.tuples] == list(range(1, 100_000, 2))
    assert len(got.rejects) == 50_000


def test_types_are_guessed_from_the_first_lines(data: Path) -> None:
    (data / "a.jsonl").write_text('{"ts": 1, "at": "2026-01-01 00:00:00", "k": "a"}\n')
    assert files(str(data)).schema() == pa.schema([("ts", pa.int64()), ("at", pa.timestamp("us")), ("k", pa.string())])
