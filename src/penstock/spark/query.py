"""The streaming query of a job. It is the intake alone; the stages of a batch are put behind it when the batch runs.

```
 IntakeSource ──> foreachBatch ─┬─> express:  collect ──> stage 1, 2, ... in this process ───────────────────┬─> Outlet
                                └─> exchange: repartitionById ──> StageTask 1 ──> repartitionById ... ───────┘
```

A small batch is read in this process, too. Then nobody asks Spark for the rows of the intake, and no job runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, current_timestamp, unix_micros
from pyspark.sql.streaming.query import StreamingQuery

from penstock.algebra.hidden import ARRIVED
from penstock.runtime.job import Job
from penstock.runtime.stage import run_stage
from penstock.runtime.train import ROW_SCHEMA, Row, from_batches, to_batch
from penstock.spark.carrier import JobTicket, current_batch, wrapped_errors
from penstock.spark.dataframe import DataFrameInput, DataFrameTask
from penstock.spark.session import warm_planning
from penstock.spark.shares import Shares
from penstock.spark.source import FORMAT, ROW_DDL, IntakeSource

_PLAIN_PLAN: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.ui.explainMode": "simple"}
"""For a query of inputs of ours alone. Its plan is so small that code for it is not worth its making, nor is a long
description of it; and Spark would make both for every batch."""


@dataclass(frozen=True)
class StageTask:
    """One stage, as Spark's workers run it: one partition is one bucket."""

    ticket: JobTicket
    stage: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        with wrapped_errors(self.ticket):
            context = TaskContext.get()
            bucket = context.partitionId() if context is not None else 0
            rows = from_batches(batches)
            for row in run_stage(self.ticket.job(), self.stage, bucket, current_batch(), rows):
                yield to_batch(row)


def start_query(
    session: SparkSession,
    job: Job,
    ticket: JobTicket,
    shares: Shares,
    *,
    to_the_end: bool,
    run_batch: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    """Start the query; `run_batch` is called in this process with what the intake will read for a batch."""
    with warm_planning(session.sparkContext):
        session.dataSource.register(IntakeSource)
    intake = _intake(session, job, ticket, shares)
    writer = intake.writeStream.foreachBatch(run_batch).option("checkpointLocation", job.spark.path)
    writer = writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="0 seconds")
    ours = not any(source.connector.planned_elsewhere for source in job.plan.network.sources)
    # Spark copies the settings of the session when a query starts: those of the session itself stay as they are.
    with _settings(session, _PLAIN_PLAN if ours else {}):
        return writer.start()


def collect(frame: DataFrame) -> Iterator[Row]:
    """Run a batch as far as it is planned, and bring its rows here."""
    return from_batches(frame.toArrow().cast(ROW_SCHEMA).to_batches())


def exchanged(intake: DataFrame, job: Job, ticket: JobTicket) -> DataFrame:
    """A batch with all its stages, each in tasks of its own."""
    rows = intake
    for stage in range(1, job.plan.stages + 1):
        # Every stage task is one bucket: partition ids are bucket numbers.
        rows = rows.repartitionById(job.settings.buckets, col("bucket")).mapInArrow(StageTask(ticket, stage), ROW_DDL)
    return rows


def _intake(session: SparkSession, job: Job, ticket: JobTicket, shares: Shares) -> DataFrame:
    """The rows of all inputs: those of the intake, and those of Spark DataFrames, which take the same path."""
    intake = session.readStream.format(FORMAT).options(job=ticket.text, shares=shares.text).load()
    frames = [
        source.connector.frame.withColumn(ARRIVED, unix_micros(current_timestamp())).mapInArrow(
            DataFrameTask(ticket, source.name, index), ROW_DDL
        )
        for index, source in enumerate(job.plan.network.sources)
        if isinstance(source.connector, DataFrameInput)
    ]
    return reduce(DataFrame.unionAll, frames, intake)


@contextlib.contextmanager
def _settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session that hold within; what somebody has set stays."""
    added = [key for key in wanted if session.conf.get(key, None) is None]
    try:
        for key in added:
            session.conf.set(key, wanted[key])
        yield
    finally:
        for key in added:
            session.conf.unset(key)
