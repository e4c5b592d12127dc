"""The local executor: the same planner, tasks, stages and outlet in one process, without Spark.

For unit tests, property tests and stepping; batches run one after the other when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.board import Record
from penstock.runtime.intake import Offset, Planner, read_assignment
from penstock.runtime.job import Job
from penstock.runtime.outlet import Outlet
from penstock.runtime.result import Result
from penstock.runtime.stage import run_stage
from penstock.runtime.train import Row, from_batches, to_batch


class LocalExecutor:
    """Runs a job batch by batch."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._planner = Planner(job)
        self._outlet = Outlet(job)
        self._offset: Offset | None = None
        self._batch = 0

    def step(self) -> Record | None:
        """Run one batch; None when no input has anything new."""
        start = self._offset if self._offset is not None else self._planner.initial()
        end = self._planner.latest(start)
        if end == start:
            return None
        job, batch = self._job, self._batch
        rows = [r for a in self._planner.assignments(start, end) for r in read_assignment(job, a, batch)]
        for stage in range(1, job.plan.stages + 1):
            # Through the row format, as on Spark: what does not survive it must fail here too.
            arrived = list(from_batches(to_batch(r) for r in rows))
            rows = [r for b in range(job.settings.buckets) for r in run_stage(job, stage, b, batch, _of(arrived, b))]
        record = self._outlet.commit(batch, rows)
        self._offset, self._batch = end, batch + 1
        return record

    def close(self) -> None:
        self._planner.close()


def run_locally(job: Job, on_batch: Callable[[Record], None] | None = None) -> Result:
    """Run until no input has anything new."""
    executor = LocalExecutor(job)
    try:
        while (record := executor.step()) is not None:
            if on_batch is not None:
                on_batch(record)
    finally:
        executor.close()
    return Result(job)


def _of(rows: list[Row], bucket: int) -> list[Row]:
    return [r for r in rows if r.bucket == bucket]
