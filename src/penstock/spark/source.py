"""The intake on Spark: one Python Data Source for all inputs of a network.

Spark starts several Python processes to plan a query, which load this module and do next to nothing with it. So it
loads the intake itself only where that runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from penstock.spark.carrier import JobTicket, ShippedJobs, current_batch, wrapped_errors
from penstock.spark.shares import Shares

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.runtime.offsets import Offset
    from penstock.runtime.planner import Assignment, Planner

FORMAT = "penstock"
_PATIENCE_SECONDS = 0.05
_LOOK_SECONDS = 0.004
ROW_DDL = "bucket int, header string, body binary"


class IntakeSource(DataSource):
    """Registered under the format `penstock`; its options are the ticket of the job, and where shares are left."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROW_DDL

    def streamReader(self, schema: Any) -> IntakeReader:
        return IntakeReader(JobTicket.parse(self.options["job"]), Shares.parse(self.options["shares"]))


class Share(InputPartition):
    """The assignment of one task, and the job that it belongs to."""

    def __init__(self, assignment: Assignment, ticket: JobTicket) -> None:
        super().__init__((assignment, ticket.digest))


class IntakeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, in a process of its own; reads on the workers."""

    def __init__(self, ticket: JobTicket, shares: Shares) -> None:
        self._ticket = ticket
        self._shares: Shares | None = shares
        self._jobs = ShippedJobs(ticket)
        self._planner: Planner | None = None

    def initialOffset(self) -> dict[str, Any]:
        with wrapped_errors(self._ticket):
            return self._plan().initial().to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        from penstock.runtime.offsets import Offset

        with wrapped_errors(self._ticket):
            before = Offset.from_json(start)
            after = self._next(before)
            if after == before:
                return start  # Spark takes offsets for equal if their texts are
            self._leave_shares(before, after)
            return after.to_json()

    def _next(self, before: Offset) -> Offset:
        """The offset of the next batch. If there is none, it is looked for a while here: Spark's way of asking again
        costs many times as much."""
        planner = self._plan()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (after := planner.latest(before)) is before and planner.waits(before) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return after

    def _leave_shares(self, before: Offset, after: Offset) -> None:
        """If the batch is small, let the driver know what to read; if not, Spark asks for it."""
        from penstock.runtime.offsets import digest
        from penstock.runtime.settings import EXCHANGE
        from penstock.runtime.small_batch import few_splits, reads_few

        job = self._jobs.at(after.version)
        if self._shares is not None and job.settings.way != EXCHANGE and reads_few(job, after):
            assignments = self._plan().assignments(before, after)
            if few_splits(job, assignments):
                self._shares.leave(digest(after), assignments)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from penstock.runtime.offsets import Offset

        with wrapped_errors(self._ticket):
            shares = self._plan().assignments(Offset.from_json(start), Offset.from_json(end))
            return [Share(share, self._jobs.ticket(share.version)) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from penstock.runtime.intake import read_assignment
        from penstock.runtime.train import to_batch

        with wrapped_errors(self._ticket):
            assignment, digest = partition.value
            job = replace(self._ticket, digest=digest).job()
            for row in read_assignment(job, assignment, current_batch()):
                yield to_batch(row)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to fix in advance, for bounded inputs end by themselves; but the run ends if nothing is there now."""
        with wrapped_errors(self._ticket):
            self._plan().hurry()

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _plan(self) -> Planner:
        from penstock.runtime.planner import Planner
        from penstock.spark.reading_process import ReadingProcesses

        if self._planner is None:
            ahead = None if self._shares is None else ReadingProcesses(self._shares.folder, self._jobs.ticket)
            self._planner = Planner(self._ticket.job(), self._jobs, ahead, pauses=True)
        return self._planner

    def __getstate__(self) -> dict[str, Any]:
        # Workers read; only the driver plans.
        return {"_ticket": self._ticket, "_shares": None, "_jobs": None, "_planner": None}
