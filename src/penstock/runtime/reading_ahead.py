"""Reading a piece of a history before the batch that takes it is planned.

```
 a piece of a history ──> decode, stateless boxes, low-level aggregates ──> rows in a file        (beside the run)
 the batch that takes it ──> the same rows, with the clock reading of the batch ──> stages        (in the run)
```

What is read of a piece depends on the piece alone, so it does not matter when, where and how often that is done: who
does not find the file reads the piece itself, to the same rows. That holds as long as nothing of the piece is late,
nothing of it leaves by an output, and nothing in it asks for its place in the batch; then a piece is not prepared, or
what was prepared is not taken (`runtime/prepared_rows.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.connectors.connector import Split
from penstock.runtime.control import Control
from penstock.runtime.history_pieces import Done
from penstock.runtime.intake import Intake
from penstock.runtime.job import Job
from penstock.runtime.prepared_rows import OF_THE_BATCH
from penstock.runtime.train import ROW_SCHEMA, to_batch
from penstock.storage.temporary import TemporaryFolder


class _AheadIntake(Intake):
    """An intake by which nothing may leave: there is no batch yet that it would belong to."""

    left = False

    def _hand_over(self, gathered: int) -> None:
        if gathered:
            self._stage_leaving()

    def _stage_leaving(self) -> None:
        self.left = self.left or any(self._superbox.leaving.values())
        self._superbox.leaving.clear()


def read_ahead(job: Job, splits: Sequence[tuple[str, Split]], path: str) -> Done:
    """Read a piece to a file; or say that the batch that takes it must read it."""
    intake = _AheadIntake(job, 0, 0, {}, Control(now=OF_THE_BATCH))
    by_name = {source.name: source for source in job.plan.network.sources}
    for number, (name, split) in enumerate(splits):
        intake.take_split(by_name[name], split, number)
    rows = list(intake.rows(tell=False))
    if intake.left:
        return Done(failed=True)
    trains = [row.tuples() for row in rows if row.is_train]
    if any(_stamped(tuples) for tuples in trains):
        return Done(failed=True)
    hidden = f"{path}.tmp"
    with pa.OSFile(hidden, "wb") as file, pa.ipc.new_file(file, ROW_SCHEMA) as writer:
        for row in rows:
            writer.write_batch(to_batch(row))
    os.rename(hidden, path)
    return Done(sum(tuples.num_rows for tuples in trains), sum(tuples.nbytes for tuples in trains))


def _stamped(tuples: pa.Table) -> bool:
    """Whether tuples have no time of their own, and have arrived with the batch."""
    return ARRIVED in tuples.column_names and pc.min(tuples.column(ARRIVED)).as_py() == OF_THE_BATCH


class InTurn:
    """Reads pieces in this process, when they are ordered: for the local executor."""

    def __init__(self, jobs: Callable[[int], Job]) -> None:
        self._jobs = jobs
        self._folder = TemporaryFolder("penstock-ahead-")
        self._done: dict[int, Done] = {}

    def order(self, number: int, version: int, splits: Sequence[tuple[str, Split]], share: float) -> None:
        self._done[number] = read_ahead(self._jobs(version), splits, self.path(number))

    def done(self, number: int) -> Done | None:
        return self._done[number]

    def path(self, number: int) -> str:
        return os.path.join(self._folder.path, str(number))

    def forget(self, number: int) -> None:
        del self._done[number]
        with contextlib.suppress(OSError):
            os.unlink(self.path(number))

    def rest(self) -> None:
        """Nothing to do: it holds nothing that pieces do not need."""
