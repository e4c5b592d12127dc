"""The examples of merging, each in a process of its own on Spark: what they say is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "merging"

# Each runs for some seconds on a clock: two at once would be late.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("examples")]
long = pytest.mark.skipif("PENSTOCK_EXAMPLES" not in os.environ, reason="takes minutes; PENSTOCK_EXAMPLES=1 runs it")


def told(name: str, *arguments: str) -> dict[str, Any]:
    """What an example prints in the end; it must have found nothing wrong."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_copy_is_killed_and_nothing_is_missing() -> None:
    found = told("high_availability", "--kills", "1", "--away", "2", "--settle", "1")
    assert (found["missing"], found["too_many"], found["kills"]) == (0, 0, 1)


def test_a_plan_takes_the_place_of_another() -> None:
    found = told("cutover", "--seconds", "1")
    assert (found["missing"], found["too_many"]) == (0, 0)
    assert found["batches_of_both"] > 0


@long
def test_a_query_that_starts_late_is_complete() -> None:
    found = told("jumpstart")
    assert (found["missing"], found["wrong"]) == (0, 0)
    assert found["wrong_of_the_empty_one"] > 0


@long
def test_two_plans_give_every_result_once() -> None:
    found = told("fast_availability", "--phases", "2")
    assert (found["missing"], found["wrong"]) == (0, 0)


@pytest.mark.parametrize("name", sorted(file.stem for file in EXAMPLES.glob("*.py") if file.stem != "checking"))
def test_every_example_says_what_it_shows(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"python examples/merging/{name}.py" in done.stdout
