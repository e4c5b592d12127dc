"""`penstock storage`: what of a run lies where, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock as pk
from penstock.catalog.database import Catalog
from penstock.cli.main import app
from penstock.storage.folder import Folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    net = pk.Network("calls")
    rows = [(n if n % 10 else 0, f"k{n % 3}") for n in range(1_200)]
    schema = {"ts": "int64", "k": "string"}
    source = net.source("s", pk.memory(rows, schema=schema, train=30), progress=pk.ordered())
    source.connection_point("raw", keep=200, path=str(folder / "raw"))
    source.connection_point("beside", keep="1 MB")
    source.output("all", keep="40 kB")
    source.output("files", to=pk.parquet(str(folder / "files")))
    source.aggregate({"n": "count(*)"}, size=10_000, by="k", name="count").output("counts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_HOME", str(folder / "home"))
        net.run(engine="local", checkpoint=str(folder / "run"), durability="process", disk="1 GB", name="monday")
    return folder


def said(run: Path, *arguments: str, code: int = 0) -> str:
    environment = {"PENSTOCK_HOME": str(run / "home"), "COLUMNS": "240"}
    result = CliRunner().invoke(app, ["storage", *arguments], env=environment)
    assert result.exit_code == code, result.output
    return result.output


def lines(run: Path, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads(said(run, *arguments, "--json"))
    assert found["bytes"] == sum(line["bytes"] for line in found["stored"])
    return {(line["kind"], line["name"]): line for line in found["stored"]}


def test_every_file_is_accounted_for(run: Path) -> None:
    found = lines(run, "monday")
    files = [file for place in ("run", "raw") for file in (run / place).rglob("*") if file.is_file()]
    assert sum(line["bytes"] for line in found.values()) == sum(file.stat().st_size for file in files)
    assert sum(line["files"] for line in found.values()) == len(files)


def test_it_says_what_limits_each_and_what_could_be_freed(run: Path) -> None:
    found = lines(run, "monday")
    assert found["connection point", "raw"]["limit"] == "keeps 200 rows"
    assert found["connection point", "raw"]["free"] > 0
    assert "grace" in found["connection point", "raw"]["how"]
    assert found["connection point", "beside"]["limit"] == "keeps at most 1,000,000 bytes"
    assert found["results", "all"]["limit"] == "keeps at most 40,000 bytes"
    assert 0 < found["results", "all"]["free"] < found["results", "all"]["bytes"] <= 44_000
    assert found["results", "counts"]["limit"] == "keeps everything"
    assert "written elsewhere" in found["results", "files"]["limit"]
    assert found["late tuples", "s"]["limit"] == "keeps at most 1,073,741,824 bytes"
    assert found["board", ""]["files"] <= 32
    assert "count" in found["state", ""]["boxes"]


def test_people_get_a_table_and_the_places(run: Path) -> None:
    shown = said(run, "monday")
    for text in ("connection point 'raw'", "held by count", "of at most 1.0 GB, when full: refuse", f"{run}/raw"):
        assert text in shown


def test_a_checkpoint_will_do_also_one_that_is_in_no_catalog(run: Path) -> None:
    assert lines(run, str(run / "run")) == lines(run, "monday")
    other = lines(run / "elsewhere", str(run / "run"))
    assert "start the run once" in other["results", "all"]["limit"]
    assert ("connection point", "raw") not in other


def test_staged_parts_of_a_batch_that_is_not_done_are_told_apart(run: Path) -> None:
    before = lines(run, "monday")
    part = run / "run" / "outlet" / "all" / "part-00009999-0000.arrow"
    part.write_bytes(bytes(100))
    after = lines(run, "monday")
    part.unlink()
    assert (after["staged parts", "all"]["bytes"], after["staged parts", "all"]["files"]) == (100, 1)
    assert after["results", "all"] == before["results", "all"]


def test_what_cannot_be_read_is_still_counted(run: Path) -> None:
    (state,) = sorted((run / "run" / "state" / "1" / "0").glob("*.state"))[-1:]
    whole = state.read_bytes()
    state.write_bytes(whole[:-3])
    found = lines(run, "monday")["state", ""]
    state.write_bytes(whole)
    assert "cannot be read" in found["limit"]
    assert found["bytes"] > 0


def test_looking_changes_nothing(run: Path) -> None:
    before = Folder(str(run / "run")).files()
    said(run, "monday")
    assert Folder(str(run / "run")).files() == before
    assert len(Catalog(run / "home").runs()) == 1


def test_a_folder_without_a_run_is_refused(run: Path) -> None:
    assert "there is no run in" in said(run, str(run / "home"), code=2)
