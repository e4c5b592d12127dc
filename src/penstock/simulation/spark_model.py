"""The driver's side of the Spark engine without Spark: its protocol of two logs, around the real planner, tasks,
stages, outlet and board.

```
 offsets/n ─> tasks of batch n ─> outlet ─> commits/n        neither log is ever synced
```

A restart looks for the newest offset; if its commit is missing, the batch is done again as that offset says. An attempt
of a task may also come late: it is kept, and run again when later batches are done, or by a process that has died.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

from penstock.errors import WorldError
from penstock.runtime.board import Board, Record
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.jobs import jobs_of
from penstock.runtime.offsets import Offset, intake_offset
from penstock.runtime.outlet import Outlet
from penstock.runtime.planner import Assignment, Planner
from penstock.runtime.spark_log import METADATA, SparkLog, hadoop_checksum
from penstock.runtime.stage import run_stage
from penstock.runtime.train import Row, from_batches, to_batch
from penstock.runtime.ways import run_stages
from penstock.storage.folder import Folder, synced_together

Attempt = Callable[[], object]
"""A task that may run once more, long after everybody has stopped waiting for it."""

_LATE: Final = 0.15
"""How often an attempt is kept to come late."""


class SparkModel:
    """Runs a job batch by batch, as Spark's micro-batch engine does."""

    def __init__(self, job: Job, random: Random, late: list[Attempt]) -> None:
        self._job = job
        self._random = random
        self._late = late
        self._jobs = jobs_of(job)
        self._planner = Planner(job)
        self._outlet = Outlet(job)
        self._log = SparkLog(job.spark)
        self._log.follow(Board(job.board))
        # Spark syncs nothing.
        self._folder = Folder(job.spark.path)
        # A session that others have made writes checksums beside its logs; our own does not.
        self._checks = random.random() < 0.5
        if not self._folder.exists(METADATA):
            if self._log.planned() >= 0 or self._log.committed() >= 0:
                raise AssertionError("Spark does not start with logs, but without the name of the query")
            self._folder.write(METADATA, b'{"id":"a"}')
        self._batch = self._log.planned()
        if self._batch > 0 and self._log.offset(self._batch - 1) is None:
            raise AssertionError("Spark does not start without the offset before the newest")
        if self._batch >= 0 and self._log.committed() == self._batch:
            self._batch += 1
        self._batch = max(0, self._batch)

    def step(self) -> Record | None:
        """Run one batch; None when no input has anything new."""
        batch = self._batch
        self._come_late()
        start = self._planned(batch - 1) if batch else self._planner.initial()
        if start is None:
            raise AssertionError(f"Spark has no offset of batch {batch - 1}")
        end = self._planned(batch)
        if end is None:
            end = self._planner.latest(start)
            if end == start:
                return None
            text = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end.to_json())}'
            self._write("offsets", batch, text)
        record = self._outlet.commit(batch, self._rows(batch, start, end), self._log.offset(batch) or "")
        self._write("commits", batch, 'v1\n{"nextBatchWatermarkMs":0}')
        self._batch = batch + 1
        return record

    def close(self) -> None:
        self._planner.close()
        self._outlet.close()
        self._job.release()

    def _write(self, log: str, batch: int, text: str) -> None:
        folder = self._folder.child(log)
        folder.write(str(batch), text.encode())
        if self._checks:
            folder.write(f".{batch}.crc", hadoop_checksum(text.encode()))

    def _planned(self, batch: int) -> Offset | None:
        text = self._log.offset(batch)
        if text is None and self._folder.child("offsets").exists(str(batch)):
            raise AssertionError(f"Spark cannot read its offset of batch {batch}")
        return None if text is None else intake_offset(text)

    def _rows(self, batch: int, start: Offset, end: Offset) -> list[Row]:
        job = self._jobs.at(end.version)
        assignments = self._planner.assignments(start, end)
        express = self._random.random() < 0.5
        if express and self._random.random() < 0.5:
            rows = self._attempt(_read_here, job, assignments, batch)
        else:
            rows = []
            for assignment in assignments:
                rows += self._attempt(read_assignment, job, assignment, batch)
            rows = list(from_batches(to_batch(row) for row in rows))
        if express:
            with synced_together():
                self._outlet.announce(job, batch, self._log.offset(batch) or "")
                return self._attempt(run_stages, job, batch, rows)
        for stage in range(1, job.plan.stages + 1):
            arrived = list(from_batches(to_batch(row) for row in rows))
            rows = []
            for bucket in range(job.settings.buckets):
                mine = [row for row in arrived if row.bucket == bucket]
                rows += self._attempt(run_stage, job, stage, bucket, batch, mine)
        return rows

    def _attempt(self, work: Callable[..., Iterable[Row]], *of: Any) -> list[Row]:
        def task() -> list[Row]:
            return list(work(*of))

        if self._random.random() < _LATE:
            self._late.append(task)
            if self._random.random() < 0.3:
                task()  # a speculative copy, which is as good
        return task()

    def _come_late(self) -> None:
        while self._late and self._random.random() < 0.5:
            attempt = self._late.pop(self._random.randrange(len(self._late)))
            try:
                attempt()
            except WorldError:
                continue  # it found that it has nothing to do here any more


def _read_here(job: Job, assignments: Sequence[Assignment], batch: int) -> list[Row]:
    """A small batch, as the driver itself reads it."""
    with synced_together():
        return [row for assignment in assignments for row in read_assignment(job, assignment, batch)]
