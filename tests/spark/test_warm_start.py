"""The processes that plan queries: forked from one that has everything loaded, and what they load."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import cloudpickle

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.opening import open_job
from penstock.runtime.settings import Settings
from penstock.spark.fork_client import RUNNER
from penstock.spark.warm_start import WarmStart
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}


def _executed(warm: WarmStart, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.executable, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _started() -> tuple[WarmStart, psutil.Process]:
    """A warm start, and its server: a session of this process may have another."""
    before = _servers()
    warm = WarmStart()
    (server,) = set(_servers()) - set(before)
    return warm, server


def _servers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if _is_server(child)]


def _is_server(child: psutil.Process) -> bool:
    try:
        return "penstock.spark.fork_server" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:  # has ended, whether or not somebody has waited for it
        return False


def test_whatever_else_is_executed_is_python() -> None:
    done = _executed(WarmStart(), "-c", "import sys; print(sys.executable)")
    assert done.stdout.strip() == sys.executable


def test_a_fork_has_the_environment_and_the_files_of_who_asked() -> None:
    # It finds no socket at this place, and says so where Python would.
    done = _executed(WarmStart(), "-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH="/nowhere/at all")
    assert "No such file or directory" in done.stderr
    assert "fork_server.py" in done.stderr


def test_without_a_server_python_starts_by_itself() -> None:
    warm, server = _started()
    server.kill()
    server.wait(10)
    done = _executed(warm, "-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH="/nowhere/at all")
    assert "No such file or directory" in done.stderr
    assert "fork_server.py" not in done.stderr


def test_the_server_loads_more_when_nobody_asks_and_forks_on() -> None:
    warm, server = _started()
    deadline = time.monotonic() + 60
    while not any("_duckdb" in mapped.path for mapped in server.memory_maps()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    done = _executed(warm, "-m", RUNNER, PYTHON_WORKER_FACTORY_SOCK_PATH="/nowhere/at all")
    assert "fork_server.py" in done.stderr


def test_the_server_ends_with_its_owner() -> None:
    warm, server = _started()
    folder = Path(warm.executable).parent
    del warm
    deadline = time.monotonic() + 20
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not folder.exists()


RUN = """
import json, pickle, sys
from penstock.runtime.intake import read_assignment
from penstock.runtime.planner import Planner
from penstock.runtime.stage import run_stage

job = pickle.loads(open(sys.argv[1], "rb").read())
planner = Planner(job)
start = planner.initial()
end = planner.latest(start)
rows = [row for share in planner.assignments(start, end) for row in read_assignment(job, share, 0)]
for stage in range(1, job.plan.stages + 1):
    halves = [(bucket, [row for row in rows if row.bucket == bucket]) for bucket in (0, 1)]
    rows = [row for bucket, half in halves for row in run_stage(job, stage, bucket, 0, half)]
print(json.dumps([name for name in ("sqlglot", "typer", "rich", "deltalake") if name in sys.modules]))
"""


def test_who_plans_and_runs_a_network_loads_no_parser(tmp_path: Path) -> None:
    net = pk.Network("all")
    left = net.source("left", pk.memory([(1, "a", 1), (2, "b", 2)], schema=SCHEMA))
    right = net.source("right", pk.memory([(1, "a", 1)], schema=SCHEMA), progress=pk.delayed(2))
    both = pk.union(left.where("v > 0"), right).map(ts="ts + 1", k="upper(k)", v="v * 2")
    both.aggregate({"n": "count(*)", "m": "median(v)"}, on="ts", size=10, by=["k"]).output("counts")
    both.top(1, by="v", size=10).output("most")
    left.join(right, "l.k = r.k AND l.v >= r.v", on="ts", size=3).output("pairs")
    plan = compile_network(net.network)
    job = open_job(plan, Settings(buckets=2), Folder(str(tmp_path / "checkpoint")), cores=2)
    file = tmp_path / "job"
    file.write_bytes(cloudpickle.dumps(job))
    job.release()
    done = subprocess.run([sys.executable, "-c", RUN, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.spark
def test_queries_of_a_session_are_planned_by_forks(spark_ready: Any) -> None:
    forks: list[str] = []

    def look(record: object) -> None:
        servers = [p for p in _servers() if p.is_running()]
        forks.extend(child.name() for server in servers for child in server.children())

    net = pk.Network("planned")
    net.source("in", pk.memory([(1, "a", 1)], schema=SCHEMA)).output("out")
    assert net.run(on_batch=look)["out"].num_rows == 1
    assert forks
