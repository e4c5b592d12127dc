"""Queries that are attached to a network while it runs on Spark, in peace and under SIGKILL: as if always there."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark import attach_network
from tests.spark.attach_network import QUERIES
from tests.spark.lives import Calm, Life, newest_batch, rows_of, told_by

APP = Path(__file__).with_name("attach_network.py")
KILLS = int(os.environ.get("PENSTOCK_ATTACH_KILLS", "1"))
EVERY = int(os.environ.get("PENSTOCK_ATTACH_EVERY", "1"))
"""Batches between two events."""
FILES = 12 * EVERY
OUTPUTS = ("flows", "threes", "few", "joined")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def calm(spark_ready: Any, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """A run in which the queries have always been there."""
    return Calm.of(tmp_path_factory.mktemp("calm"), FILES, attach_network.main, "always", "auto")


def _begin(data: Path, place: Path, every: str, way: str = "auto", log: str = "log") -> Life:
    return Life.begin((data, place / "run", place / "out", Path(every)), place / log, way, APP)


def _check(calm: Calm, told: dict[str, Any], out: Path) -> None:
    for key in ("ended", "inputs", "late"):
        assert told[key] == calm.told[key], key
    for name in OUTPUTS:
        found = rows_of(out, name)
        assert found.total() > 0, name
        assert found == rows_of(calm.out, name), name


def test_attached_queries_give_what_they_would_have_given(calm: Calm, tmp_path: Path) -> None:
    told = told_by(attach_network.main, calm.data, tmp_path, str(EVERY), "auto")
    _check(calm, told, tmp_path / "out")
    assert told["attached"] == list(QUERIES)


def test_kills_around_attaching_do_not_matter(calm: Calm, tmp_path: Path) -> None:
    rng = random.Random(5)
    board = tmp_path / "run" / "board"
    moments = sorted(rng.choice(range(1, 5)) * EVERY + rng.randint(-1, 2) for _ in range(KILLS))
    for number, moment in enumerate(moments):
        life = _begin(calm.data, tmp_path, str(EVERY), rng.choice(("express", "exchange")), f"life-{number}.log")
        life.kill_after(board, max(moment, newest_batch(board) + 1), rng.uniform(0, 0.4))
    told = _begin(calm.data, tmp_path, str(EVERY), log="last.log").finish()
    _check(calm, told, tmp_path / "out")
    assert told["attached"] == list(QUERIES)
