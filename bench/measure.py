"""Runs: each in a fresh process tree, peers taking turns, so that a slow minute of the machine is shared by all.

Two processes of the same peer may differ by some percent. Where less than that is asked for, a benchmark has `turns`:
the peers of a round then share a process, one after the other, so that what is compared happened in the same one.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from penstock.errors import WorldError
from penstock_bench.contract import OURS, Benchmark, Job, Peer, Run, Size, Turn, labelled, named
from penstock_bench.memory import Tree
from penstock_bench.worker import encode

LOG_LINES: Final = 15
"""How much of a failed worker's log goes into the error: enough for the last Python or Java exception."""
GOODBYE_SECONDS: Final = 30.0
"""How long a worker may take to close its engine once its result is known."""

Watch = Callable[[Turn, str], None]
"""Hears whose turn it is, and the stage of what runs now."""
Runs = dict[str, list[Run]]
"""Every peer's runs in order."""


def processes(bench: Benchmark, peers: Sequence[Peer], rounds: int) -> list[list[Turn]]:
    """What runs in which process, in order: one run in each, or all turns of a round.

    Turns alternate in order, so that whoever comes first, and a process that grows faster or slower, favour nobody.
    """
    turns = getattr(bench, "turns", None)
    labels = [peer.label for peer in peers]
    if turns is None:
        return [[Turn(number, label)] for number in range(1, rounds + 1) for label in labels]
    return [
        [Turn(number, label, turn) for turn in range(turns + 1) for label in (labels[::-1] if turn % 2 else labels)]
        for number in range(1, rounds + 1)
    ]


def _nobody(runs: Runs, turn: Turn) -> None:
    """Nobody hears of a run that is done."""


def measure(
    bench: Benchmark,
    size: Size,
    peers: Sequence[Peer],
    *,
    rounds: int,
    data: Path,
    scratch: Path,
    watch: Watch,
    after: Callable[[Runs, Turn], None] = _nobody,
) -> Runs:
    """All rounds of all peers, in turn; `after` hears of all runs so far when another one is done."""
    runs: Runs = {peer.label: [] for peer in peers}
    for shared in processes(bench, peers, rounds):
        folders = [scratch / f"{turn.round}-{turn.number}-{turn.peer}" for turn in shared]
        jobs = []
        for turn, folder in zip(shared, folders, strict=True):
            folder.mkdir(parents=True)
            jobs.append(Job(bench.name, turn.peer, size, data.resolve(), folder.resolve()))
        done = _done(bench, jobs, partial(_heard, watch, shared))
        for turn, each in zip(shared, done, strict=True):
            runs[turn.peer].append(replace(each, round=turn.round, turn=turn.number))
            after(runs, turn)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return runs


def _done(bench: Benchmark, jobs: Sequence[Job], watch: Callable[[int, str], None]) -> list[Run]:
    """The runs of a process; of a benchmark with patience, a process that fails is told, and does not end the rest."""
    try:
        return run_in_turn(bench, jobs, watch)
    except WorldError as error:
        if not hasattr(bench, "patience"):
            raise
        reason = str(error)
        watch(0, f"wrong: {reason}")
        return [
            Run(job.peer, 0, 0.0, 0.0, False, case=named(bench.peers, job.peer).case, failure=reason) for job in jobs
        ]


def _heard(watch: Watch, turns: Sequence[Turn], at: int, stage: str) -> None:
    watch(turns[at], stage)


def run(bench: Benchmark, job: Job, watch: Callable[[str], None] = lambda stage: None) -> Run:
    """One measured and checked run, in a process of its own."""
    (only,) = run_in_turn(bench, [job], lambda at, stage: watch(stage))
    return only


def run_in_turn(bench: Benchmark, jobs: Sequence[Job], watch: Callable[[int, str], None]) -> list[Run]:
    """Measured runs, one after the other in one process; checked when all are done. `watch` hears which one it is."""
    timed: list[tuple[float, int]] = []
    details: list[Mapping[str, Any]] = []
    log_file = jobs[0].scratch / "worker.log"
    patience = getattr(bench, "patience", None)
    with (
        log_file.open("w") as log,
        _start(bench, jobs, log) as worker,
        Tree(worker.pid) as tree,
        _ended_after(patience, worker),
    ):
        assert worker.stdout is not None
        for line in worker.stdout:
            event = json.loads(line)
            if event.get("timed"):
                tree.reset()
            if "seconds" in event:
                timed.append((event["seconds"], tree.peak_bytes))
            if "stage" in event:
                watch(len(details), event["stage"])
            if "detail" in event:
                details.append(event["detail"])
        try:
            code = worker.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0  # the results are known; the tree is ended on the way out
    if code != 0 or not len(timed) == len(details) == len(jobs):
        failed = jobs[min(len(details), len(jobs) - 1)]
        raise WorldError(
            f"peer '{failed.peer}' of benchmark '{failed.bench}' failed with exit code {code}",
            expected="a run to the last result" + (f" within {patience:.0f} s" if patience is not None else ""),
            found="\n" + "\n".join(log_file.read_text(errors="replace").splitlines()[-LOG_LINES:]),
            hint="leave the peer out with --against, or repair what its log complains about",
        )
    return [
        _checked(bench, job, seconds, peak, detail, partial(watch, at))
        for at, (job, (seconds, peak), detail) in enumerate(zip(jobs, timed, details, strict=True))
    ]


