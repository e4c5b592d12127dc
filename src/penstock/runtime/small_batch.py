"""Which batches are small: by what they read at most, as their offsets say; never by the clock or by chance.

The planner looks at it, too, so nothing that computes is loaded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset

if TYPE_CHECKING:
    from penstock.runtime.planner import Assignment

FEW_ROWS: Final = 500_000
"""A batch that reads more is not small: from here on several cores are worth what it costs to reach them. Where this
process has threads for all of them, an exchange would reach none that it does not have: there every batch is small."""
FEW_BYTES: Final = 64 * 1024 * 1024
FEW_SPLITS: Final = 32
"""Parts of inputs that the driver reads one after the other. To open a file takes about as long as to read a short one,
and Spark starts its tasks in the time of some dozens of them."""


def reads_few(job: Job, offset: Offset) -> bool:
    """Whether a batch reads few rows and bytes; not if nobody knows how much there is to read."""
    if offset.size is None or any(source.connector.planned_elsewhere for source in job.plan.network.sources):
        return False
    return job.threads > 1 or fits_one_thread(offset)


def fits_one_thread(offset: Offset) -> bool:
    """Whether a batch is so small that one thread is enough for it; or that rows may come to it through the JVM."""
    size = offset.size
    return size is not None and size.rows <= FEW_ROWS and size.bytes <= FEW_BYTES


def few_splits(job: Job, assignments: Sequence[Assignment]) -> bool:
    """Whether the assignments of a batch are few enough for one process."""
    return job.threads > 1 or sum(len(a.splits) if a.prepared is None else 1 for a in assignments) <= FEW_SPLITS
