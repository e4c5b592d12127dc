"""Aggregate as a running network has it: timeouts by the real clock, and functions of an application's file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock as pk
from penstock.cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

SCHEMA = {"ts": "int64", "k": "string"}


@contextlib.contextmanager
def running(net: pk.Network) -> Iterator[pk.Run]:
    run = net.start(buckets=2)
    try:
        yield run
    finally:
        with contextlib.suppress(pk.PenstockError):
            run.stop()


def write(folder: Path, name: str, rows: list[tuple[Any, ...]]) -> None:
    table = pa.table(dict(zip(SCHEMA, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def test_a_window_times_out_when_the_input_falls_silent(data: Path) -> None:
    net = pk.Network("silent")
    stream = net.source("in", pk.files(str(data), follow=True), schema=SCHEMA, progress=pk.delayed(100))
    stream.aggregate({"n": "count(*)"}, size=10, by="k", timeout="2 seconds", name="waiting").output("out")
    with running(net) as run:
        write(data, "a", [(1, "x"), (2, "y"), (3, "x")])
        record = run.wait_for(lambda record: record.inputs.get("in") is not None and record.inputs["in"].read == 3)
        assert record.outputs["out"] == 0
        assert record.wake is not None
        # Nothing more arrives: the clock alone makes a batch when the timeout is over, and no batch before or after.
        quiet = run.wait_for(lambda record: record.outputs["out"] == 2)
        assert quiet.batch == record.batch + 1
        assert quiet.wake is None
        assert time.time() * 1_000_000 > record.wake
        time.sleep(1)
        assert run.status()["batch"] == quiet.batch
        write(data, "b", [(4, "x"), (14, "x")])
        run.wait_for(lambda record: record.boxes["waiting"].late == 1)
        rows = sorted(tuple(row.values()) for row in run.read("out").to_pylist())
        assert rows == [(0, "x", 2), (0, "y", 1)]
        assert run.result.late("waiting").to_pylist() == [{"ts": 4, "k": "x"}]


APPLICATION = """
import numpy as np
import penstock as pk

LIMIT = {limit}

def spread(window):
    return checked(np.ptp(window["v"]))

def checked(value):
    if value > LIMIT:
        raise ValueError(f"{{value}} is too much")
    return value

net = pk.Network("spreads")
rows = [(t, t * t) for t in range(12)]
source = net.source("in", pk.memory(rows, schema={{"ts": "int64", "v": "int64"}}, train=6))
source.aggregate({{"spread": pk.window_function(final=spread, returns="int64")}}, size=4, name="spreads").output("out")
"""


def test_a_function_of_an_application_stops_the_command_and_can_be_mended(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "app.py", str(tmp_path / "checkpoint")
    path.write_text(APPLICATION.format(limit=40))
    first = CliRunner().invoke(app, ["run", str(path), "--checkpoint", checkpoint])
    assert first.exit_code == 1
    assert "network 'spreads', box 'spreads': the window function of 'spread' raised ValueError: 57 is too much" in (
        first.output
    )
    assert "the window ts = 8" in first.output
    path.write_text(APPLICATION.format(limit=60))
    second = CliRunner().invoke(app, ["run", str(path), "--checkpoint", checkpoint])
    assert second.exit_code == 0, second.output
    cells = [line.split("│")[1:-1] for line in second.output.splitlines() if line.startswith("│")]
    assert [[int(cell) for cell in row] for row in cells] == [[0, 9], [4, 33], [8, 57]]
