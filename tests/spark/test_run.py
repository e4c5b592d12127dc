"""Running networks on Spark: results as input arrives, stop and restart, and what a checkpoint refuses."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk

pytestmark = pytest.mark.spark

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


def _write(folder: Path, name: str, rows: list[tuple[int, str, int]]) -> None:
    """A file appears whole, as a followed folder wants it."""
    table = pa.table(dict(zip(SCHEMA, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def _following(folder: Path, *, size: int = 10) -> pk.Network:
    net = pk.Network("following")
    events = net.source("events", pk.files(str(folder), follow=True), schema=SCHEMA)
    counts = events.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=size, by=["k"], name="counts")
    counts.output("counts")
    counts.aggregate({"total": "sum(n)"}, size=20, name="totals").output("totals")
    return net


@contextlib.contextmanager
def _running(net: pk.Network, **settings: Any) -> Iterator[pk.Run]:
    run = net.start(**settings)
    try:
        yield run
    finally:
        with contextlib.suppress(pk.PenstockError):
            run.stop()


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


# A folder that grows


@pytest.mark.usefixtures("spark_ready")
def test_a_growing_folder_is_followed_across_a_stop_and_a_restart(data: Path, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    seen: list[int] = []
    with _running(_following(data), checkpoint=checkpoint, on_batch=lambda record: seen.append(record.batch)) as run:
        _write(data, "a", [(1, "x", 1), (2, "y", 2), (12, "x", 3)])
        run.wait_for(lambda record: record.outputs.get("counts") == 2)
        assert _rows(run.read("counts")) == [(0, "x", 1, 1), (0, "y", 1, 2)]
        assert _rows(run.read("totals")) == []

        _write(data, "b", [(13, "x", 4), (25, "y", 5)])
        run.wait_for(lambda record: record.outputs.get("totals") == 1)
        assert _rows(run.read("counts")) == [(0, "x", 1, 1), (0, "y", 1, 2), (10, "x", 2, 7)]
        assert _rows(run.read("totals")) == [(0, 4)]

        status = run.status()
        assert (status["state"], status["batch"]) == ("running", 1)
        assert status["inputs"]["events"] == {"read": 5, "taken": 5, "late": 0, "refused": 0, "punctuation": 0}
        assert status["outputs"]["counts"] == 3
        assert status["boxes"]["counts"]["tuples_in"] == 5
        assert status["boxes"]["counts"]["open_windows"] == 1

        progress = run.progress()
        assert progress["events"] == {"": {"ts": 25}, "0": {"ts": 25}}
        buckets = {shard: marks for shard, marks in progress["counts"].items() if shard}
        assert progress["counts"][""] == {"ts": 20}
        assert buckets
        assert all(re.fullmatch(r"bucket \d+", shard) and marks == {"ts": 20} for shard, marks in buckets.items())
        assert progress["totals"][""] == {"ts": 20}

        time.sleep(1.5)
        assert run.status()["batch"] == 1, "an idle network has run a batch"
        assert seen == [0, 1]
        stopped = run.stop()
    assert run.status()["state"] == "stopped"
    assert _rows(stopped["totals"]) == [(0, 4)]

    _write(data, "c", [(26, "y", 6), (41, "x", 7)])
    with _running(_following(data), checkpoint=checkpoint) as again:
        record = again.wait_for(lambda record: record.outputs.get("totals") == 2)
        assert record.batch == 2
        assert _rows(again.read("counts")) == [(0, "x", 1, 1), (0, "y", 1, 2), (10, "x", 2, 7), (20, "y", 2, 11)]
        assert _rows(again.read("totals")) == [(0, 4), (20, 2)]
        assert record.inputs["events"].taken == 7


@pytest.mark.usefixtures("spark_ready")
def test_a_checkpoint_refuses_another_network_and_other_buckets(data: Path, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    rows = [(1, "x", 1), (2, "y", 2), (12, "x", 3)]

    def network(name: str = "same", size: int = 10) -> pk.Network:
        net = pk.Network(name)
        events = net.source("events", pk.memory(rows, schema=SCHEMA))
        events.aggregate({"n": "count(*)"}, on="ts", size=size, by=["k"]).output("counts")
        return net

    first = network().run(checkpoint=checkpoint, buckets=2)
    for changed, settings, reason in (
        (network("other"), {"buckets": 2}, "belongs to another network"),
        (network(), {"buckets": 3}, "was made with another number of buckets"),
    ):
        with pytest.raises(pk.QueryError, match=reason) as failure:
            changed.run(checkpoint=checkpoint, **settings)
        assert checkpoint in str(failure.value)
        assert "start with another checkpoint" in str(failure.value)
    with pytest.raises(pk.QueryError, match="the change would lose what parts of the network hold"):
        network(size=5).run(checkpoint=checkpoint, buckets=2)
    again = network().run(checkpoint=checkpoint)
    assert again.record() == first.record()
    assert again["counts"] == first["counts"]


# Spark's own streams


@pytest.mark.usefixtures("spark_ready")
def test_a_streaming_dataframe_is_an_input_beside_others(data: Path, tmp_path: Path, spark_ready: Any) -> None:
    def write(name: str, rows: list[tuple[int, str, int]]) -> None:
        text = "".join(json.dumps(dict(zip(SCHEMA, row, strict=True))) + "\n" for row in rows)
        (data / f".{name}").write_text(text)
        (data / f".{name}").rename(data / name)

    def network() -> pk.Network:
        frame = spark_ready.readStream.schema("ts long, k string, v long").json(str(data))
        net = pk.Network("mixed")
        mine = net.source("mine", pk.memory([(3, "x", 1), (4, "y", 1), (15, "x", 1)], schema=SCHEMA))
        theirs = net.source("theirs", pk.dataframe(frame))
        both = pk.union(mine, theirs)
        both.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=10, by=["k"]).output("counts")
        return net

    checkpoint = str(tmp_path / "checkpoint")
    write("a.json", [(1, "x", 10), (12, "x", 20)])
    with _running(network(), checkpoint=checkpoint) as run:
        run.wait_for(lambda record: record.outputs.get("counts") == 2)
        assert _rows(run.read("counts")) == [(0, "x", 2, 11), (0, "y", 1, 1)]
        assert run.progress()["mine"][""] == {"ts": math.inf}
        assert run.progress()["theirs"][""] == {"ts": 12}
    write("b.json", [(2, "late", 5), (20, "y", 30), (31, "y", 40)])
    with _running(network(), checkpoint=checkpoint) as again:
        record = again.wait_for(lambda record: record.outputs.get("counts") == 4)
        assert _rows(again.read("counts")) == [(0, "x", 2, 11), (0, "y", 1, 1), (10, "x", 2, 21), (20, "y", 1, 30)]
        assert _rows(again.result.late("theirs")) == [(2, "late", 5)]
        assert (record.inputs["mine"].taken, record.inputs["theirs"].taken) == (3, 4)


@pytest.mark.usefixtures("spark_ready")
def test_tuples_of_a_dataframe_find_the_rows_of_a_table_as_it_is_by_then(
    data: Path, tmp_path: Path, spark_ready: Any
) -> None:
    def name_it(name: str) -> None:
        pq.write_table(pa.table({"k": ["x"], "label": [name]}), tmp_path / "new")
        (tmp_path / "new").rename(tmp_path / "names.parquet")

    name_it("first")
    _write(data, "a", [(1, "x", 10)])
    net = pk.Network("looked_up")
    frame = spark_ready.readStream.schema("ts long, k string, v long").parquet(str(data))
    tuples = net.source("tuples", pk.dataframe(frame))
    tuples.join(pk.table(tmp_path / "names.parquet"), "l.k = r.k").map(ts="ts", label="label").output("named")
    with _running(net, checkpoint=str(tmp_path / "checkpoint")) as run:
        before = run.wait_for(lambda record: record.outputs.get("named") == 1)
        name_it("second")
        run.wait_for(lambda record: record.batch > before.batch)
        _write(data, "b", [(2, "x", 10), (3, "y", 10)])
        run.wait_for(lambda record: record.inputs["tuples"].taken == 3)
        assert _rows(run.read("named")) == [(1, "first"), (2, "second")]


@pytest.mark.usefixtures("spark_ready")
def test_a_bounded_dataframe_and_an_endless_run_are_refused(data: Path, spark_ready: Any) -> None:
    with pytest.raises(pk.QueryError, match="is not a stream") as failure:
        pk.dataframe(spark_ready.createDataFrame([(1, "x")], "ts long, k string"))
    assert "pk.files" in str(failure.value)
    with pytest.raises(pk.QueryError, match="the input 'events' never ends") as failure:
        _following(data).run()
    assert "use start()" in str(failure.value)


# Where results go


@pytest.mark.usefixtures("spark_ready")
def test_a_console_prints_and_a_callback_is_called_with_every_batch(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[int, list[dict[str, Any]]]] = []
    net = pk.Network("outlets")
    events = net.source("events", pk.memory([(1, "x", 1), (2, "y", 2), (3, "z", 3)], schema=SCHEMA, train=2))
    events.where("v > 1").output("shown", to=pk.console())
    events.output("called", to=pk.callback(lambda table, batch: calls.append((batch, table.to_pylist()))))
    result = net.run()
    assert calls == [
        (0, [{"ts": 1, "k": "x", "v": 1}, {"ts": 2, "k": "y", "v": 2}]),
        (1, [{"ts": 3, "k": "z", "v": 3}]),
    ]
    shown = capsys.readouterr().out
    assert "shown, batch 0" in shown
    assert "shown, batch 1" in shown
    assert result.record().outputs["shown"] == 2
    with pytest.raises(pk.QueryError, match="the tuples of output 'shown' are not kept: they go to the console"):
        result["shown"]


@pytest.mark.usefixtures("spark_ready")
def test_an_exception_in_a_callback_ends_the_run_and_the_batch_comes_again(tmp_path: Path) -> None:
    delivered: list[tuple[int, list[int]]] = []
    broken = True

    def consume(table: pa.Table, batch: int) -> None:
        if broken and batch == 1:
            raise ValueError("no room left")
        delivered.append((batch, table["v"].to_pylist()))

    def network() -> pk.Network:
        net = pk.Network("outlets")
        events = net.source("events", pk.memory([(1, "x", 1), (2, "y", 2), (3, "z", 3)], schema=SCHEMA, train=1))
        events.output("called", to=pk.callback(consume))
        return net

    with pytest.raises(pk.QueryError, match="box 'called': the callback failed on batch 1") as failure:
        network().run(checkpoint=str(tmp_path / "checkpoint"))
    assert "ValueError: no room left" in str(failure.value)
    assert isinstance(failure.value.__cause__, ValueError)
    assert delivered == [(0, [1])]
    broken = False
    network().run(checkpoint=str(tmp_path / "checkpoint"))
    assert delivered == [(0, [1]), (1, [2]), (2, [3])]


@pytest.mark.usefixtures("spark_ready")
def test_an_exception_in_on_batch_reaches_the_caller_as_it_is() -> None:
    net = pk.Network("outlets")
    net.source("events", pk.memory([(1, "x", 1)], schema=SCHEMA)).output("kept")

    def refuse(_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        net.run(on_batch=refuse)


# Networks


@pytest.mark.usefixtures("spark_ready")
def test_networks_of_one_session_do_not_mix() -> None:
    """Same name, same boxes, other content: a worker that served the first must not answer for the second."""
    for factor in (1, 10):
        net = pk.Network("twin")
        events = net.source("events", pk.memory([(1, "x", 1 * factor), (2, "x", 2 * factor)], schema=SCHEMA))
        events.aggregate({"s": f"sum(v) + {factor}"}, on="ts", size=10, by=["k"]).output("sums")
        assert net.run()["sums"].to_pylist() == [{"ts": 0, "k": "x", "s": 4 if factor == 1 else 40}]


@pytest.mark.usefixtures("spark_ready")
def test_several_stages_agree_with_the_local_engine() -> None:
    rows = [(at // 2, f"k{at % 7}", at) for at in range(400)]

    def network() -> pk.Network:
        net = pk.Network("stages")
        events = net.source("events", pk.memory(rows, schema=SCHEMA, train=220))
        by_key = events.aggregate({"n": "count(*)", "s": "sum(v)"}, on="ts", size=10, by=["k"])
        by_size = by_key.aggregate({"keys": "count(*)", "s": "sum(s)"}, size=20, by=["n"])
        by_size.aggregate({"keys": "sum(keys)", "s": "sum(s)"}, size=100).output("all")
        by_size.output("sizes")
        by_key.output("keys")
        return net

    on_spark, local = network().run(buckets=3), network().run("local", buckets=2)
    assert on_spark.record().batch == 1
    for output in ("keys", "sizes", "all"):
        assert _rows(on_spark[output]) == _rows(local[output])
    assert _rows(on_spark["all"]) == [(0, 70, sum(range(200))), (100, 70, sum(range(200, 400)))]


# The command line

APPLICATION = """
import penstock as pk

