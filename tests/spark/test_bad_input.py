"""Bad input on Spark: a clear error, or the exact records in the error stream; nothing else is lost, and counts add up.

Each case runs a count by key over windows of ten, so that a lost or a doubled tuple shows.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
GOOD = [(1, "a", 10), (2, "b", 20), (11, "a", 30), (12, "a", 40), (25, "b", 50)]
COUNTED = [
    {"ts": 0, "k": "a", "n": 1, "s": 10},
    {"ts": 0, "k": "b", "n": 1, "s": 20},
    {"ts": 10, "k": "a", "n": 2, "s": 70},
    {"ts": 20, "k": "b", "n": 1, "s": 50},
]
"""What the good tuples come to."""


def _csv(rows: list[tuple[Any, ...]] | list[str], header: str = "ts,k,v") -> str:
    return "\n".join([header, *(row if isinstance(row, str) else ",".join(map(str, row)) for row in rows)]) + "\n"


def _jsonl(rows: list[tuple[int, str, int]]) -> list[str]:
    return [json.dumps(dict(zip(SCHEMA, row, strict=True))) for row in rows]


def _parquet(file: Path, rows: list[tuple[int, str, int]], **extra: list[Any]) -> None:
    columns = dict(zip(SCHEMA, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, **extra}), file)


def _count(
    net: pk.Network, name: str, path: Path, *, late: str = "route", follow: bool = False, ts: str = "int64"
) -> None:
    source = net.source(name, pk.files(str(path), follow=follow), schema={**SCHEMA, "ts": ts}, late=late)
    size = 10 if ts == "int64" else "10 seconds"
    outputs = {"n": "count(*)", "s": "sum(v)"}
    source.aggregate(outputs, on="ts", size=size, by=["k"], name=f"count {name}").output(name)


def _network(path: Path, **options: Any) -> pk.Network:
    net = pk.Network("bad")
    _count(net, "events", path, **options)
    return net


def _counted(result: pk.Result, name: str = "events") -> list[dict[str, Any]]:
    return sorted(result[name].to_pylist(), key=lambda row: (row["ts"], row["k"]))


def _refused(result: pk.Result, name: str = "events") -> list[tuple[str, int | None, str | None, str]]:
    """File, position, record and reason of everything in the error stream."""
    rows = result.errors(name).to_pylist()
    told = [(os.path.basename(r["origin"]), r["position"], r["record"], r["reason"]) for r in rows]
    return sorted(told, key=lambda one: (one[0], one[1] or 0))


def _assert_adds_up(result: pk.Result, name: str = "events", *, read: int, refused: int = 0, late: int = 0) -> None:
    count = result.record().inputs[name]
    assert (count.read, count.refused, count.late) == (read, refused, late)
    assert count.taken == read - refused - late == sum(row["n"] for row in _counted(result, name))


# Records and files: each case is an input of its own, in one run, which none of them stops.

BROKEN_CSV = ["5,c", "x6,c,1", "7,c,1,2"]
BROKEN_JSON = ['{"ts": 5, "k": "c"', '{"ts": 6, "k": "c", "v": "many"}']
START = dt.datetime(2024, 1, 1)


def _broken_csv_rows(data: Path) -> None:
    (data / "a.csv").write_text(_csv([*GOOD[:2], *BROKEN_CSV, *GOOD[2:]]))


def _broken_json_rows(data: Path) -> None:
    lines = _jsonl(GOOD)
    (data / "a.jsonl").write_text("\n".join([*lines[:2], *BROKEN_JSON, *lines[2:]]) + "\n")


def _bad_timestamps(data: Path) -> None:
    rows = [f"{(START + dt.timedelta(seconds=ts)).isoformat()},{k},{v}" for ts, k, v in GOOD]
    (data / "a.csv").write_text(_csv([*rows[:2], ",c,1", "yesterday,c,1", *rows[2:]]))


def _missing_column(data: Path) -> None:
    _parquet(data / "a.parquet", GOOD)
    pq.write_table(pa.table({"ts": [30, 31], "k": ["a", "b"]}), data / "b.parquet")
    (data / "c.csv").write_text(_csv(["30,a"], header="ts,k"))


def _extra_column(data: Path) -> None:
    _parquet(data / "a.parquet", GOOD[:2], colour=["red", "blue"])
    (data / "b.csv").write_text(_csv([f"red,{ts},{k},{v}" for ts, k, v in GOOD[2:]], header="colour,ts,k,v"))


def _empty_files(data: Path) -> None:
    (data / "a.csv").write_text("")
    (data / "b.csv").write_text(_csv(GOOD))
    (data / "c.csv").write_text(_csv([]))
    (data / "d.jsonl").write_text("")
    pq.write_table(pa.table({"ts": [1]}).slice(0, 0), data / "e.parquet")


def _wrong_names(data: Path) -> None:
    _parquet(data / "a.parquet", GOOD)
    (data / "b.parquet").write_text("this is no Parquet file")
    (data / "c.arrow").write_bytes(b"nor is this an Arrow file")
    (data / "d.csv").write_bytes((data / "a.parquet").read_bytes())


CASES: dict[str, Callable[[Path], None]] = {
    "broken csv": _broken_csv_rows,
    "broken json": _broken_json_rows,
    "bad timestamps": _bad_timestamps,
    "missing column": _missing_column,
    "extra column": _extra_column,
    "empty files": _empty_files,
    "wrong names": _wrong_names,
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, spark_ready: Any) -> pk.Result:
    net = pk.Network("bad")
    for name, write in CASES.items():
        data = tmp_path_factory.mktemp(name.replace(" ", "-"))
        write(data)
        _count(net, name, data, ts="timestamp" if name == "bad timestamps" else "int64")
    return net.run()


def test_a_broken_csv_row_in_the_middle_of_a_file_is_refused_alone(result: pk.Result) -> None:
    assert _counted(result, "broken csv") == COUNTED
    refused = _refused(result, "broken csv")
    assert [one[:3] for one in refused] == [("a.csv", at, line) for at, line in enumerate(BROKEN_CSV, start=4)]
    assert "'ts'" in refused[1][3]
    assert "x6" in refused[1][3]
    _assert_adds_up(result, "broken csv", read=8, refused=3)


def test_a_broken_json_row_in_the_middle_of_a_file_is_refused_alone(result: pk.Result) -> None:
    assert _counted(result, "broken json") == COUNTED
    refused = _refused(result, "broken json")
    assert [one[:3] for one in refused] == [("a.jsonl", at, line) for at, line in enumerate(BROKEN_JSON, start=3)]
    assert "JSON" in refused[0][3]
    assert "'v'" in refused[1][3]
    _assert_adds_up(result, "broken json", read=7, refused=2)


def test_a_null_and_an_unparsable_timestamp_are_refused(result: pk.Result) -> None:
    expected = [{**row, "ts": START + dt.timedelta(seconds=row["ts"])} for row in COUNTED]
    assert [{**row, "ts": row["ts"].replace(tzinfo=None)} for row in _counted(result, "bad timestamps")] == expected
    null, unparsable = _refused(result, "bad timestamps")
    assert json.loads(null[2] or "") == {"ts": None, "k": "c", "v": 1}
    assert null[3] == "ts is NULL: a tuple must have its progressing attribute"
    assert unparsable[1:3] == (5, "yesterday,c,1")
    assert "'ts'" in unparsable[3]
    assert "'yesterday'" in unparsable[3]
    _assert_adds_up(result, "bad timestamps", read=7, refused=2)


def test_a_file_without_a_column_is_refused_whole(result: pk.Result) -> None:
    assert _counted(result, "missing column") == COUNTED
    parquet, csv = _refused(result, "missing column")
    assert parquet[:3] == ("b.parquet", None, None)
    assert "'v'" in parquet[3]
    assert csv[:3] == ("c.csv", None, None)
    assert "has no column 'v'" in csv[3]
    assert sorted(result.errors("missing column")["rows"].to_pylist(), key=str) == [2, None]
    # How many records a text file has is not known before it is read: it counts as one.
    _assert_adds_up(result, "missing column", read=8, refused=3)


def test_an_extra_column_is_ignored(result: pk.Result) -> None:
    assert _counted(result, "extra column") == COUNTED
    _assert_adds_up(result, "extra column", read=5)


def test_an_empty_file_is_no_problem(result: pk.Result) -> None:
    assert _counted(result, "empty files") == COUNTED
    assert _refused(result, "empty files") == []
    _assert_adds_up(result, "empty files", read=5)


def test_a_file_that_is_not_what_its_name_says_is_refused_whole(result: pk.Result) -> None:
    assert _counted(result, "wrong names") == COUNTED
    refused = _refused(result, "wrong names")
    assert [one[:3] for one in refused] == [(name, None, None) for name in ("b.parquet", "c.arrow", "d.csv")]
    assert "is no Parquet file" in refused[0][3]
    assert "Arrow" in refused[1][3]
    _assert_adds_up(result, "wrong names", read=8, refused=3)


def test_an_empty_folder_is_an_error_that_names_it(data: Path) -> None:
    with pytest.raises(pk.WorldError, match="no file matches") as failure:
        _network(data).run()
    assert str(data) in str(failure.value)
    assert "follow=True" in str(failure.value)


def test_a_file_that_vanishes_while_running_stops_the_run_which_can_be_resumed(data: Path, tmp_path: Path) -> None:
    _parquet(data / "a.parquet", GOOD[:2])
    _parquet(data / "b.parquet", GOOD[2:])
    checkpoint = str(tmp_path / "checkpoint")
    kept = (data / "b.parquet").read_bytes()
    with pytest.raises(pk.WorldError, match=r"b\.parquet is gone") as failure:
        _network(data).run(checkpoint=checkpoint, train_rows=3, on_batch=lambda _: _unlink(data / "b.parquet"))
    assert "put it back and restart" in str(failure.value)
    (data / "b.parquet").write_bytes(kept)
    result = _network(data).run(checkpoint=checkpoint, train_rows=3)
    assert _counted(result) == COUNTED
    _assert_adds_up(result, read=5)


def _unlink(file: Path) -> None:
    file.unlink(missing_ok=True)


def test_a_followed_folder_that_vanishes_stops_the_run_which_can_be_resumed(data: Path, tmp_path: Path) -> None:
    _parquet(data / "a.parquet", GOOD[:2])
    checkpoint = str(tmp_path / "checkpoint")
    run = _network(data, follow=True).start(checkpoint=checkpoint)
    try:
        run.wait_for(lambda record: record.batch >= 0)
        (data / "a.parquet").unlink()
        data.rmdir()
        with pytest.raises(pk.WorldError, match="does not exist") as failure:
            run.wait(60)
        assert str(data) in str(failure.value)
        assert "resumed from its checkpoint" in str(failure.value)
        assert run.status()["state"] == "failed"
    finally:
        _stop(run)
    data.mkdir()
    _parquet(tmp_path / "b.parquet", [*GOOD[2:], (30, "end", 0)])
    (tmp_path / "b.parquet").rename(data / "b.parquet")
    again = _network(data, follow=True).start(checkpoint=checkpoint)
    try:
        again.wait_for(lambda record: record.inputs["events"].taken == 6)
        assert _counted(again.result) == COUNTED
    finally:
        _stop(again)


def _stop(run: pk.Run) -> None:
    with contextlib.suppress(pk.PenstockError):  # the error was looked at where it came
        run.stop()


# Outputs


def test_an_output_folder_that_cannot_be_written_is_refused_at_the_start(data: Path, tmp_path: Path) -> None:
    _parquet(data / "a.parquet", GOOD)
    (tmp_path / "file").write_text("a file, where a folder is wanted")
    for target in (pk.parquet, pk.csv, pk.jsonl, pk.delta):
        net = pk.Network("bad")
        events = net.source("events", pk.files(str(data)), schema=SCHEMA)
        events.output("copy", to=target(str(tmp_path / "file" / "out")))
        with pytest.raises(pk.WorldError, match="box 'copy': cannot create the folder") as failure:
            net.run()
        assert str(tmp_path / "file" / "out") in str(failure.value)
        assert "to do: check the path" in str(failure.value)


def test_an_output_folder_that_vanishes_while_running_is_an_error_of_its_box(data: Path, tmp_path: Path) -> None:
    """The error is raised in a worker, and arrives as what it was."""
    _parquet(data / "a.parquet", GOOD[:2])
    _parquet(data / "b.parquet", GOOD[2:])
    net = pk.Network("bad")
    copy = pk.parquet(str(tmp_path / "out" / "copy"))
    net.source("events", pk.files(str(data)), schema=SCHEMA).output("copy", to=copy)

    def replace_by_a_file(_: object) -> None:
        out = tmp_path / "out"
        if out.is_dir():
            out.rename(tmp_path / "moved")
            out.write_text("")

    with pytest.raises(pk.WorldError) as failure:
        net.run(train_rows=3, on_batch=replace_by_a_file)
    assert str(tmp_path / "out" / "copy") in str(failure.value)
    assert "box 'copy'" in str(failure.value)


# The query


def test_a_wrong_column_in_an_expression_is_refused_where_it_is_written(data: Path) -> None:
    (data / "a.csv").write_text(_csv(GOOD))
    events = pk.Network("bad").source("events", pk.files(str(data)), schema=SCHEMA)
    for build in (
        lambda: events.where("w > 1", name="here"),
        lambda: events.map(x="w + 1", name="here"),
        lambda: events.aggregate({"n": "sum(w)"}, on="ts", size=10, name="here"),
        lambda: events.aggregate({"n": "count(*)"}, on="ts", size=10, by=["w"], name="here"),
    ):
        with pytest.raises(pk.QueryError) as failure:
            build()
        text = str(failure.value)
        assert "box 'here'" in text
        assert "w" in failure.value.what
        assert "ts, k, v" in text


def test_a_window_on_an_attribute_without_progress_names_the_box_that_lost_it(data: Path) -> None:
    (data / "a.csv").write_text(_csv(GOOD))
    events = pk.Network("bad").source("events", pk.files(str(data)), schema=SCHEMA)
    with pytest.raises(pk.QueryError, match="makes no progress on it") as failure:
        events.map(ts="ts % 60", k="k", name="folded").aggregate({"n": "count(*)"}, on="ts", size=10)
    assert "box 'folded'" in str(failure.value)
    assert "monotone expression" in str(failure.value)


def test_an_aggregate_over_a_string_is_refused(data: Path) -> None:
    (data / "a.csv").write_text(_csv(GOOD))
    events = pk.Network("bad").source("events", pk.files(str(data)), schema=SCHEMA)
    with pytest.raises(pk.QueryError) as failure:
        events.aggregate({"s": "sum(k)"}, on="ts", size=10, name="sums")
    assert "box 'sums'" in str(failure.value)
    assert "sum(k)" in str(failure.value)


def test_a_value_that_an_expression_cannot_take_is_an_error_of_its_box(data: Path) -> None:
    """The kernel fails in a worker, in the middle of a run."""
    (data / "a.csv").write_text(_csv(GOOD))
    net = pk.Network("bad")
    events = net.source("events", pk.files(str(data)), schema=SCHEMA)
    events.map(ts="ts", number="CAST(k AS BIGINT)", name="cast").output("numbers")
    with pytest.raises(pk.PenstockError) as failure:
        net.run()
    assert isinstance(failure.value, pk.QueryError)
    assert "box 'cast'" in str(failure.value)
    assert "'a'" in str(failure.value)


# Promises


def test_late_error_stops_the_run_and_says_what_was_promised(data: Path) -> None:
    _parquet(data / "a.parquet", GOOD)
    _parquet(data / "b.parquet", [(3, "a", 1)])
    with pytest.raises(pk.WorldError, match="1 late tuple, and the input was declared with late='error'") as failure:
        _network(data, late="error").run(train_rows=5)
    text = str(failure.value)
    assert "box 'events'" in text
    assert "ts >= 25 (ordered)" in text
    assert "found: ts = 3" in text
    assert "to do: declare a weaker progress policy" in text


def test_late_tuples_are_set_aside_and_counted(data: Path) -> None:
    _parquet(data / "a.parquet", GOOD)
    _parquet(data / "b.parquet", [(3, "a", 1), (25, "a", 2), (24, "b", 3)])
    result = _network(data).run(train_rows=5)
    assert _counted(result) == [*COUNTED[:3], {"ts": 20, "k": "a", "n": 1, "s": 2}, COUNTED[3]]
    assert result.late("events").to_pylist() == [{"ts": 3, "k": "a", "v": 1}, {"ts": 24, "k": "b", "v": 3}]
    _assert_adds_up(result, read=8, late=2)
