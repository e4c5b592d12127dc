"""What a refusal of the commonest mistakes in text files says: it names the option that helps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.connectors.files.declaration import files

Drain = Callable[..., Any]
TIMES = pa.schema([("ts", pa.timestamp("us")), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", "ts,v\n2026-01-01,1\n01/02/2026 10:00,2\n"),
        ("a.jsonl", '{"ts": "2026-01-01", "v": 1}\n{"ts": "01/02/2026 10:00", "v": 2}\n'),
    ],
)
def test_a_time_in_another_form_names_timestamp_formats(data: Path, drain: Drain, name: str, lines: str) -> None:
    (data / name).write_text(lines)
    got = drain(files(str(data), schema=TIMES))
    assert [one["reason"] for one in got.rejects] == [
        "column 'ts': '01/02/2026 10:00' is no timestamp[us]: other forms than ISO 8601 are given in "
        "timestamp_formats=, such as ['%d/%m/%Y %H:%M']"
    ]
    helped = drain(files(str(data), schema=TIMES, timestamp_formats=["%d/%m/%Y %H:%M"]))
    assert [row["ts"].isoformat() for row in helped.tuples] == ["2026-01-01T00:00:00", "2026-02-01T10:00:00"]


def test_an_attribute_of_texts_cannot_progress_and_the_hint_says_how_to_read_them_as_times(data: Path) -> None:
    (data / "a.csv").write_text("ts,v\n01/02/2026 10:00,2\n")
    with pytest.raises(pk.QueryError, match="found: ts string") as refused:
        pk.Network("texts").source("s", pk.files(str(data)), on="ts")
    assert "give schema= with ts as a timestamp" in str(refused.value)
    assert "timestamp_formats=" in str(refused.value)


@pytest.mark.parametrize("value", ["NA", "N/A", "null", "-"])
def test_a_text_that_means_null_names_null_values(data: Path, drain: Drain, value: str) -> None:
    (data / "a.csv").write_text(f"ts,v\n2026-01-01,1\n2026-01-02,{value}\n")
    got = drain(files(str(data), schema=TIMES))
    assert [one["reason"] for one in got.rejects] == [
        f"column 'v': '{value}' is no int64: null_values=['', '{value}'] reads it as NULL"
    ]
    helped = drain(files(str(data), schema=TIMES, null_values=["", value]))
    assert [row["v"] for row in helped.tuples] == [1, None]


def test_other_values_that_do_not_fit_have_no_hint(data: Path, drain: Drain) -> None:
    (data / "a.csv").write_text("ts,v\n2026-01-01,many\n")
    assert [one["reason"] for one in drain(files(str(data), schema=TIMES)).rejects] == [
        "column 'v': 'many' is no int64"
    ]


ROWS = [{"ts": "2026-01-01", "v": 1}, {"ts": "2026-01-02", "v": 2}]
HINT = "one object to a line is expected, as `jq -c '.[]'` writes them"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_refused_as_a_whole_and_the_hint_says_how_to_write_lines(
    data: Path, drain: Drain, indent: int | None
) -> None:
    (data / "a.jsonl").write_text(json.dumps(ROWS, indent=indent))
    (data / "b.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    got = drain(files(str(data), schema=TIMES))
    assert len(got.tuples) == 2
    assert [(one["position"], one["reason"]) for one in got.rejects] == [
        (None, f"is a JSON array: {HINT}") if indent else (1, f"is an array, expected an object: {HINT}")
    ]
    with pytest.raises(pk.QueryError, match="shows a schema") as refused:
        files(str(data / "a.jsonl")).schema()
    assert f"is a JSON array: {HINT}" in str(refused.value)
