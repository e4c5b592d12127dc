"""The streaming query of a job: intake, exchanges, stages, outlet.

```
 IntakeSource ──> repartitionById ──> StageTask 1 ──> repartitionById ──> StageTask 2 ... ──> foreachBatch: Outlet
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

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
from penstock.spark.source import FORMAT, ROW_DDL, IntakeSource


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
    *,
    to_the_end: bool,
    commit: Callable[[int, Iterable[Row]], None],
) -> StreamingQuery:
    """Start the query; `commit` is called in this process with the notes of every batch."""
    session.dataSource.register(IntakeSource)
    rows = _intake(session, job, ticket)
    for stage in range(1, job.plan.stages + 1):
        # Every stage task is one bucket: partition ids are bucket numbers.
        rows = rows.repartitionById(job.settings.buckets, col("bucket")).mapInArrow(StageTask(ticket, stage), ROW_DDL)

    def collect(frame: DataFrame, batch: int) -> None:
        commit(batch, from_batches(frame.toArrow().cast(ROW_SCHEMA).to_batches()))

    writer = rows.writeStream.foreachBatch(collect).option("checkpointLocation", job.spark.path)
    return (writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="0 seconds")).start()


def _intake(session: SparkSession, job: Job, ticket: JobTicket) -> DataFrame:
    """The rows of all inputs: those of the intake, and those of Spark DataFrames, which take the same path."""
    intake = session.readStream.format(FORMAT).option("job", ticket.text).load()
    frames = [
        source.connector.frame.withColumn(ARRIVED, unix_micros(current_timestamp())).mapInArrow(
            DataFrameTask(ticket, source.name, index), ROW_DDL
        )
        for index, source in enumerate(job.plan.network.sources)
        if isinstance(source.connector, DataFrameInput)
    ]
    return reduce(DataFrame.unionAll, frames, intake)
