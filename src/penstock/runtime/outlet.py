"""The outlet: where a batch is committed, on the driver, in batch order.

Workers have staged the tuples of every output and sent receipts; the outlet lets each target make them visible, and
posts the board's record of the batch. Everything is keyed by the batch id and may be done again after a crash. In this
order, so that there is a way on from every moment in which the process, or the machine, can end:

```
 still the holder of the checkpoint? ─> offset ─> targets ─> kept results ─> record ─> (Spark writes its commit)
```

Up to the offset nothing of the batch is known outside, and it may be planned anew. From then on it is done again just
as it was planned. With the record it is done; what Spark's own logs lack is made anew from the board.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.algebra.box import Output
from penstock.algebra.marks import RISING, UNKNOWN, Marks
from penstock.connectors.targets.kept_results import KEEP_BYTES, KeptResults, Results
from penstock.connectors.targets.target import OutputProgress, Receipt
from penstock.errors import WorldError
from penstock.plan.keep_rejects import keeps_rejects
from penstock.runtime.board import Board, Record
from penstock.runtime.budget import Budget
from penstock.runtime.caretaker import Caretaker
from penstock.runtime.carrying import carried
from penstock.runtime.feedback import Telling
from penstock.runtime.job import Job
from penstock.runtime.jobs import jobs_of
from penstock.runtime.limits import judge
from penstock.runtime.next_record import next_record
from penstock.runtime.notes import Report
from penstock.runtime.offsets import digest, intake_offset
from penstock.runtime.promises import warn_of_disorder
from penstock.runtime.traces import collect
from penstock.runtime.train import Row


class Outlet:
    """Commits batches, and remembers the record it posted last."""

    def __init__(self, job: Job) -> None:
        self._jobs = jobs_of(job)
        self._board = Board(job.board, job.epoch)
        self._last: Record | None = None
        self._forgotten = 0
        self._caretaker = Caretaker()
        self._budget = Budget.of(job)
        self._use(job)

    def _use(self, job: Job) -> None:
        """Commit batches of a version of the network from now on."""
        self._job = job
        self._telling = Telling(job)
        self._kept = {
            output.name: KeptResults(job.scratch(output.name), kept_bytes(job, output))
            for output in job.plan.network.outputs
            if isinstance(output.target, Results)
        }

    def before(self, batch: int) -> Record:
        """The record of the batch before."""
        return self._last if self._last is not None and self._last.batch == batch - 1 else self._board.at(batch - 1)

    def announce(self, job: Job, batch: int, offset: str) -> None:
        """Say how a batch was planned, if it may show outside: cheap where other files are synced with it."""
        if any(output.target.outside for output in job.plan.network.outputs):
            self._post_offset(batch, offset)

    def _post_offset(self, batch: int, offset: str) -> None:
        self._job.check_claim()
        try:
            self._board.post_offset(batch, offset)
        except WorldError:
            self._job.check_claim()  # whoever has the checkpoint now may have planned the batch in another way
            raise

    def commit(self, batch: int, rows: Iterable[Row], offset: str) -> Record:
        """Make a batch visible and post its record; `offset` is the engine's text of how it was planned."""
        arrived = time.time_ns() // 1000
        self._job.check_claim()  # before anything else: whoever has taken the checkpoint may have taken the plan back
        planned = intake_offset(offset)
        if planned.version != self._job.version:
            self._use(self._jobs.at(planned.version))
        reports = sorted(map(Report.from_row, rows), key=lambda report: report.sender)
        former = self.before(batch)
        before = carried(former, self._job)
        receipts: dict[str, list[Receipt]] = {}
        for report in reports:
            for name, staged in report.receipts.items():
                receipts.setdefault(name, []).extend(staged)
        left = {o.name: sum(r.rows for r in receipts.get(o.name, ())) for o in self._job.plan.network.outputs}
        record = next_record(self._job.plan.network, batch, before, reports, left)
        progress = {o.name: _progress(o, before, record) for o in self._job.plan.network.outputs}
        shown = [
            o for o in self._job.plan.network.outputs if o.target.shows(receipts.get(o.name, []), progress[o.name])
        ]
        if any(output.target.outside for output in shown):
            self._post_offset(batch, offset)
            self._job.check_claim()  # whoever has taken the checkpoint since knows nothing of it
        for output in self._job.plan.network.outputs:
            self._job.commit_output(output, batch, receipts.get(output.name, []), progress[output.name])
        commit = (arrived, time.time_ns() // 1000)
        record = replace(
            record,
            traces=collect(self._job.plan.network, batch, record.now, reports, commit),
            epoch=self._job.epoch,
            offset=offset,
            digest=digest(planned),
            version=self._job.version,
            committed={**record.committed, **{output.name: batch for output in shown}},
        )
        self._keep(before, record, receipts)
        if former.version != record.version or batch == 0:
            self._job.took_effect(batch, record.now)
        self._board.post(record)
        self._forget()
        self._job.check_claim()  # what was written after it was lost does not count, and nobody shall think it does
        self._last = record
        self._telling.tell(record, planned)
        self._look_after(batch, progress)
        if not record.ended:
            self._watch_disk(batch, receipts)
        warn_of_disorder(self._job.plan.network, before, record)
        judge(self._job.plan.network, self._job.settings, record)
        return record

    def close(self) -> None:
        """The run is over: what is done beside it comes to its end."""
        self._caretaker.close()

    def _look_after(self, batch: int, progress: Mapping[str, OutputProgress]) -> None:
        """Let targets look after their places, beside the run."""
        job, budget = self._job, self._budget
        for output in job.plan.network.outputs:
            work = job.target(output).upkeep(batch, job.scratch(output.name), progress[output.name])
            if work is not None:
                begin = partial(work, None) if budget is None else partial(budget.lend, job, batch, work)
                self._caretaker.take(output.name, begin, job.check_claim)

    def _watch_disk(self, batch: int, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        """Make sure that there is room for the next batch, if the run may not take up all that there is."""
        if (budget := self._budget) is None:
            return
        job, staged = self._job, sum(receipt.bytes for own in receipts.values() for receipt in own)
        if budget.after(job, batch, staged, self._kept, self._caretaker.finish):
            self._caretaker.take("disk", lambda: budget.count_beside(job, batch), job.check_claim)

    def _forget(self) -> None:
        """Delete what only earlier versions of the network needed, once no batch of theirs can be done again."""
        job = self._job
        if job.shelf is None or job.version == 1 or self._forgotten == job.version:
            return
        oldest = self._board.at(self._board.batches()[0])
        if oldest.version == job.version:
            job.shelf.versions.forget_plans(job.version)
            for stage in range(job.plan.stages + 1, job.inherited.stages + 1):
                job.checkpoint.child("state", str(stage)).delete_all()
            self._forgotten = job.version

    def _keep(self, before: Record, record: Record, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        """Tuples that are kept, and the punctuation that leaves behind them, so that elements are in order."""
        for output in self._job.plan.network.outputs:
            if output.name in self._kept:
                moved = _progress(output, before, record).moved()
                rising = Marks({mark.attribute: to for mark, (_, to) in moved.items() if mark.part == RISING})
                self._kept[output.name].post(record.batch, receipts.get(output.name, []), rising)


def _progress(output: Output, before: Record, after: Record) -> OutputProgress:
    """How far a batch has brought the stream that leaves by an output."""
    port = output.inputs[0].name
    return OutputProgress(before.marks.get(port, UNKNOWN), after.marks[port], output.schema(0), after.now)


def kept_bytes(job: Job, output: Output) -> int | None:
    """How many bytes an output may keep: what it was told, or the run; else all that a run which ends by itself has
    made, but not of what is late or broken."""
    keep = output.target.keep if isinstance(output.target, Results) else None
    keep = job.settings.keep_bytes if keep is None else keep
    bounded = all(source.connector.bounded for source in job.plan.network.sources)
    return keep if keep is not None or (bounded and not keeps_rejects(output)) else KEEP_BYTES