@contextmanager
def _ended_after(seconds: float | None, worker: subprocess.Popen[str]) -> Iterator[None]:
    """A worker that takes longer is ended, and then is one that has failed."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, worker.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _checked(
    bench: Benchmark, job: Job, seconds: float, peak_bytes: int, detail: Mapping[str, Any], watch: Callable[[str], None]
) -> Run:
    watch("checking")
    wrong = bench.check(job, detail)
    if wrong is not None:
        watch(f"wrong: {wrong}")
    rows = detail.get("rows", job.size.rows)
    case = named(bench.peers, job.peer).case
    return Run(job.peer, rows, seconds, peak_bytes / 2**20, wrong is None, detail, case)


def best(runs: Mapping[str, Sequence[Run]]) -> dict[str, Run]:
    """The fastest run of every peer that counts, with its own memory; correct only if all that it answered was."""
    chosen = {}
    for name, all_runs in runs.items():
        answered = [each for each in all_runs if not each.failure]
        if not answered:
            chosen[name] = all_runs[0]
            continue
        top = max((each for each in answered if each.turn), key=lambda each: each.rows_per_s)
        correct = all(each.correct for each in answered)
        chosen[name] = replace(top, correct=correct)
    return chosen


def ratios(results: Mapping[str, Run]) -> dict[str, float]:
    """Ours over theirs, in rows per second, for each in its own case; nothing for a case that we did not run."""
    found = {}
    for name, run in results.items():
        ours = results.get(labelled(OURS, run.case))
        if ours is not None and ours is not run:
            found[name] = ours.rows_per_s / run.rows_per_s
    return found


def growth(pairs: Sequence[tuple[str, str]], results: Mapping[str, Run]) -> dict[str, float]:
    """How many times as long as the second of each pair the first takes; of those pairs that ran."""
    return {
        f"{longer} / {shorter}": results[longer].seconds / results[shorter].seconds
        for longer, shorter in pairs
        if longer in results and shorter in results
    }


def in_turns(pairs: Sequence[tuple[str, str]], runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """The seconds of every turn by round, the best and the median of each round, and what each pair compares to.

    Only turns of the same round ran in the same process, so pairs are compared round by round; `all` is the median of
    these comparisons, and of all turns.
    """
    seconds = {name: _by_round(own) for name, own in runs.items()}
    summed: dict[str, dict[str, Any]] = {
        name: {"rounds": [_summary(own) for own in rounds], "all": _summary([each for own in rounds for each in own])}
        for name, rounds in seconds.items()
    }
    ratios = {}
    for longer, shorter in (pair for pair in pairs if all(name in runs for name in pair)):
        rounds = [
            {what: own[what] / other[what] for what in own}
            for own, other in zip(summed[longer]["rounds"], summed[shorter]["rounds"], strict=True)
        ]
        every = {what: statistics.median(own[what] for own in rounds) for what in rounds[0]}
        ratios[f"{longer} / {shorter}"] = {"rounds": rounds, "all": every}
    return {"seconds": seconds, "peers": summed, "ratios": ratios}


def _by_round(runs: Sequence[Run]) -> list[list[float]]:
    rounds: dict[int, list[float]] = {}
    for each in (each for each in runs if each.turn):
        rounds.setdefault(each.round, []).append(each.seconds)
    return list(rounds.values())


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    return {"best": min(seconds), "median": statistics.median(seconds)}


def _start(bench: Benchmark, jobs: Sequence[Job], log: IO[str]) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        **getattr(bench, "environment", {}),
        # What is importable here is importable there, and in the Python workers that Spark starts there.
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
        "PYSPARK_PYTHON": sys.executable,
        # Runs of a benchmark are no runs of the user's.
        "PENSTOCK_HOME": str(jobs[0].scratch / "home"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "penstock_bench.worker", encode(jobs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=environment,
        cwd=jobs[0].scratch,
        # Its own session, so that Ctrl-C reaches this process alone, which then ends the tree in order.
        start_new_session=True,
    )
