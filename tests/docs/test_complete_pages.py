"""Pages that list things list all of them, and the files that pages name are there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import typer

import penstock as pk
from penstock.cli.main import app
from penstock.errors import PenstockError

ROOT = Path(__file__).resolve().parents[2]
RUNNING = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = ("", "src/penstock", "src")
"""Where paths on pages start from."""
_PATH = re.compile(r"`((?:src|tests|docs|bench|[a-z]+)/[\w./-]*\w\.(?:py|md))`")


def test_every_argument_of_run_and_start_is_on_the_page_on_running() -> None:
    for method in (pk.Network.run, pk.Network.start):
        for name in inspect.signature(method).parameters:
            assert name == "self" or re.search(rf"`{name}`|\b{name}=", RUNNING), name


def test_every_command_and_its_options_are_on_the_page_on_running() -> None:
    lines = RUNNING.splitlines()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        (row,) = [line for line in lines if re.match(rf"\| `penstock {name}\b", line)]
        options = [option for p in command.params for option in p.opts if option.startswith("--") and p.name != "help"]
        # The benchmarks have a page of their own.
        assert name == "bench" or all(f"`{option}`" in row for option in options), f"{name}: {options}"


def test_every_call_of_a_run_is_on_the_page_on_running() -> None:
    for name in dir(pk.Run):
        assert name.startswith("_") or f"`run.{name}" in RUNNING, name


def test_every_kind_of_error_is_on_the_page_on_running() -> None:
    for error in PenstockError.__subclasses__():
        assert f"`pk.{error.__name__}`" in RUNNING


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_are_there(path: Path) -> None:
    for named in _PATH.findall(path.read_text(encoding="utf-8")):
        assert any((ROOT / place / named).is_file() for place in PLACES), named
