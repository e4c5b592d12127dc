"""A network that changes six times while it runs on Spark, in peace and under SIGKILL: what stays does not notice."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.spark import change_network
from tests.spark.lives import PER_FILE, Calm, Life, account_of, newest_batch, rows_of, told_by

APP = Path(__file__).with_name("change_network.py")
KILLS = int(os.environ.get("PENSTOCK_CHANGE_KILLS", "1"))
EVERY = int(os.environ.get("PENSTOCK_CHANGE_EVERY", "2"))
"""Batches between two changes: with 8 the run has 61 of them."""
FILES = 4 * EVERY + 4
STAYING = ("flows", "pairs")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def calm(spark_ready: Any, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """A run of the network that never changes."""
    return Calm.of(tmp_path_factory.mktemp("calm"), FILES, change_network.main, "never", "auto")


def _begin(data: Path, place: Path, every: str, way: str = "auto", log: str = "log") -> Life:
    return Life.begin((data, place / "run", place / "out", Path(every)), place / log, way, APP)


def _check(calm: Calm, told: dict[str, Any], out: Path) -> None:
    for key in ("batch", "ended", "inputs", "outputs", "late"):
        assert told[key] == calm.told[key], key
    for name in STAYING:
        assert rows_of(out, name) == rows_of(calm.out, name), name
        assert account_of(out / name) == account_of(calm.out / name)
    dropped = set(told["late"])
    tuples = calm.tuples.filter(pa.array(i not in dropped for i in calm.tuples["id"].to_pylist()))
    assert rows_of(out, "flows") == _flows(tuples)


def _flows(tuples: pa.Table) -> Counter[tuple[Any, ...]]:
    found = duckdb.sql(
        "SELECT k, count(*) AS n, CAST(sum(v) AS BIGINT) AS s, CAST(floor(ts / 20.0) * 20 AS BIGINT) AS ts"
        " FROM tuples GROUP BY ALL"
    )
    return Counter(found.fetchall())


def test_six_changes_leave_the_rows_of_what_stays(calm: Calm, tmp_path: Path) -> None:
    assert len(calm.tuples) == 2 * FILES * PER_FILE
    told = told_by(change_network.main, calm.data, tmp_path, str(EVERY), "auto")
    _check(calm, told, tmp_path / "out")
    assert told["versions"] == [
        [1, 0, []],
        [2, EVERY, ["box extra", "output extra"]],
        [3, 2 * EVERY, ["box extra", "output extra"]],
        [4, 3 * EVERY, ["box few"]],
        [5, 4 * EVERY, ["box totals", "output totals"]],
        [6, 5 * EVERY, ["box highest"]],
        [7, 6 * EVERY, ["output copy"]],
    ]
    print("seconds between batches:", told["seconds"])


def test_kills_around_the_changes_do_not_matter(calm: Calm, tmp_path: Path) -> None:
    rng = random.Random(11)
    board = tmp_path / "run" / "board"
    moments = sorted(rng.choice(range(1, 7)) * EVERY + rng.randint(-1, 1) for _ in range(KILLS))
    for number, moment in enumerate(moments):
        life = _begin(calm.data, tmp_path, str(EVERY), rng.choice(("express", "exchange")), f"life-{number}.log")
        life.kill_after(board, max(moment, newest_batch(board) + 1), rng.uniform(0, 0.4))
    told = _begin(calm.data, tmp_path, str(EVERY), log="last.log").finish()
    _check(calm, told, tmp_path / "out")
    assert len(told["versions"]) >= 2
