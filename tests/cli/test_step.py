"""`penstock step`: the steps of an application's network, a line each."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

APPLICATION = """
import penstock as pk

net = pk.Network("app")
schema = {"ts": "int64", "k": "string"}
a = net.source("a", pk.memory([(1, "x"), (4, "y")], schema=schema))
b = net.source("b", pk.memory([(2, "z")], schema=schema))
pk.merge(a, b, name="both").output("out")
"""
ENDLESS = """
import penstock as pk

net = pk.Network("app")
net.source("packets", pk.generator(rate=10)).where("len > 0").output("out")
"""


@pytest.fixture
def application(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APPLICATION)
    return str(file)


def step(*arguments: str, typed: str | None = None) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, ["step", *arguments], input=typed)
    return result.exit_code, result.output.splitlines()


def test_every_step_is_a_line_and_the_end_says_what_has_left(application: str) -> None:
    code, lines = step(application)
    assert code == 0
    assert lines[0].startswith("   1  Forward    both          (1, x) -> (1, x)  |  TSM a=1 b=2")
    assert lines[-1] == "out: 3 tuples"
    assert [line.split()[0] for line in lines[:-1]] == [str(n + 1) for n in range(len(lines) - 1)]


def test_a_limit_stops_it_and_shows_what_is_queued(application: str) -> None:
    code, lines = step(application, "--limit", "1")  # the tuple and the end of b came together
    assert (code, lines[1:]) == (0, ["out: 1 tuples", "still queued: b -> both: 2"])


def test_with_a_pause_every_step_waits_for_enter(application: str) -> None:
    code, lines = step(application, "--pause", typed="\nq\n")
    assert code == 0
    assert [line.split()[0] for line in lines[:2]] == ["1", "2"]
    assert lines[2] == "out: 2 tuples"


def test_a_pause_ends_where_nobody_can_press_enter(application: str) -> None:
    code, lines = step(application, "--pause", typed="")
    assert (code, lines[1:]) == (0, ["out: 1 tuples", "still queued: b -> both: 2"])


def test_an_input_that_never_ends_needs_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(ENDLESS)
    code, lines = step(str(file))
    assert code == 2
    assert "the input 'packets' never ends" in " ".join(lines)
    code, lines = step(str(file), "--limit", "5")
    assert (code, lines[5]) == (0, "out: 5 tuples")
