"""The way of a batch: how its rows get from the intake through the stages to the outlet.

```
                    ┌─ few rows ──> EXPRESS: stage 1, 2, … one after the other, in this process ──┐
 rows of the intake ┤                                                                             ├──> outlet
                    └─ many ──────> EXCHANGE: every stage a job of Spark, one task to a bucket ───┘
```

On the express way this process reads a small batch, too (`small_batch.py`, `spark/shares.py`).

Both run the same stages over the same state, so they give the same bytes, and batches of both kinds may follow each
other. Few rows are not worth the exchange: Spark needs longer to move them than the stages to work on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from penstock.runtime.board import Record
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset
from penstock.runtime.planner import Assignment
from penstock.runtime.settings import AUTO, EXCHANGE, EXPRESS
from penstock.runtime.side_by_side import side_by_side
from penstock.runtime.small_batch import fits_one_thread, reads_few
from penstock.runtime.stage import run_stage
from penstock.runtime.train import Row

EXPRESS_HELD: Final = 1_000_000
"""A batch whose boxes hold more tuples goes by exchange: every stage may have to look at all of them. Not where this
process has threads for all cores."""


def way_of(job: Job, offset: Offset, before: Record) -> str:
    """How a batch travels: by what it reads at most, and what its boxes hold; never by the clock or by chance."""
    if not job.plan.stages:
        return EXPRESS
    if job.settings.way != AUTO:
        return job.settings.way
    held = sum(work.held_rows for work in before.boxes.values())
    return EXPRESS if reads_few(job, offset) and (held <= EXPRESS_HELD or job.threads > 1) else EXCHANGE


def way_by_tasks(job: Job, offset: Offset, way: str) -> str:
    """How a batch travels that tasks of Spark's read: what they have read of a long train is not for the JVM's heap."""
    return EXCHANGE if job.plan.stages and job.settings.way == AUTO and not fits_one_thread(offset) else way


def read_shares(job: Job, batch: int, shares: Sequence[Assignment]) -> list[Row]:
    """The intake of a batch in this process, a share in each thread."""
    reading = [partial(_read_share, job, batch, share) for share in shares]
    return [row for rows in side_by_side(reading, job.threads) for row in rows]


def _read_share(job: Job, batch: int, share: Assignment) -> list[Row]:
    return list(read_assignment(job, share, batch))


def run_stages(job: Job, batch: int, rows: Iterable[Row]) -> list[Row]:
    """The express way: all stages in this process, a bucket in each thread; what is left is for the outlet."""
    moving = list(rows)
    for stage in range(1, job.plan.stages + 1):
        arrived: list[list[Row]] = [[] for _ in range(job.settings.buckets)]
        for row in moving:
            arrived[row.bucket].append(row)
        buckets = [partial(_run_bucket, job, stage, bucket, batch, mine) for bucket, mine in enumerate(arrived)]
        moving = [row for left in side_by_side(buckets, job.threads) for row in left]
    return moving


def _run_bucket(job: Job, stage: int, bucket: int, batch: int, rows: list[Row]) -> list[Row]:
    return list(run_stage(job, stage, bucket, batch, rows))
