"""Whatever a text file holds and however it is cut: the same tuples, and every line is a tuple or a reject."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.journal import MemoryJournal

SCHEMA = pa.schema([("ts", pa.int64()), ("at", pa.timestamp("us")), ("k", pa.string())])
FIELD = st.sampled_from(
    ["1", "22", " 3 ", "x", "", "2026-01-01", "2026-01-01T00:00:00Z", '"q"', '"a,b"', '"open', 'in"side', "é", "1.5"]
)
CSV_LINE = st.one_of(st.lists(FIELD, min_size=2, max_size=4).map(",".join), st.just("1,2026-01-01,k"), st.just(""))
JSON_LINE = st.sampled_from(
    [
        '{"ts": 1, "at": "2026-01-01", "k": "a"}',
        '{"ts": 2, "at": "2026-01-01T00:00:00Z"}',
        '{"ts": "2"}',
        '{"ts": 1.5}',
        '{"at": "soon"}',
        '{"k": 1}',
        "{",
        '"ts": 1}',
        "[1]",
        '{"ts": 1} {"ts": 2}',
        "",
        " ",
        "{}",
    ]
)


def read(path: Path, split_bytes: int) -> tuple[list[Any], list[Any]]:
    connector = files(str(path), schema=SCHEMA, header=False, split_bytes=split_bytes)
    feed = connector.open(SCHEMA, MemoryJournal())
    end = feed.advance(feed.start(), Limit(2**60, 2**60)).position
    chunks = [
        chunk for split in feed.splits(feed.start(), end) for chunk in connector.read(split, SCHEMA, SCHEMA.names)
    ]
    tuples = [row for chunk in chunks for row in chunk.tuples.to_pylist()]
    rejects = [row for chunk in chunks if chunk.rejects is not None for row in chunk.rejects.to_pylist()]
    return tuples, [(row["position"], row["record"]) for row in rejects]


def check(name: str, lines: list[str], line_end: str, split_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(line_end.join(lines).encode())
        whole, cut = read(path, 1 << 30), read(path, split_bytes)
        assert cut == whole
        blank = " \r\n" if name.endswith("jsonl") else "\r\n"
        alone = [line for line in lines if line.strip(blank)]
        assert len(whole[0]) + len(whole[1]) == len(alone)
        assert [record for _, record in whole[1]] == [lines[at - 1].rstrip("\r\n") for at, _ in whole[1]]


@given(st.lists(CSV_LINE, min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]), st.integers(1, 60))
def test_csv(lines: list[str], line_end: str, split_bytes: int) -> None:
    check("a.csv", lines, line_end, split_bytes)


@settings(max_examples=tries(25))
@given(st.lists(JSON_LINE, min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]), st.integers(1, 80))
def test_json_lines(lines: list[str], line_end: str, split_bytes: int) -> None:
    check("a.jsonl", lines, line_end, split_bytes)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_line_longer_than_a_split_belongs_to_one_split(data: Path, drain: Callable[..., Any], line_end: str) -> None:
    text = line_end.join(["1,,a", f"2,,{'b' * 500}", "3,,c"])
    (data / "a.csv").write_bytes(text.encode())
    got = drain(files(str(data), schema=SCHEMA, header=False, split_bytes=20))
    assert [len(row["k"]) for row in got.tuples] == [1, 500, 1]
