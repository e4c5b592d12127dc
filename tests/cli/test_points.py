"""`penstock points` on the command line."""

from __future__ import annotations

import runpy
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.main import app

APPLICATION = """
import penstock as pk

net = pk.Network("n")
source = net.source("s", pk.memory([(1, "a"), (2, "b")], schema={"ts": "int64", "k": "string"}))
source.connection_point("raw", keep=1000, key="k")
source.output("all")
"""


def test_it_lists_what_each_point_holds_and_where(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "app.py", tmp_path / "run"
    file.write_text(APPLICATION)
    runpy.run_path(str(file))["net"].run(engine="local", checkpoint=str(checkpoint))
    result = CliRunner().invoke(app, ["points", str(file), "--checkpoint", str(checkpoint)], terminal_width=200)
    assert result.exit_code == 0, result.output
    assert f"raw: {checkpoint}/points/raw" in result.output
    row = next(line for line in result.output.splitlines() if "1,000 rows" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")][:2] == ["raw", "2"]


def test_a_network_without_any_says_so(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "app.py", tmp_path / "run"
    file.write_text("\n".join(line for line in APPLICATION.splitlines() if "connection_point" not in line))
    runpy.run_path(str(file))["net"].run(engine="local", checkpoint=str(checkpoint))
    result = CliRunner().invoke(app, ["points", str(file), "--checkpoint", str(checkpoint)])
    assert "the network has no connection points" in result.output