net = pk.Network("endless")
events = net.source("events", pk.files({data!r}, follow=True), schema={schema!r})
counts = events.aggregate({{"n": "count(*)"}}, on="ts", size=10)
counts.output("counts")
counts.output("lines", to=pk.jsonl({lines!r}))
"""


@pytest.mark.timeout(240)
def test_ctrl_c_stops_a_run_cleanly(data: Path, tmp_path: Path) -> None:
    """Exit code 0, no traceback, what was counted is shown, and no process stays behind."""
    _write(data, "a", [(1, "x", 1), (12, "x", 2)])
    application = tmp_path / "app.py"
    application.write_text(APPLICATION.format(data=str(data), schema=SCHEMA, lines=str(tmp_path / "lines")))
    command = [sys.executable, "-c", "from penstock.cli.main import app; app()", "run", str(application)]
    checkpoint = tmp_path / "checkpoint"
    process = subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 180
        while not list((checkpoint / "spark" / "commits").glob("[0-9]")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "the run has not committed a batch"
            time.sleep(0.05)
        # As a terminal does: to the whole foreground group, the JVM among it.
        os.killpg(process.pid, signal.SIGINT)
        told = process.communicate(timeout=60)[0]
        assert process.returncode == 0, told
        assert "Traceback" not in told
        assert "nanobind" not in told, "DuckDB complains of connections that nobody has closed"
        assert "2 read = 2 taken" in told
        deadline = time.monotonic() + 20
        while (left := _session(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == []
    finally:
        for member in _session(process.pid):
            member.kill()


def _session(leader: int) -> list[psutil.Process]:
    """The processes of a session that still live."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == leader and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(psutil.Process(pid))
    return found
