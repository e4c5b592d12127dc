"""`penstock explain --live` and what `penstock versions` says of the optimizer's work."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app, load

APPLICATION = """
import penstock as pk

rows = [(n, n % 10, f"text {n % 997}") for n in range(16_000)]
net = pk.Network("live")
stream = net.source("in", pk.memory(rows, schema={"ts": "int64", "k": "int64", "s": "string"}, train=2_000))
stream.where("md5(s) > '1'", name="dear").where("k = 3", name="cheap").output("o")
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APPLICATION)
    return file


def told(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}).output


def test_it_shows_costs_and_changes(application: Path, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "run")
    load(application, None).run(engine="local", optimize="on", checkpoint=checkpoint, durability="process")
    shown = told("explain", str(application), "--live", checkpoint)
    assert "filter dear <- in: k = 3, then md5(s) > '1'" in shown
    assert "box    us/tuple  selectivity  tuples/batch  (1 - s) / c" in shown
    assert "expected to save" in shown
    assert "arranged by the optimizer; changed: box cheap, box dear" in told(
        "versions", str(application), "--checkpoint", checkpoint
    ).replace("\n", " ")


def test_a_folder_without_a_run_is_refused(application: Path, tmp_path: Path) -> None:
    assert "there is no run in" in told("explain", str(application), "--live", str(tmp_path / "nothing"))


def test_a_word_that_is_neither_on_nor_off_is_refused_before_anything_starts(application: Path) -> None:
    assert "unknown optimize 'sometimes'" in told("run", str(application), "--optimize", "sometimes")
