"""Runs on Spark are in the catalog while they run, and after a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock as pk
from penstock.catalog.database import Catalog
from penstock.cli.main import app

pytestmark = pytest.mark.spark


def network(folder: Path, *, more: bool = False) -> pk.Network:
    net = pk.Network("named")
    source = net.source("s", pk.files(str(folder), "jsonl", follow=True), schema={"ts": "int64"})
    source.connection_point("raw", keep=1000)
    source.aggregate({"n": "count(*)"}, size=10, name="count").output("counts")
    if more:
        source.output("all")
    return net


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.usefixtures("spark_ready")
def test_a_run_on_spark_is_found_by_name(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    (data / "1.jsonl").write_text('{"ts": 1}\n{"ts": 12}\n')
    run = network(data).start(name="monday", disk="1 GB", buckets=1)
    try:
        assert run.checkpoint == str(tmp_path / "home" / "runs" / "monday")
        run.wait_for(lambda record: record.inputs["s"].taken == 2 if "s" in record.inputs else False)
        (line, point) = json.loads(said("ls", "--json"))
        assert (line["kind"], line["name"], line["state"], line["rows"]) == ("run", "monday", "running", 2)
        assert "held by process" in line["told"]
        assert (point["kind"], point["rows"]) == ("point", 2)
        with pytest.raises(pk.WorldError, match="is in use by process"):
            network(data).start(name="monday")
        assert network(data).look("monday")["counts"].to_pylist() == [{"ts": 0, "n": 1}]
        run.change(network(data, more=True))
        entry = Catalog().named("monday")
        assert entry is not None
        assert "all" in [part.name for part in entry.parts]
        assert [v["number"] for v in json.loads(said("show", "monday", "--json"))["versions"]] == [1, 2]
        stored = {line["kind"] for line in json.loads(said("storage", "monday", "--json"))["stored"]}
        assert {"state", "connection point", "Spark's logs", "board", "versions"} <= stored
    finally:
        run.stop()
    assert json.loads(said("ls", "--json"))[0]["state"] == "stopped"
    assert f"deleted {run.checkpoint}" in said("drop", "monday", "--data")
    assert not Path(run.checkpoint).exists()


@pytest.mark.usefixtures("spark_ready")
def test_a_run_on_spark_ends_before_it_takes_up_more_than_it_may(data: Path, tmp_path: Path) -> None:
    for number in range(12):
        (data / f"{number:02}.jsonl").write_text("".join(f'{{"ts": {number * 500 + n}}}\n' for n in range(500)))
    net = pk.Network("named")
    source = net.source("s", pk.files(f"{data}/*.jsonl", "jsonl"), schema={"ts": "int64"}, progress=pk.ordered())
    source.output("all")
    with pytest.raises(pk.WorldError, match="more than is left of what the run may take up on disks"):
        net.run(checkpoint=str(tmp_path / "run"), disk="60 kB", train_rows=500)
    assert net.run(checkpoint=str(tmp_path / "run"), train_rows=500)["all"].num_rows == 6_000
