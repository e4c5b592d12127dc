"""Runs are counted, ended and compared as promised."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from penstock.errors import WorldError
from penstock_bench.contract import Job, Run, Size
from penstock_bench.measure import best, ratios, run
from penstock_bench.memory import Tree
from penstock_bench.q4 import Q4
from penstock_bench.worker import decode, encode

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; block = bytearray(b'x') * 200_000_000; time.sleep(60)"])
time.sleep(60)
"""


def outcome(peer: str, seconds: float, *, correct: bool = True, mb: float = 100.0) -> Run:
    return Run(peer, 1_000_000, seconds, mb, correct)


def test_memory_counts_descendants_and_closing_ends_them() -> None:
    process = subprocess.Popen([sys.executable, "-c", PARENT])
    with Tree(process.pid) as tree:
        end = time.monotonic() + 20
        while tree.peak_bytes < 200_000_000 and time.monotonic() < end:
            time.sleep(0.05)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert len(family) == 2
        assert 200_000_000 <= tree.peak_bytes < 400_000_000
    process.wait(5)
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family)


def test_the_best_round_counts_but_every_round_must_be_right() -> None:
    runs = {
        "a": [outcome("a", 2.0, mb=50), outcome("a", 1.0, mb=70)],
        "b": [outcome("b", 1.0), outcome("b", 3.0, correct=False)],
    }
    chosen = best(runs)
    assert (chosen["a"].seconds, chosen["a"].peak_rss_mb, chosen["a"].correct) == (1.0, 70, True)
    assert (chosen["b"].seconds, chosen["b"].correct) == (1.0, False)


def test_a_ratio_is_ours_over_theirs() -> None:
    assert ratios({"penstock": outcome("penstock", 1.0), "slow": outcome("slow", 4.0)}) == {"slow": 4.0}
    assert ratios({"slow": outcome("slow", 4.0)}) == {}


def test_a_job_survives_the_way_to_its_process() -> None:
    job = Job("q4", "duckdb", Size(5, 2), Path("/data"), Path("/scratch"))
    assert decode(encode(job)) == job


def test_a_peer_that_fails_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    job = Job("q4", "duckdb", Size(1, 1), tmp_path / "nowhere", tmp_path)
    with pytest.raises(WorldError, match="peer 'duckdb' of benchmark 'q4' failed") as failure:
        run(Q4, job)
    assert failure.value.found is not None
    assert "nowhere" in failure.value.found
