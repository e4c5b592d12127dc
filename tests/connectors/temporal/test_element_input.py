"""Rows of any input as elements: their columns, their stable points, and what is refused of them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk

NAMES = ["kind", "begin", "until", "was", "p"]
OPTIONS: dict[str, Any] = {"start": "begin", "end": "until", "old": "was"}
TIMES = (pa.int64(), pa.int16(), pa.uint32(), pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC"))


def table(rows: list[tuple[Any, ...]], kind: pa.DataType = TIMES[0]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
    times = [pa.array(column, pa.int64()).cast(narrow).cast(kind) for column in columns[1:4]]
    return pa.table([pa.array(columns[0], pa.string()), *times, pa.array(columns[4], pa.string())], NAMES)


ROWS = [
    ("insert", 6, 20, None, "A"),
    ("adjust", 6, 30, 20, "A"),
    ("stable", 7, None, None, None),
    ("insert", 9, None, None, "B"),
]
BROKEN = [
    ("insert", 6, 20, None, "A"),
    ("open", 6, 20, None, "A"),
    (None, 6, 20, None, "A"),
    ("insert", None, 20, None, "A"),
    ("insert", 6, 6, None, "A"),
    ("insert", 6, 7, 8, "A"),
    ("adjust", 6, 5, 20, "A"),
    ("adjust", 6, 20, 6, "A"),
    ("adjust", 6, None, None, "A"),
    ("adjust", 6, 2**63 - 1, 20, "A"),
    ("insert", 7, 2**63 - 2**59, None, "A"),
]


def run(connector: Any, **options: Any) -> pk.Result:
    net = pk.Network("net")
    net.source("in", connector, progress=pk.punctuated()).output("out")
    return net.run(engine="local", **options)


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_lifetimes_of_every_type_of_time(kind: pa.DataType) -> None:
    result = run(pk.temporal(pk.memory(table(ROWS, kind), train=2), **OPTIONS))
    out = result["out"]
    assert out.schema.field("sync").type == kind
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    assert sorted(out["sync"].cast(whole).to_pylist()) == [6, 9, 20]
    assert out["ve"].null_count == 1
    assert result.errors("in").num_rows == 0


def test_every_broken_row_is_refused_whole_and_with_its_reason() -> None:
    result = run(pk.temporal(pk.memory(table(BROKEN)), **OPTIONS))
    assert result["out"]["p"].to_pylist() == ["A"]
    errors = result.errors("in")
    assert Counter(errors["reason"].to_pylist()) == {
        "kind is none of insert, adjust, stable": 2,
        "begin is NULL: every event has a start": 1,
        "until is not after begin": 1,
        "was is given, but an insert has no old end": 1,
        "until is before begin": 1,
        "was is not after begin": 1,
        "until is was: an adjust must change the end": 1,
        "until is out of range: it must be within 8,070,450,532,247,928,831 ticks of zero; "
        "an event without an end has NULL there": 2,
    }
    assert all("begin" in record and '"p"' in record for record in errors["record"].to_pylist())


def test_an_adjust_breaks_the_promise_of_inserts_alone() -> None:
    result = run(pk.temporal(pk.memory(table(ROWS)), insert_only=True, **OPTIONS))
    assert result["out"].num_rows == 2
    assert result.errors("in")["reason"].to_pylist() == [
        "adjusts an event, but the input was declared with insert_only=True"
    ]


def test_punctuation_on_the_start_is_a_stable_point() -> None:
    rows = [("insert", 6, 20, None, "A"), pk.punctuation(begin=7), ("insert", 6, 9, None, "B")]
    schema = dict(zip(NAMES, ["string", "int64", "int64", "int64", "string"], strict=True))
    result = run(pk.temporal(pk.memory(rows, schema=schema, train=1), **OPTIONS))
    assert result["out"]["p"].to_pylist() == ["A"]
    assert result.errors("in")["reason"].to_pylist() == ["comes before the stable point of its input"]


def test_a_column_called_sync_must_say_what_follows_from_the_others() -> None:
    rows = [(6, "insert", 6, 20, None, "A"), (7, "insert", 6, 20, None, "B"), (None, "stable", 8, None, None, None)]
    schema = dict(zip(["sync", *NAMES], ["int64", "string", "int64", "int64", "int64", "string"], strict=True))
    result = run(pk.temporal(pk.memory(rows, schema=schema), **OPTIONS))
    assert result["out"]["p"].to_pylist() == ["A"]
    assert result.errors("in")["reason"].to_pylist() == ["sync is not what follows from the other columns"]


def test_files_are_read_in_the_columns_that_are_needed_and_refused_rows_whole(tmp_path: Path) -> None:
    pq.write_table(table([*ROWS, *BROKEN[1:3]]), tmp_path / "a.parquet")
    net = pk.Network("net")
    stream = net.source("in", pk.temporal(pk.files(str(tmp_path)), insert_only=False, **OPTIONS), late="drop")
    stream.where("vs > 6").map(one="1").output("out")
    result = net.run(engine="local")
    assert result["out"].num_rows == 1
    errors = result.errors("in")
    assert errors.num_rows == 2
    assert all(origin.endswith("a.parquet") for origin in errors["origin"].to_pylist())
    assert all('"p":"A"' in record for record in errors["record"].to_pylist())


def test_a_connection_point_gives_the_same_elements_again(tmp_path: Path) -> None:
    net = pk.Network("net")
    stream = net.source("in", pk.temporal(pk.memory(table(ROWS), train=1), **OPTIONS), progress=pk.punctuated())
    stream.connection_point("point", path=str(tmp_path / "point"))
    net.run(engine="local", buckets=1)
    again = pk.Network("again")
    source = again.source("in", pk.temporal(pk.connection_point(str(tmp_path / "point"))))
    assert source.progressing == ("sync",)
    source.output("out")
    result = again.run(engine="local", buckets=1, train_rows=1)
    assert result["out"].select(["kind", "vs", "ve", "p"]).to_pylist() == [
        {"kind": "insert", "vs": 6, "ve": 20, "p": "A"},
        {"kind": "adjust", "vs": 6, "ve": 30, "p": "A"},
        {"kind": "insert", "vs": 9, "ve": None, "p": "B"},
    ]
    assert result.errors("in").num_rows == 0


def test_elements_are_stepped_one_by_one() -> None:
    net = pk.Network("net")
    stream = net.source("in", pk.temporal(pk.memory(table(ROWS), train=3), **OPTIONS), progress=pk.punctuated())
    stream.where("p = 'A'").output("out")
    stepper = net.stepper()
    stepper.run(inputs=True)
    assert stepper.output("out")["kind"].to_pylist() == ["insert", "adjust"]


def test_dates_are_read_as_they_are_written() -> None:
    rows = [{"vs": dt.date(2026, 1, 1), "ve": dt.date(2026, 1, 3), "p": "A"}]
    connector = pk.temporal(pk.memory(rows, schema={"vs": "date", "ve": "date", "p": "string"}), insert_only=True)
    assert run(connector)["out"].to_pylist() == [
        {"sync": dt.date(2026, 1, 1), "kind": "insert", "vs": dt.date(2026, 1, 1)}
        | {"ve": dt.date(2026, 1, 3), "vold": None, "p": "A"}
    ]


def test_what_is_illegal_is_stepped_to_the_error_stream_as_in_a_run() -> None:
    def network() -> pk.Network:
        net = pk.Network("net")
        rows = [*ROWS, ("adjust", 9, 30, 20, "B"), ("insert", 6, 9, None, "C"), ("insert", 9, 8, None, "C")]
        source = pk.temporal(pk.memory(table(rows), train=1), **OPTIONS)
        net.source("in", source, progress=pk.punctuated()).output("out")
        return net

    stepper, result = network().stepper(), network().run(engine="local")
    stepper.run(inputs=True)
    assert stepper.output("out").to_pylist() == result["out"].to_pylist()
    told = [sorted(errors["reason"].to_pylist()) for errors in (stepper.errors("in"), result.errors("in"))]
    assert (
        told[0]
        == told[1]
        == sorted(
            [
                "adjusts an event that does not exist",
                "comes before the stable point of its input",
                "until is not after begin",
            ]
        )
    )
    assert stepper.late("in").num_rows == 0
