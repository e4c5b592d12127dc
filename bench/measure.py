"""Runs: each in a fresh process tree, peers taking turns, so that a slow minute of the machine is shared by all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from penstock.errors import WorldError
from penstock_bench.contract import OURS, Benchmark, Job, Peer, Run, Size, labelled, named
from penstock_bench.memory import Tree
from penstock_bench.worker import encode

LOG_LINES: Final = 15
"""How much of a failed worker's log goes into the error: enough for the last Python or Java exception."""
GOODBYE_SECONDS: Final = 30.0
"""How long a worker may take to close its engine once its result is known."""

Watch = Callable[[int, str, str], None]
"""Hears the round (from 1), the peer and the stage of what runs now."""


def measure(
    bench: Benchmark, size: Size, peers: Sequence[Peer], *, rounds: int, data: Path, scratch: Path, watch: Watch
) -> dict[str, list[Run]]:
    """All rounds of all peers, in turn: every peer's runs in order."""
    runs: dict[str, list[Run]] = {peer.label: [] for peer in peers}
    for turn in range(1, rounds + 1):
        for peer in peers:
            folder = scratch / f"{turn}-{peer.label}"
            folder.mkdir(parents=True)
            job = Job(bench.name, peer.label, size, data.resolve(), folder.resolve())
            runs[peer.label].append(run(bench, job, partial(watch, turn, peer.label)))
            shutil.rmtree(folder, ignore_errors=True)
    return runs


def run(bench: Benchmark, job: Job, watch: Callable[[str], None] = lambda stage: None) -> Run:
    """One measured and checked run."""
    seconds: float | None = None
    peak_bytes = 0
    detail: Mapping[str, Any] | None = None
    log_file = job.scratch / "worker.log"
    with log_file.open("w") as log, _start(job, log) as worker, Tree(worker.pid) as tree:
        assert worker.stdout is not None
        for line in worker.stdout:
            event = json.loads(line)
            if event.get("timed"):
                tree.reset()
            if "seconds" in event:
                seconds, peak_bytes = event["seconds"], tree.peak_bytes
            if "stage" in event:
                watch(event["stage"])
            detail = event.get("detail", detail)
        try:
            code = worker.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0  # the result is known; the tree is ended on the way out
    if code != 0 or seconds is None or detail is None:
        raise WorldError(
            f"peer '{job.peer}' of benchmark '{job.bench}' failed with exit code {code}",
            expected="a run to the last result",
            found="\n" + "\n".join(log_file.read_text(errors="replace").splitlines()[-LOG_LINES:]),
            hint="leave the peer out with --against, or repair what its log complains about",
        )
    watch("checking")
    wrong = bench.check(job, detail)
    if wrong is not None:
        watch(f"wrong: {wrong}")
    rows = detail.get("rows", job.size.rows)
    case = named(bench.peers, job.peer).case
    return Run(job.peer, rows, seconds, peak_bytes / 2**20, wrong is None, detail, case)


def best(runs: Mapping[str, Sequence[Run]]) -> dict[str, Run]:
    """The fastest run of every peer, with its own memory; correct only if all its runs were."""
    chosen = {}
    for name, all_runs in runs.items():
        top = max(all_runs, key=lambda each: each.rows_per_s)
        correct = all(each.correct for each in all_runs)
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


def _start(job: Job, log: IO[str]) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        # What is importable here is importable there, and in the Python workers that Spark starts there.
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "penstock_bench.worker", encode(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=environment,
        cwd=job.scratch,
        # Its own session, so that Ctrl-C reaches this process alone, which then ends the tree in order.
        start_new_session=True,
    )
