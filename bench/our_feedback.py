"""Penstock's side of `feedback`: plans of one query in processes of their own, and a network that merges them.

`python -m penstock_bench.our_feedback '<a plan as JSON>'` is the process of a plan. It says "ready" when its engine is
warm, begins when it reads a line, and says how many results it had when.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import penstock as pk
from penstock.algebra.ticks import END
from penstock.runtime.board import Record
from penstock_bench.contract import Clock, Job
from penstock_bench.feedback import MIDDLE, QUICK_US, SLOW_US, Points, wanted

MASTER: Final = "local[1]"
TRAIN_ROWS: Final = 1_000
OPTIONS: Final[Mapping[str, Any]] = {"master": MASTER, "buckets": 1, "tasks": 1, "durability": "process"}
RESULTS: Final = {"ts": "int64", "x": "int64"}


@dataclass(frozen=True)
class Udf:
    """A selection in Python that is slow for small X, or for large ones: it keeps a processor busy for so long."""

    small: bool

    def __call__(self, window: Any) -> tuple[int, bool]:
        x = int(window["x"][0])
        busy_ns = (SLOW_US if (x < MIDDLE) == self.small else QUICK_US) * 1_000
        end = time.thread_time_ns() + busy_ns
        while time.thread_time_ns() < end:
            pass
        return x, bool(wanted(x))


@dataclass(frozen=True)
class Plan:
    """One of the two plans of the query: it reads elements, and writes those that its function selects to a table."""

    small: bool
    """Whether it is slow for small values."""
    elements: str
    table: str
    checkpoint: str
    feedback: bool

    @staticmethod
    def of(job: Job, number: int, *, feedback: bool = False) -> Plan:
        """The first plan is slow for small values, the second for large ones."""
        table, checkpoint = job.scratch / f"udf{number}", job.scratch / f"plan {number}"
        return Plan(number == 0, str(job.data / "elements"), str(table), str(checkpoint), feedback)

    def network(self) -> pk.Network:
        net = pk.Network("plan")
        elements = net.source("elements", pk.files(self.elements), on="ts", progress=pk.ordered())
        udf = pk.window_function(final=Udf(self.small), returns={"x": "int64", "wanted": "bool"}, columns="x")
        # A window holds one element, so the function is called for each.
        chosen = elements.aggregate(udf, on="ts", size=1, name="udf").where("wanted").map(ts="ts", x="x")
        chosen.output("chosen", to=pk.delta(self.table, feedback=self.feedback))
        return net

    def run(self) -> Points:
        points: Points = []
        started = self.network().start(
            checkpoint=self.checkpoint, train_rows=TRAIN_ROWS, on_batch=noting(points, "chosen"), **OPTIONS
        )
        started.wait()
        return points


class PlanProcess:
    """A plan in a process of its own."""

    def __init__(self, plan: Plan) -> None:
        command = [sys.executable, "-m", "penstock_bench.our_feedback", json.dumps(asdict(plan))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def wait_until_ready(self) -> None:
        self._hear()

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()

    def finish(self) -> Points:
        """What it says when it is done."""
        return [(at, results) for at, results in json.loads(self._hear())]

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a plan has ended with {self._process.wait()}, and has said nothing")
        return line


class Alone:
    """A plan alone."""

    def __init__(self, number: int) -> None:
        self._number = number

    def measure(self, job: Job, clock: Clock) -> Points:
        with PlanProcess(Plan.of(job, self._number)) as process:
            process.wait_until_ready()
            clock.start()
            process.begin()
            points = process.finish()
            clock.stop()
        return points


class Merged:
    """Both plans, merged in this process."""

    def __init__(self, feedback: bool) -> None:
        self._feedback = feedback

    def measure(self, job: Job, clock: Clock) -> Points:
        plans = [Plan.of(job, number, feedback=self._feedback) for number in (0, 1)]
        with ExitStack() as stack:
            processes = [stack.enter_context(PlanProcess(plan)) for plan in plans]
            for process in processes:
                process.wait_until_ready()
            warm_up(job.scratch / "warm-up")
            clock.start()
            for process in processes:
                process.begin()
            tables = [Path(plan.table) for plan in plans]
            points = merge(tables, job.scratch / "out", job.scratch, feedback=self._feedback)
            clock.stop()
        return points


def merge(tables: list[Path], out: Path, scratch: Path, *, feedback: bool) -> Points:
    """Merge what the plans write, until one of them has ended."""
    net = pk.Network("merging")
    inputs = {table.name: pk.delta(str(table), follow=True, feedback=feedback) for table in tables}
    copies = [
        net.source(name, table, schema=RESULTS, on="ts", progress=pk.punctuated()) for name, table in inputs.items()
    ]
    pk.lmerge(*copies, on="ts", name="merged", feedback=feedback).output("merged out", to=pk.parquet(str(out)))
    points: Points = []
    run = net.start(checkpoint=str(scratch / "merging"), on_batch=noting(points, "merged out"), **OPTIONS)
    run.wait_for(lambda record: "merged" in record.marks and record.marks["merged"].of("ts") == END, None)
    run.stop()
    return points


def noting(points: Points, output: str) -> Callable[[Record], None]:
    def note(record: Record) -> None:
        points.append((time.time(), record.outputs.get(output, 0)))

    return note


def warm_up(scratch: Path) -> None:
    """Start the engine of this process, and run something."""
    net = pk.Network("warm-up")
    rows = pk.memory([(at, at) for at in range(100)], schema={"ts": "int64", "x": "int64"}, train=20)
    counted = net.source("in", rows, progress=pk.ordered()).aggregate({"n": "count(*)"}, size=10)
    counted.output("counts", to=pk.delta(str(scratch / "warm table")))
    net.run(checkpoint=str(scratch / "warm"), **OPTIONS)


def main(argument: str) -> None:
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    plan = Plan(**json.loads(argument))
    warm_up(Path(plan.checkpoint).with_name(f"{Path(plan.checkpoint).name} warm-up"))
    print("ready", file=told, flush=True)
    if sys.stdin.readline():
        threading.Thread(target=_leave_with_parent, daemon=True).start()
        print(json.dumps(plan.run()), file=told, flush=True)


def _leave_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # the parent writes no more: its end comes when the parent is gone
    os._exit(1)


if __name__ == "__main__":
    # By its own name: what is pickled says where it is from.
    import_module("penstock_bench.our_feedback").main(sys.argv[1])
