"""The local executor: the same planner, tasks, stages and outlet in one process, without Spark.

For unit tests, property tests and stepping; batches run one after the other when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import QueryError
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.runtime.jobs import jobs_of
from penstock.runtime.offsets import Offset, intake_offset, is_local, offset_text
from penstock.runtime.optimizer import optimizer_of
from penstock.runtime.outlet import Outlet
from penstock.runtime.planner import Planner
from penstock.runtime.reading_ahead import InTurn
from penstock.runtime.result import Result
from penstock.runtime.settings import EXPRESS, ON
from penstock.runtime.shelf import Shelf
from penstock.runtime.stage import run_stage
from penstock.runtime.train import Row, from_batches, to_batch
from penstock.runtime.ways import read_shares, run_stages, way_of
from penstock.storage.folder import synced_together


class LocalExecutor:
    """Runs a job batch by batch."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._jobs = jobs_of(job)
        self._planner = Planner(job, reader=InTurn(self._jobs.at))
        self._outlet = Outlet(job)
        self._board = Board(job.board, job.epoch)
        self._batch = self._board.newest() + 1
        self._optimizer = optimizer_of(job, Shelf.of(job).arrange) if job.settings.optimize == ON else None

    def step(self) -> Record | None:
        """Run one batch; None when no input has anything new."""
        batch = self._batch
        start = self._offset(batch - 1) or self._planner.initial()
        # As on Spark, the plan of a batch is recorded before it runs, and a batch cut short is run again as planned.
        end = self._offset(batch) or self._planner.latest(start)
        if end == start:
            return None
        self._job = job = self._jobs.at(end.version)
        with synced_together():
            rows = self._rows(job, batch, start, end)
        record = self._outlet.commit(batch, rows, offset_text(end))
        self._batch = batch + 1
        if self._optimizer is not None:
            self._optimizer.after(record)
        return record

    def _rows(self, job: Job, batch: int, start: Offset, end: Offset) -> list[Row]:
        self._board.post_offset(batch, offset_text(end))
        rows = read_shares(job, batch, self._planner.assignments(start, end))
        # Through the row format, as on Spark: what does not survive it must fail here too.
        rows = list(from_batches(to_batch(r) for r in rows))
        if way_of(job, end, self._outlet.before(batch)) == EXPRESS:
            return run_stages(job, batch, rows)
        for stage in range(1, job.plan.stages + 1):
            arrived = list(from_batches(to_batch(r) for r in rows))
            rows = [r for b in range(job.settings.buckets) for r in run_stage(job, stage, b, batch, _of(arrived, b))]
        return rows

    def _offset(self, batch: int) -> Offset | None:
        text = self._board.offset(batch) if batch >= 0 else None
        if text is not None and not is_local(text):
            raise QueryError(
                f"the checkpoint {self._job.checkpoint.path} was made on Spark",
                hint="go on with engine='spark', or start with another checkpoint",
            )
        return intake_offset(text) if text is not None else None

    def close(self) -> None:
        self._planner.close()
        self._outlet.close()
        self._job.release()


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
