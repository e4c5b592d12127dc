"""Files on Spark: logs that grow and rotate while they are read, and trains that end inside a row group."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

SCHEMA = {"ts": "int64", "k": "string"}


def _write(path: Path, rows: range, end: str = "") -> None:
    fresh = not path.exists()
    with path.open("a") as file:
        file.write("ts,k\n" * fresh + "".join(f"{at},k{at % 3}\n" for at in rows) + end)


def _network(data: Path, **options: Any) -> pk.Network:
    net = pk.Network("logs")
    source = net.source("s", pk.files(f"{data}/app.log*", "csv", follow=True, **options), schema=SCHEMA)
    source.output("all")
    source.aggregate({"n": "count(*)"}, on="ts", size=10).output("counts")
    return net


def _taken(run: pk.Run, rows: int) -> None:
    run.wait_for(lambda record: "s" in record.inputs and record.inputs["s"].taken == rows)


def _stop(run: pk.Run) -> None:
    with contextlib.suppress(pk.PenstockError):  # the error was looked at where it came
        run.stop()


def test_a_log_that_grows_and_rotates_is_read_on_also_after_a_restart(data: Path, tmp_path: Path) -> None:
    log, checkpoint = data / "app.log", str(tmp_path / "checkpoint")
    _write(log, range(5), "5")
    run = _network(data, grow=True).start(checkpoint=checkpoint)
    try:
        _taken(run, 5)
        with log.open("a") as file:
            file.write(",k2\n")
        _taken(run, 6)
        _write(log, range(6, 12))
        log.rename(data / "app.log.1")
        _write(log, range(12, 20))
        _taken(run, 20)
    finally:
        _stop(run)
    _write(log, range(20, 25))
    again = _network(data, grow=True).start(checkpoint=checkpoint)
    try:
        _taken(again, 25)
        assert again.result["all"]["ts"].to_pylist() == list(range(25))
        assert again.result["counts"].to_pylist() == [{"ts": 0, "n": 10}, {"ts": 10, "n": 10}]
        assert again.result.record().inputs["s"].refused == 0
    finally:
        _stop(again)


def test_lines_added_to_a_file_that_does_not_grow_are_reported_and_a_rewritten_one_ends_the_run(data: Path) -> None:
    log = data / "app.log"
    _write(log, range(5))
    run = _network(data).start()
    try:
        _taken(run, 5)
        _write(log, range(5, 7))
        run.wait_for(lambda record: record.inputs["s"].refused == 1)
        (told,) = run.result.errors("s").to_pylist()
        assert told["origin"] == str(log)
        assert told["reason"].startswith("has grown by 10 bytes since it was taken, and they are not read")
        log.write_text("ts,k\n" + "9,k9\n" * 5)
        with pytest.raises(pk.WorldError, match="has changed since it was taken") as failure:
            run.wait(60)
        assert str(log) in str(failure.value)
    finally:
        _stop(run)


def test_no_batch_takes_more_than_train_rows(data: Path) -> None:
    rows = 3_000
    table = pa.table({"ts": list(range(rows)), "k": ["k"] * rows})
    pq.write_table(table, data / "a.parquet", row_group_size=1_300)
    net = pk.Network("trains")
    source = net.source("s", pk.files(str(data)), schema=SCHEMA)
    source.aggregate({"n": "count(*)"}, on="ts", size=100).output("counts")
    source.output("all")
    read: list[int] = []
    result = net.run(train_rows=900, on_batch=lambda record: read.append(record.inputs["s"].read))
    assert max(now - then for then, now in zip([0, *read], read, strict=False)) <= 900
    assert result["all"]["ts"].to_pylist() == list(range(rows))
    assert result["counts"]["n"].to_pylist() == [100] * 30
