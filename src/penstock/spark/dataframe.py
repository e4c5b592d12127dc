"""Any streaming Spark DataFrame as an input: it takes the path of the intake in a `mapInArrow` of its own.

Spark records its offsets; what the intake knows from its own offset is read elsewhere: the low-water marks issued
before the batch from the board's record of the batch before, versions of the network and of static tables from Spark's
log of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.algebra.hidden import ARRIVED
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split
from penstock.errors import QueryError
from penstock.runtime.board import Board
from penstock.runtime.control import Control
from penstock.runtime.intake import Intake
from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset, histories_read, intake_offset
from penstock.runtime.planner import ONLY_SHARD
from penstock.runtime.train import to_batch
from penstock.spark.carrier import JobTicket, ShippedJobs, current_batch, wrapped_errors

_TASKS_PER_FRAME = 10_000
"""Task numbers of DataFrame inputs start here, one range per input, so that they never meet those of the intake."""


@dataclass(frozen=True)
class DataFrameInput(Connector):
    """The declared input; the DataFrame itself stays on the driver."""

    frame: Any = field(compare=False)
    arrow_schema: pa.Schema
    bounded: bool = False

    @property
    def in_sequence(self) -> bool:
        # Partitions of a batch are read side by side, and nobody knows in what order.
        return False

    @property
    def planned_elsewhere(self) -> bool:
        # Spark decides what a batch takes, and does not ask the planner.
        return True

    def schema(self) -> pa.Schema:
        return self.arrow_schema

    def describe(self) -> str:
        return "a streaming DataFrame"

    def shards(self) -> Sequence[str]:
        return (ONLY_SHARD,)

    def open(self, schema: pa.Schema, journal: Journal) -> Feed:
        return _SparkReads()

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        return iter(())

    def __reduce__(self) -> tuple[object, ...]:
        return (DataFrameInput, (None, self.arrow_schema, self.bounded))


class _SparkReads(Feed):
    """The feed of a DataFrame: Spark itself decides how far it reads."""

    def start(self) -> Position:
        return {}

    def advance(self, position: Position, limit: Limit) -> Advance:
        return Advance(position)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        return ()


@dataclass(frozen=True)
class DataFrameTask:
    """The intake of one partition of a DataFrame."""

    ticket: JobTicket
    source: str
    index: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with wrapped_errors(self.ticket):
            batch, context = current_batch(), TaskContext.get()
            planned = _planned(self.ticket.job(), batch)
            job = ShippedJobs(self.ticket).at(planned.version)
            source = next(s for s in job.plan.network.sources if s.name == self.source)
            issued = {self.source: Board(job.board).at(batch - 1).issued(source)}
            number = _TASKS_PER_FRAME * (self.index + 1) + (context.partitionId() if context is not None else 0)
            partition = context.partitionId() if context is not None else 0
            read = histories_read(job.plan.network, planned)
            control = Control(0, planned.tables, read=read, floors=planned.box_floors)
            intake: Intake | None = None
            seq = 0
            for tuples in batches:
                table = pa.Table.from_batches([tuples])
                if intake is None:
                    # Spark records the time of a batch with its offsets: a replay reads the same.
                    arrived = table.column(ARRIVED)[0].as_py() if table.num_rows else 0
                    intake = Intake(job, batch, number, issued, replace(control, now=arrived))
                    intake.floors = planned.floors
                    seq = intake.first_seq(source, partition)
                intake.take_whole(source, ONLY_SHARD, table.drop_columns([ARRIVED]).cast(source.delivered), seq)
                seq += table.num_rows
            if intake is None:
                intake = Intake(job, batch, number, issued, control)
            for row in intake.rows(tell=True):
                yield to_batch(row)


def _planned(job: Job, batch: int) -> Offset:
    """What the intake's offset says of a batch: the version of the network, and those of its static tables.

    Spark writes how far all inputs of a batch reach before the batch begins, and reads it to do one again.
    """
    return intake_offset(job.spark.child("offsets").read(str(batch)).to_pybytes().decode())


def dataframe(frame: DataFrame) -> DataFrameInput:
    """Read any streaming DataFrame: every Spark connector becomes an input."""
    if not frame.isStreaming:
        raise QueryError(
            "the DataFrame is not a stream",
            expected="a DataFrame made with spark.readStream",
            hint="write a bounded DataFrame to files and read it with pk.files",
        )
    return DataFrameInput(frame, to_arrow_schema(frame.schema, timezone="UTC"))
