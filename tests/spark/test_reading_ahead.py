"""A query whose long history is read ahead, beside a run on Spark, in peace and under SIGKILL: as if always there."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark import ahead_network
from tests.spark.lives import Calm, Life, newest_batch, rows_of, told_by
from tests.thoroughness import THOROUGH

APP = Path(__file__).with_name("ahead_network.py")
KILLS = int(os.environ.get("PENSTOCK_ATTACH_KILLS", "1"))
FILES = 40 + 20 * (KILLS - 1)
AFTER = 6
"""The batch behind which the query is attached; there are ten with live tuples, and more with history."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def calm(spark_ready: Any, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """A run in which the query has always been there."""
    return Calm.of(tmp_path_factory.mktemp("calm"), FILES, ahead_network.main, "always", "auto")


def _begin(data: Path, place: Path, after: str, way: str = "auto", log: str = "log") -> Life:
    return Life.begin((data, place / "run", place / "out", Path(after)), place / log, way, APP)


def _check(calm: Calm, out: Path) -> None:
    for name in ("flows", "sums"):
        found = rows_of(out, name)
        assert found.total() > 0, name
        assert found == rows_of(calm.out, name), name


@pytest.mark.parametrize("way", ["auto", "exchange"] if THOROUGH >= 1 else ["auto"])
def test_a_history_that_is_read_ahead_gives_what_it_would_have_given(calm: Calm, tmp_path: Path, way: str) -> None:
    told = told_by(ahead_network.main, calm.data, tmp_path, str(AFTER), way)
    _check(calm, tmp_path / "out")
    assert told["taken"] > 0
    assert told["read"] == calm.told["read"]


def test_kills_while_a_history_is_read_ahead_do_not_matter(calm: Calm, tmp_path: Path) -> None:
    rng = random.Random(8)
    board = tmp_path / "run" / "board"
    for number in range(KILLS):
        life = _begin(calm.data, tmp_path, str(AFTER), rng.choice(("express", "exchange")), f"life-{number}.log")
        life.kill_after(board, max(AFTER + rng.randint(0, 4), newest_batch(board) + 1), rng.uniform(0, 0.4))
    _begin(calm.data, tmp_path, str(AFTER), log="last.log").finish()
    _check(calm, tmp_path / "out")
