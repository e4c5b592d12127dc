"""Inputs that fall silent, on Spark and by the machine's own clock."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.progress.idle import Idle

SCHEMA = {"ts": "timestamp[us]", "k": "string"}


def _network(folder: Path, idle: Idle) -> pk.Network:
    net = pk.Network("silence")
    for name in ("busy", "empty"):
        (folder / name).mkdir()
    busy, empty = (
        net.source(name, pk.files(str(folder / name / "*.parquet"), follow=True), schema=SCHEMA, progress=idle)
        for name in ("busy", "empty")
    )
    pk.union(busy, empty).aggregate({"n": "count(*)"}, on="ts", size="1 second", name="counts").output("counts")
    return net


def _deliver(folder: Path, at: dt.datetime, name: str = "busy") -> None:
    table = pa.table({"ts": pa.array([at], pa.timestamp("us")), "k": ["x"]})
    pq.write_table(table, folder / name / f"{time.monotonic_ns()}.parquet")


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_on_demand_a_window_closes_without_another_tuple_and_then_nothing_runs(tmp_path: Path) -> None:
    net = _network(tmp_path, pk.on_demand(skew="1 second"))
    run = net.start(checkpoint=str(tmp_path / "checkpoint"))
    try:
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        _deliver(tmp_path, now)
        run.wait_for(lambda record: bool(record.waiting), 30)
        # The empty input may have been asked by the time the first tuple is read.
        assert "busy" in {name for name, _ in run.waiting()[0].culprits} <= {"busy", "empty"}
        run.wait_for(lambda record: record.outputs.get("counts") == 1, 30)
        assert run.read("counts").to_pylist() == [{"ts": now.replace(microsecond=0), "n": 1}]
        assert run.waiting() == []
        batches = run.result.record().batch
        time.sleep(1.5)
        assert run.result.record().batch == batches
    finally:
        run.stop()


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_heartbeats_go_on_while_the_inputs_are_silent(tmp_path: Path) -> None:
    run = _network(tmp_path, pk.heartbeat(every="300 ms", skew="0 seconds")).start()
    try:
        old = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(hours=1)
        _deliver(tmp_path, old)
        run.wait_for(lambda record: record.outputs.get("counts") == 1, 30)
        before = run.wait_for(lambda record: record.shards["busy"]["0"].stated > 0, 30)
        # A tuple that violates what was stated is late, and kept.
        _deliver(tmp_path, old)
        run.wait_for(lambda record: record.inputs["busy"].late == 1, 30)
        assert run.result.late("busy")["ts"].to_pylist() == [old]
        run.wait_for(lambda record: record.batch > before.batch + 1, 30)
    finally:
        run.stop()


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_on_demand_a_pair_leaves_long_before_the_band_has_passed_and_then_nothing_runs(tmp_path: Path) -> None:
    """Q3 of oop.md 7: SYN and ACK within an hour of each other, counted for each pair of times."""
    net = pk.Network("q3")
    for name in ("syn", "ack"):
        (tmp_path / name).mkdir()
    syn, ack = (
        net.source(
            name,
            pk.files(str(tmp_path / name / "*.parquet"), follow=True),
            schema=SCHEMA,
            progress=pk.on_demand(skew="0 seconds"),
        )
        for name in ("syn", "ack")
    )
    pairs = syn.join(ack, "l.k = r.k", on="ts", size="1 hour")
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size="1 ms", by="l_ts", name="counts").output("counts")
    run = net.start(checkpoint=str(tmp_path / "checkpoint"))
    try:
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
        _deliver(tmp_path, now, "ack")
        _deliver(tmp_path, now, "syn")
        run.wait_for(lambda record: record.outputs.get("counts") == 1, 30)
        assert run.read("counts").to_pylist() == [{"r_ts": now, "l_ts": now, "n": 1}]
        # ACK fall silent: what SYN still come in time for them leaves by the word of the clock alone.
        _deliver(tmp_path, now + dt.timedelta(seconds=30), "syn")
        run.wait_for(lambda record: record.outputs.get("counts") == 2, 30)
        assert run.waiting() == []
        batches = run.result.record().batch
        time.sleep(0.4)
        assert run.result.record().batch == batches
        assert run.result.late("syn").num_rows == 0
    finally:
        run.stop()
