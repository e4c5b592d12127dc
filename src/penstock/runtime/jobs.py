"""The jobs that the offsets of batches name, one for each version of a network. Light to load: planners need it."""

from __future__ import annotations

from typing import Protocol

from penstock.errors import WorldError
from penstock.runtime.job import Job


class Jobs(Protocol):
    """The jobs that the offsets of batches name."""

    def has(self, version: int) -> bool:
        """Whether there is such a version by now."""

    def at(self, version: int) -> Job:
        """The job of a version."""


def jobs_of(job: Job) -> Jobs:
    """The jobs that belong together with one; itself alone, if nobody has opened its checkpoint."""
    return job.shelf if job.shelf is not None else _Single(job)


class _Single:
    def __init__(self, job: Job) -> None:
        self._job = job

    def has(self, version: int) -> bool:
        return version <= self._job.version

    def at(self, version: int) -> Job:
        if version != self._job.version:
            raise WorldError(f"a batch names version {version} of the network, which nobody knows here")
        return self._job
