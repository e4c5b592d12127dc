"""`--architecture` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

APPLICATION = """
import penstock as pk

net = pk.Network("orders")
rows = [(3,), (1,), (2,), (9,)]
packets = net.source("packets", pk.memory(rows, schema={"ts": "int64"}), progress=pk.delayed(5))
packets.output("sorted")
"""


@pytest.fixture
def application(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APPLICATION)
    return str(file)


def test_explain_shows_either_plan(application: str) -> None:
    for arguments, there in (([], False), (["--architecture", "in-order"], True)):
        shown = CliRunner().invoke(app, ["explain", application, *arguments])
        assert shown.exit_code == 0
        assert ("cleanse packets.sorted <- packets: on ts" in shown.output) == there


def test_an_unknown_architecture_is_refused_with_those_that_exist(application: str) -> None:
    shown = CliRunner().invoke(app, ["explain", application, "--architecture", "sideways"])
    assert shown.exit_code == 2
    assert "unknown architecture 'sideways'" in shown.output
    assert "one of out-of-order, in-order" in shown.output


@pytest.mark.spark
def test_run_lets_tuples_out_in_order(application: str, spark_ready: object) -> None:
    shown = CliRunner().invoke(app, ["run", application, "--architecture", "in-order"])
    assert shown.exit_code == 0, shown.output
    values = [line.strip("│ ") for line in shown.output.splitlines() if line.startswith("│")]
    assert values == ["1", "2", "3", "9"]
