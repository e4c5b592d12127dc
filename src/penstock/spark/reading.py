"""What an output, a connection point or a view of a run shows now; a view that keeps nothing is computed on Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.runtime.job import Job
from penstock.runtime.opening import open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import PROCESS
from penstock.runtime.viewing import shown
from penstock.spark.carrier import dumps
from penstock.spark.session import parallelism
from penstock.storage.folder import Folder
from penstock.storage.temporary import TemporaryFolder


def read_now(job: Job, name: str, master: str | None = None) -> pa.Table:
    """What an output, a connection point or a view of a run shows now."""
    if name in Result(job).outputs():
        return Result(job)[name]
    found = shown(job, name)
    if isinstance(found, pa.Table):
        return found
    from penstock.spark.run import run_to_end  # which reads views itself

    folder = TemporaryFolder("penstock-view-")
    settings = replace(job.settings, durability=PROCESS)
    own = open_job(found, settings, Folder(folder.path), parallelism(master), keep=folder, dumps=dumps)
    return run_to_end(own, master=master)[name]
