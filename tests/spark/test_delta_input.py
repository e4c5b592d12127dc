"""Delta tables as inputs on Spark: a network follows the table of another one, from before it is there."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import penstock as pk

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

ROWS = [(t, "xy"[t % 2]) for t in range(24)]
SUMS = [{"ts": 0, "n": 20}, {"ts": 20, "n": 4}]


def writing(table: str) -> pk.Network:
    net = pk.Network("writing")
    source = net.source("packets", pk.memory(ROWS, schema={"ts": "int64", "k": "string"}, train=3))
    source.aggregate({"n": "count(*)"}, size=10, by="k").output("counts", to=pk.delta(table, compact=2))
    return net


def following(table: str) -> pk.Network:
    net = pk.Network("following")
    schema = {"ts": "int64", "k": "string", "n": "int64"}
    counts = net.source("counts", pk.delta(table, follow=True), schema=schema, on="ts", progress=pk.punctuated())
    counts.aggregate({"n": "sum(n)"}, size=20).output("sums")
    return net


def test_a_table_is_followed_from_before_it_is_there_and_after_a_restart(tmp_path: Path) -> None:
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    run = following(table).start(checkpoint=checkpoint, buckets=2)
    writing(table).run(engine="local")
    run.wait_for(lambda record: record.outputs.get("sums", 0) >= 1)
    run.stop()
    again = following(table).start(checkpoint=checkpoint, buckets=2)
    again.wait_for(lambda record: record.outputs.get("sums", 0) == 2)
    result = again.stop()
    assert result["sums"].to_pylist() == SUMS
    assert result.record().inputs["counts"].late == 0


def test_a_version_that_cannot_be_read_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    rows = pa.table({"ts": [1, 2], "k": ["x", "y"], "n": [1, 1]})
    deltalake.write_deltalake(table, rows)
    run = following(table).start(checkpoint=checkpoint)
    run.wait_for(lambda record: "counts" in record.inputs and record.inputs["counts"].taken == 2)
    deltalake.DeltaTable(table).delete("ts = 1")
    with pytest.raises(pk.WorldError, match=r"version 1 of the Delta table .* deletes or rewrites rows"):
        run.wait_for(lambda record: record.batch > 9)


ELEMENTS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "p": "string"}
LIVES = [
    ("insert", 6, 7, None, "A"),
    ("insert", 8, None, None, "B"),
    ("adjust", 6, 12, 7, "A"),
    ("stable", 9, None, None, None),
    ("adjust", 8, 10, None, "B"),
    ("insert", 11, 20, None, "C"),
]


def following_elements(table: str, now: str) -> pk.Network:
    net = pk.Network("following")
    connector = pk.temporal(pk.delta(table, follow=True))
    elements = net.source("in", connector, schema={"sync": "int64", **ELEMENTS}, progress=pk.punctuated())
    elements.where("p <> 'C'").output("now", to=pk.current(pk.delta(now)))
    elements.as_facts().output("facts")
    return net


def test_elements_are_followed_from_before_their_table_is_there_and_after_a_restart(tmp_path: Path) -> None:
    table, now, checkpoint = (str(tmp_path / name) for name in ("table", "now", "checkpoint"))
    run = following_elements(table, now).start(checkpoint=checkpoint, buckets=2)
    net = pk.Network("writing")
    source = pk.temporal(pk.memory(LIVES, schema=ELEMENTS, train=2))
    net.source("in", source, progress=pk.punctuated()).output("out", to=pk.delta(table))
    net.run(engine="local")
    run.wait_for(lambda record: record.inputs["in"].taken >= 1)
    run.stop()
    again = following_elements(table, now).start(checkpoint=checkpoint, buckets=2)
    again.wait_for(lambda record: record.outputs.get("facts", 0) == 3)
    result = again.stop()
    assert sorted(tuple(row.values()) for row in result["facts"].to_pylist()) == [
        (6, 12, "A"),
        (8, 10, "B"),
        (11, 20, "C"),
    ]
    held = deltalake.DeltaTable(now).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in held) == [(6, 12, "A"), (8, 10, "B")]
    assert result.errors("in").num_rows == 0
