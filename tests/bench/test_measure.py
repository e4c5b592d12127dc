"""Runs are counted, ended and compared as promised."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from penstock.errors import WorldError
from penstock_bench.contract import Job, Run, Size, Turn
from penstock_bench.heartbeats import HEARTBEATS
from penstock_bench.measure import best, in_turns, measure, processes, ratios, run, run_in_turn
from penstock_bench.memory import Tree
from penstock_bench.q4 import Q4, FlowCounts
from penstock_bench.worker import decode, encode

SMALL = Size(100_000, 10)
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; block = bytearray(b'x') * 200_000_000; time.sleep(60)"])
time.sleep(60)
"""


class TakingTurns(FlowCounts):
    """q4, as it would be if its peers shared a process."""

    turns = 2


def outcome(peer: str, seconds: float, *, correct: bool = True, mb: float = 100.0, at: tuple[int, int] = (1, 1)) -> Run:
    return Run(peer, 1_000_000, seconds, mb, correct, round=at[0], turn=at[1])


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of q4, small."""
    folder = tmp_path_factory.mktemp("q4")
    Q4.prepare(SMALL, folder, lambda rows: None)
    return folder


def job_in(folder: Path, packets: Path, peer: str = "duckdb") -> Job:
    folder.mkdir()
    return Job("q4", peer, SMALL, packets, folder)


def test_memory_counts_descendants_and_closing_ends_them() -> None:
    process = subprocess.Popen([sys.executable, "-c", PARENT])
    with Tree(process.pid) as tree:
        end = time.monotonic() + 60
        while tree.peak_bytes < 200_000_000 and time.monotonic() < end:
            time.sleep(0.05)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert len(family) == 2
        assert 200_000_000 <= tree.peak_bytes < 400_000_000
    process.wait(30)
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family)


def test_the_best_round_counts_but_every_round_must_be_right() -> None:
    runs = {
        "a": [outcome("a", 2.0, mb=50), outcome("a", 1.0, mb=70)],
        "b": [outcome("b", 1.0), outcome("b", 3.0, correct=False)],
    }
    chosen = best(runs)
    assert (chosen["a"].seconds, chosen["a"].peak_pss_mb, chosen["a"].correct) == (1.0, 70, True)
    assert (chosen["b"].seconds, chosen["b"].correct) == (1.0, False)


def test_a_ratio_is_ours_over_theirs() -> None:
    assert ratios({"penstock": outcome("penstock", 1.0), "slow": outcome("slow", 4.0)}) == {"slow": 4.0}
    assert ratios({"slow": outcome("slow", 4.0)}) == {}


def test_a_warm_up_does_not_count_but_must_be_right() -> None:
    warm_up = outcome("a", 0.5, correct=False, at=(1, 0))
    (chosen,) = best({"a": [warm_up, outcome("a", 1.0)]}).values()
    assert (chosen.seconds, chosen.correct) == (1.0, False)


def test_jobs_survive_the_way_to_their_process() -> None:
    jobs = [Job("q4", peer, Size(5, 2), Path("/data"), Path("/scratch")) for peer in ("duckdb", "penstock")]
    assert decode(encode(jobs)) == jobs


def test_every_run_has_a_process_of_its_own() -> None:
    assert processes(Q4, Q4.peers[2:], 2) == [
        [Turn(1, "spark-hdfs")],
        [Turn(1, "duckdb")],
        [Turn(2, "spark-hdfs")],
        [Turn(2, "duckdb")],
    ]


def test_peers_that_take_turns_share_the_process_of_a_round_and_change_places() -> None:
    first, second = processes(HEARTBEATS, HEARTBEATS.peers, 2)
    assert {turn.round for turn in first} == {1}
    assert {turn.round for turn in second} == {2}
    assert [(turn.number, turn.peer.removeprefix("penstock")) for turn in first] == [
        (0, ""), (0, "-heartbeats"), (1, "-heartbeats"), (1, ""), (2, ""), (2, "-heartbeats"),
        (3, "-heartbeats"), (3, ""), (4, ""), (4, "-heartbeats"), (5, "-heartbeats"), (5, ""),
    ]  # fmt: skip


def test_turns_are_timed_one_by_one(tmp_path: Path, packets: Path) -> None:
    bench, heard = TakingTurns(), []
    runs = measure(
        bench,
        SMALL,
        [peer for peer in bench.peers if peer.name == "duckdb"],
        rounds=1,
        data=packets,
        scratch=tmp_path,
        watch=lambda turn, stage: heard.append((turn.round, turn.number)) if stage == "timed" else None,
    )
    assert heard == [(run.round, run.turn) for run in runs["duckdb"]] == [(1, 0), (1, 1), (1, 2)]
    assert all(run.correct and run.seconds > 0 for run in runs["duckdb"])
    assert not list(tmp_path.iterdir())


def test_runs_in_turn_share_one_process(tmp_path: Path, packets: Path) -> None:
    jobs = [job_in(tmp_path / name, packets) for name in ("first", "second")]
    assert [each.correct for each in run_in_turn(Q4, jobs, lambda at, stage: None)] == [True, True]
    # The one log of the process is in the folder that it was started in.
    assert [(tmp_path / name / "worker.log").exists() for name in ("first", "second")] == [True, False]


def test_the_peer_whose_turn_fails_is_named(tmp_path: Path, packets: Path) -> None:
    jobs = [job_in(tmp_path / "first", packets), job_in(tmp_path / "second", packets, "nobody")]
    with pytest.raises(WorldError, match="peer 'nobody' of benchmark 'q4' failed"):
        run_in_turn(Q4, jobs, lambda at, stage: None)


def test_pairs_are_compared_within_their_process() -> None:
    # The second process is slower for both, by more than the two differ.
    seconds = {"a": [(9.0, 1, 0), (2.0, 1, 1), (4.0, 1, 2), (20.0, 2, 1), (10.0, 2, 2)]}
    seconds["b"] = [(9.0, 1, 0), (3.0, 1, 1), (3.0, 1, 2), (30.0, 2, 1), (20.0, 2, 2)]
    runs = {name: [outcome(name, s, at=(r, t)) for s, r, t in own] for name, own in seconds.items()}
    told = in_turns([("b", "a"), ("c", "a")], runs)
    assert told["seconds"] == {"a": [[2.0, 4.0], [20.0, 10.0]], "b": [[3.0, 3.0], [30.0, 20.0]]}
    assert told["peers"]["a"] == {
        "rounds": [{"best": 2.0, "median": 3.0}, {"best": 10.0, "median": 15.0}],
        "all": {"best": 2.0, "median": 7.0},
    }
    assert told["ratios"] == {
        "b / a": {
            "rounds": [{"best": 1.5, "median": 1.0}, {"best": 2.0, "median": 25 / 15}],
            "all": {"best": 1.75, "median": pytest.approx((1.0 + 25 / 15) / 2)},
        }
    }


def test_a_peer_that_fails_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    job = Job("q4", "duckdb", Size(1, 1), tmp_path / "nowhere", tmp_path)
    with pytest.raises(WorldError, match="peer 'duckdb' of benchmark 'q4' failed") as failure:
        run(Q4, job)
    assert failure.value.found is not None
    assert "nowhere" in failure.value.found
