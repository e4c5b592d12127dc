"""What has failed: shards whose tuples are overdue, and a batch that does not come to its end.

An input says with `overdue=` how long it may be silent. A batch is in flight when Spark has written its offset and not
its commit; how long is read from there, so that another process can ask, too. Both recover by themselves: a shard when
it delivers, a batch when it is committed.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from penstock.algebra.source import Source
from penstock.progress.extremes import NOTHING
from penstock.runtime.board import Record
from penstock.runtime.job import Job
from penstock.runtime.leaving import is_overdue


@dataclass(frozen=True)
class Failure:
    """An input, shard or batch that is overdue, in words."""

    what: str
    input: str | None
    shard: str | None
    seconds: float
    """For how long nothing has been heard."""
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def failures(job: Job, record: Record, now: int, since: int, batch_limit_us: int) -> list[Failure]:
    """What is overdue at a clock reading; shards that never spoke are counted `since` another."""
    return [*_silent(job, record, now, since), *_stuck(job, now, batch_limit_us)]


def _silent(job: Job, record: Record, now: int, since: int) -> list[Failure]:
    found = []
    for source in job.plan.network.sources:
        shards = record.shards.get(source.name) or dict.fromkeys(source.connector.shards(), NOTHING)
        for shard, seen in shards.items():
            if not seen.ended and is_overdue(source, seen, now, since):
                silent = (now - max(seen.at, since)) / 1e6
                found.append(_failure(source, shard, silent, seen.at, gone=seen.gone, alone=len(shards) == 1))
    return found


def _failure(source: Source, shard: str, silent: float, at: int, *, gone: bool, alone: bool) -> Failure:
    limit = (source.overdue or 0) / 1e6
    what = f"input '{source.name}'" if alone else f"shard '{shard}' of input '{source.name}'"
    last = (dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=at)).strftime("%Y-%m-%d %H:%M:%S UTC")
    heard = f"last heard of at {last}" if at else "never heard of"
    fate = "it was closed, and nobody waits for it" if gone else "whoever needs it waits for it"
    sentence = f"{what} has failed: silent for {silent:.1f} s, {limit:g} s are allowed; {heard}; {fate}"
    return Failure(what, source.name, shard, silent, sentence)


def _stuck(job: Job, now: int, limit: int) -> list[Failure]:
    offsets, commits = job.spark.child("offsets"), job.spark.child("commits")
    planned = max((int(n) for n in offsets.names() if n.isdigit()), default=-1)
    done = max((int(n) for n in commits.names() if n.isdigit()), default=-1)
    if planned <= done:
        return []
    running = (now - offsets.changed(str(planned))) / 1e6
    if running < limit / 1e6:
        return []
    sentence = (
        f"batch {planned} has failed or hangs: begun {running:.1f} s ago and not committed, {limit / 1e6:g} s are "
        f"allowed; a worker may be lost, or the run may have been stopped in the middle of it"
    )
    return [Failure(f"batch {planned}", None, None, running, sentence)]
