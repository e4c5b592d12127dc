"""Feedback on Spark: boxes purge on either way of a batch, and a network in another process skips."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest
from tests.spark.feedback_network import SCHEMA

import penstock as pk
from penstock.runtime.board import Board, Record
from penstock.runtime.offsets import intake_offset
from penstock.storage.folder import Folder

pytestmark = pytest.mark.spark
ROWS = [(ts, "ab"[ts % 2]) for ts in range(20)]
PATIENCE_SECONDS = 90.0


def write(folder: Path, name: str, rows: list[tuple[int, str]]) -> None:
    (folder / f".{name}").write_text("".join(json.dumps({"ts": ts, "k": k}) + "\n" for ts, k in rows))
    (folder / f".{name}").rename(folder / name)


def wait_for(board: Path, condition: Callable[[Record], bool]) -> Record:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition(record := Board(Folder(str(board))).latest()):
        assert time.monotonic() < deadline, f"it is at batch {record.batch}: {record.inputs}"
        time.sleep(0.1)
    return record


@pytest.mark.usefixtures("spark_ready")
def test_a_network_in_another_process_skips_what_the_merge_has(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    write(tmp_path / "rows", "1.jsonl", ROWS[:10])
    quick = pk.Network("quick")
    rows = quick.source("rows", pk.memory(ROWS, schema=SCHEMA), progress=pk.ordered())
    rows.output("copy", to=pk.delta(str(tmp_path / "quick")))
    quick.run(engine="local")

    net = pk.Network("merging")
    tables = {name: pk.delta(str(tmp_path / name), follow=True, feedback=True) for name in ("quick", "slow")}
    copies = [net.source(n, table, schema=SCHEMA, on="ts", progress=pk.punctuated()) for n, table in tables.items()]
    pk.lmerge(*copies, on="ts", name="merged", feedback=True).output("all")
    script = Path(__file__).with_name("feedback_network.py")
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdin=subprocess.PIPE) as writer:
        try:
            board = tmp_path / "writing" / "board"
            wait_for(board, lambda record: "rows" in record.inputs and record.inputs["rows"].read == 10)
            run = net.start(checkpoint=str(tmp_path / "merging"), buckets=2)
            run.wait_for(lambda record: sum(count.read for count in record.inputs.values()) == 30, PATIENCE_SECONDS)
            # What the merge has said is written behind its batch, and heard before one that is planned later.
            wait_for(board, lambda _: any((tmp_path / "slow" / "_penstock_feedback").glob("*")))
            time.sleep(1.0)
            write(tmp_path / "rows", "2.jsonl", ROWS[10:])
            record = wait_for(board, lambda record: record.inputs["rows"].read == 20)
            run.stop()
        finally:
            assert writer.stdin is not None
            writer.stdin.close()
    assert (record.inputs["rows"].taken, record.inputs["rows"].skipped) == (10, 10)
    assert record.boxes["work"].tuples_in == 10
    assert "rows" in intake_offset(record.offset).floors
    assert deltalake.DeltaTable(str(tmp_path / "slow")).to_pyarrow_table().num_rows == 10
    assert [tuple(row.values()) for row in run.read("all").to_pylist()] == ROWS


@pytest.mark.usefixtures("spark_ready")
@pytest.mark.parametrize("way", ["express", "exchange"])
def test_boxes_purge_what_the_merge_has(way: str, tmp_path: Path) -> None:
    def network() -> pk.Network:
        net = pk.Network("net")
        told = net.source("told", pk.memory(ROWS, schema=SCHEMA, train=5), progress=pk.ordered())
        silent = net.source("silent", pk.memory(ROWS, schema=SCHEMA, train=5), progress=pk.delayed(100))
        pairs = silent.join(silent, "l.k = r.k", on="ts", size=2, name="pairs").map(ts="l_ts", k="l_k", at="r_ts")
        expected = told.join(told, "l.k = r.k", on="ts", size=2).map(ts="l_ts", k="l_k", at="r_ts")
        # Two stages: what is counted is spread otherwise than what is joined.
        counts = [
            s.aggregate({"n": "count(*)"}, on="ts", size=2, by="at", name=name)
            for s, name in ((expected, "first"), (pairs, "second"))
        ]
        pk.lmerge(*counts, on="ts", name="merged", feedback=True).output("all")
        return net

    there = network().run(checkpoint=str(tmp_path / "spark"), way=way, buckets=2)
    here = network().run(engine="local", buckets=2)
    assert sorted(there["all"].to_pylist(), key=str) == sorted(here["all"].to_pylist(), key=str)
    for box in ("pairs", "second"):
        work = there.record().boxes[box]
        assert work.purged > 0
        assert (work.purged, work.skipped) == (here.record().boxes[box].purged, here.record().boxes[box].skipped)
