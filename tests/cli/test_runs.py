"""`penstock ls`, `penstock show` and `penstock drop`, and names of runs in other commands."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

APPLICATION = """
import penstock as pk

net = pk.Network("calls")
source = net.source("s", pk.memory([(1, "a"), (2, "b")], schema={"ts": "int64", "k": "string"}))
source.connection_point("raw", keep=1000, key="k")
source.join(pk.table("cells.csv"), "l.k = r.k", name="cell").output("all")
"""


@pytest.fixture(autouse=True)
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("cells.csv").write_text("k,town\na,Ulm\nb,Bonn\n")
    Path("app.py").write_text(APPLICATION)


def start(name: str | None = None) -> None:
    runpy.run_path("app.py")["net"].run(engine="local", checkpoint="run", name=name)


def said(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), terminal_width=200)
    assert result.exit_code == code, result.output
    return result.output


def test_ls_lists_runs_points_and_tables(tmp_path: Path) -> None:
    assert "no run has been started" in said("ls")
    start()
    lines = [line.split() for line in said("ls").splitlines()]
    assert lines[0] == ["kind", "name", "state", "batch", "rows", "size"]
    assert lines[1][:5] == ["run", "calls", "stopped", "0", "2"]
    assert lines[2][:3] == ["point", "calls/raw", "2"]
    assert lines[3] == ["table", "calls/cell"]
    found = json.loads(said("ls", "--json"))
    assert found[0]["place"] == f"{tmp_path}/run"
    assert found[0]["bytes"] > found[1]["bytes"] > 0


def test_show_says_what_a_run_is_made_of(tmp_path: Path) -> None:
    start("monday")
    shown = said("show", "monday")
    for text in (
        "run: monday",
        "network: calls",
        "state: stopped",
        f"checkpoint: {tmp_path}/run",
        "ts int64, k string",
    ):
        assert text in shown
    assert f"point raw: {tmp_path}/run/points/raw" in shown
    told = json.loads(said("show", "monday", "--json"))
    assert told["batch"] == 0
    assert [version["number"] for version in told["versions"]] == [1]
    assert told["boxes"]["cell"]["tuples_in"] == 2
    assert {part["name"]: part["kind"] for part in told["parts"]}["cell"] == "table"


def test_show_of_a_point_says_what_it_holds() -> None:
    start()
    told = json.loads(said("show", "calls/raw", "--json"))
    assert (told["kind"], told["rows"], told["keeps"]) == ("point", 2, "1,000 rows")
    assert told["columns"] == {"ts": "int64", "k": "string"}
    assert "columns: ts int64, k string" in said("show", "calls/raw")
    assert "has no part 'x'" in said("show", "calls/x", code=2)


def test_other_commands_take_a_name(tmp_path: Path) -> None:
    start("monday")
    for command in ("why", "versions", "points", "trace"):
        assert said(command, "app.py", "--checkpoint", "monday")
    assert "has no open shard '0'" in said("close", "app.py", "s", "0", "--checkpoint", "monday", code=2)
    assert "there is no run named 'x'" in said("why", "app.py", "--checkpoint", "x", code=2)
    assert "one of monday" in said("show", "x", code=2)


def test_drop_forgets_and_deletes(tmp_path: Path) -> None:
    start()
    assert f"its checkpoint stays: {tmp_path}/run" in said("drop", "calls")
    assert "no run has been started" in said("ls")
    start()
    assert f"deleted {tmp_path}/run" in said("drop", "calls", "--data")
    assert not Path("run").exists()
    assert "say what to forget" in said("drop", code=2)


def test_runs_that_are_gone_are_forgotten_together() -> None:
    start()
    Path("run").rename("moved")
    assert "gone" in said("ls")
    assert said("drop", "--gone") == "'calls' is forgotten\n"
    assert "no run has been started" in said("ls")
