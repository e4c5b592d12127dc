"""Jobs to run by hand."""

from __future__ import annotations

from pathlib import Path

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.job import Job
from penstock.runtime.opening import open_job
from penstock.runtime.settings import Settings
from penstock.storage.folder import Folder


def job_of(net: pk.Network, folder: Path, *, buckets: int = 2, tasks: int = 2) -> Job:
    settings = Settings(buckets=buckets, tasks=tasks)
    return open_job(compile_network(net.network), settings, Folder(str(folder)), cores=2)
