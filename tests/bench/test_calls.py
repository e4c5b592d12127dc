"""Whole windows and single steps give what DuckDB computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_bench.calls import CALLS
from penstock_bench.contract import Job, Size
from penstock_bench.measure import run


@pytest.mark.parametrize(
    "peer",
    ["duckdb-few", pytest.param("penstock-stepwise", marks=[pytest.mark.slow, pytest.mark.peer])],
)
def test_every_peer_is_right(tmp_path: Path, peer: str) -> None:
    size = Size(rows=20_000, groups=0)
    CALLS.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    assert run(CALLS, Job("calls", peer, size, tmp_path / "data", tmp_path / "scratch")).correct


def test_the_checker_finds_a_single_wrong_count(tmp_path: Path) -> None:
    size = Size(rows=20_000, groups=0)
    CALLS.prepare(size, tmp_path / "data", lambda rows: None)
    job = Job("calls", "duckdb-few", size, tmp_path / "data", tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    assert run(CALLS, job).correct
    (tmp_path / "data" / "few" / "expected.parquet").unlink()
    (tmp_path / "data" / "many" / "expected.parquet").rename(tmp_path / "data" / "few" / "expected.parquet")
    assert CALLS.check(job, {}) is not None
