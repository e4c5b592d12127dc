"""How a job and its errors cross the border between the driver and Spark's Python workers.

The job is pickled once into its checkpoint; tasks carry its path, and a worker keeps the jobs that it has read. An
error of ours leaves a worker inside the text of Spark's own error, from where the driver takes it out again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext, cloudpickle

from penstock.errors import InternalError, PenstockError

if TYPE_CHECKING:
    from penstock.runtime.job import Job

_MARK = "penstock-error:"
_MARKED = re.compile(_MARK + r"([A-Za-z0-9+/=]+)")
_jobs: dict[JobTicket, Job] = {}


@dataclass(frozen=True)
class JobTicket:
    """Where a job lies; the digest keeps a worker from using an older job of the same checkpoint."""

    folder: str
    name: str

    def job(self) -> Job:
        from penstock.storage.folder import Folder

        if self not in _jobs:
            _jobs.clear()  # a worker serves one query at a time, as a rule; old jobs are not worth their memory
            _jobs[self] = pickle.loads(Folder(self.folder).read(self.name).to_pybytes())
        return _jobs[self]

    @property
    def text(self) -> str:
        return f"{self.name} {self.folder}"

    @staticmethod
    def parse(text: str) -> JobTicket:
        name, folder = text.split(" ", 1)
        return JobTicket(folder, name)


def ship(job: Job) -> JobTicket:
    """Put a job where workers find it."""
    content = cloudpickle.dumps(job)
    name = f"job-{hashlib.sha256(content).hexdigest()[:16]}.pickle"
    folder = job.checkpoint.child("job")
    folder.delete_all()
    folder.write(name, content)
    return JobTicket(folder.path, name)


def current_batch() -> int:
    """The batch id of the running task."""
    context = TaskContext.get()
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if batch is None:
        raise InternalError("a task runs outside of a streaming batch")
    return int(batch)


@contextlib.contextmanager
def wrapped_errors() -> Iterator[None]:
    """Let our errors pass through Spark: their content goes into the text of the error."""
    try:
        yield
    except PenstockError as error:
        packed = base64.b64encode(pickle.dumps(error)).decode()
        raise RuntimeError(f"{error}\n{_MARK}{packed}") from None


def unwrapped(error: BaseException) -> PenstockError | None:
    """Our error inside one of Spark's, if there is any."""
    found = _MARKED.search(str(error))
    if found is None:
        return None
    loaded = pickle.loads(base64.b64decode(found.group(1)))
    return loaded if isinstance(loaded, PenstockError) else None
