"""A running network on Spark: the handle that `start` returns."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.algebra.network import Network
from penstock.catalog.entering import enter
from penstock.connectors.points.point_history import SHARE
from penstock.errors import InternalError, PenstockError, QueryError
from penstock.language.attaching import BEGINNING_WORD, Query, Since
from penstock.language.copies import Moment
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.progress.idle import Span
from penstock.runtime.asking import answer, forget_asked
from penstock.runtime.attaching import attaching, detached_plan
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset, digest, intake_offset
from penstock.runtime.optimizer import optimizer_of
from penstock.runtime.outlet import Outlet
from penstock.runtime.overdue import Failure
from penstock.runtime.promises import Promise
from penstock.runtime.result import Result
from penstock.runtime.settings import EXPRESS
from penstock.runtime.shelf import Shelf
from penstock.runtime.spark_log import SparkLog
from penstock.runtime.traces import Trace
from penstock.runtime.train import Row
from penstock.runtime.versions import Version
from penstock.runtime.waiting import Waiting
from penstock.runtime.ways import read_shares, run_stages, way_by_tasks, way_of
from penstock.spark.carrier import JobTicket, our_errors, ship
from penstock.spark.failures import explained
from penstock.spark.query import collect, exchanged, start_query
from penstock.spark.reading import read_now
from penstock.spark.session import get_session
from penstock.spark.shares import Shares
from penstock.storage.folder import synced_together
from penstock.storage.temporary import TemporaryFolder

LOG = logging.getLogger("penstock.run")
_LISTEN_SECONDS = 0.2
"""How often a run looks whether another process asks it to change."""


class Changed(Protocol):
    """What describes a network: `pk.Network`."""

    @property
    def network(self) -> Network:
        """The boxes and arcs."""


class Run:
    """A network that runs until it is stopped, or until its inputs have ended."""

    def __init__(
        self,
        job: Job,
        *,
        master: str | None = None,
        to_the_end: bool = False,
        on_batch: Callable[[Record], None] | None = None,
    ) -> None:
        self._job = job
        self._on_batch = on_batch
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._began = time.time_ns() // 1000
        try:
            self._outlet = Outlet(job)
            self._log = SparkLog(job.spark)
            self._log.follow(Board(job.board))
            session = get_session(master)
            self._ticket = ship(job)
            self._shares_folder = TemporaryFolder("penstock-shares-")
            self._shares = Shares.in_folder(self._shares_folder.path)
            self._jobs = Shelf.of(job)
            self._tickets = {job.version: self._ticket}
            self._optimizer = optimizer_of(job, self._arrange)
            for version in self._versions_to_do_again():
                self._ticket_of(version)
            forget_asked(job.checkpoint)
            with self._explained():
                self._query = start_query(
                    session, job, self._ticket, self._shares, to_the_end=to_the_end, run_batch=self._batch
                )
        except BaseException:
            job.release()
            raise
        over = threading.Event()
        threading.Thread(target=_release_at_end, args=(self._query, self._outlet, job, over), daemon=True).start()
        threading.Thread(target=_listen, args=(weakref.ref(self), over), daemon=True).start()

    @property
    def result(self) -> Result:
        """What has been committed so far."""
        return Result(self._job)

    @property
    def checkpoint(self) -> str:
        return self._job.checkpoint.path

    def read(self, name: str) -> pa.Table:
        """The tuples of an output, a connection point or a view that have been committed so far.

        A view that keeps nothing is computed from what the connection points before it hold.
        """
        return read_now(self._job, name)

    def stop(self) -> Result:
        """Stop cleanly: a batch that is under way is finished or done again after a restart."""
        with self._explained():
            self._query.stop()
        self._release()
        self._raise_failure()
        return self.result

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the run ends by itself; whether it has. An error of the run is raised here."""
        with self._explained():
            with contextlib.suppress(StreamingQueryException):
                self._query.awaitTermination(None if seconds is None else max(1, round(seconds)))
            over = not self._query.isActive
            if over:
                self._release()
            self._raise_failure()
            return over

    def wait_for(self, condition: Callable[[Record], bool], seconds: float | None = 60.0) -> Record:
        """Wait until the board's latest record satisfies a condition, at most so many seconds if they are given."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            self._raise_failure()
            record = self.result.record()
            if condition(record):
                return record
            if time.monotonic() > deadline:
                raise TimeoutError(f"the condition did not hold within {seconds} s; the run is at batch {record.batch}")
            with self._changed:
                self._changed.wait(0.05)

    def status(self) -> dict[str, Any]:
        """How the run stands: state, batches, what every input, box and output has counted, why records were refused,
        and which inputs are out of order."""
        result = self.result
        record = result.record()
        with self._explained():
            state = "running" if self._query.isActive else ("failed" if self._query.exception() else "stopped")
        shown = {key: value for key, value in record.to_json().items() if key not in ("offset", "digest")}
        told = {"refused": result.refused(), "promises": [asdict(promise) for promise in result.promises()]}
        return {"state": state, "batch": record.batch, **shown, **told}

    def batches(self) -> list[dict[str, Any]]:
        """Spark's own account of the last batches: id, rows of its tasks, duration of each phase in milliseconds."""
        with self._explained():
            return [json.loads(p.json) for p in self._query.recentProgress]

    def progress(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The low-water mark of every arc and shard: port -> shard ("" for the whole arc) -> attribute -> value."""
        return self.result.progress()

    def waiting(self) -> list[Waiting]:
        """Who is waiting for whom: every box that holds something back, for which input and shard, and why."""
        return self.result.waiting()

    def promises(self) -> list[Promise]:
        """The inputs whose tuples were out of order: how far, what was declared, and what would be kept."""
        return self.result.promises()

    def traces(self) -> list[Trace]:
        """The way of the heartbeats and ETS of the last batches: every place, and how long they waited before it."""
        return self.result.traces()

    def failures(self, *, batch: Span = "1 minute") -> list[Failure]:
        """What is overdue: shards of inputs declared with `overdue=`, and a batch not committed within that time."""
        return self.result.failures(batch=batch, since=self._began)

    def change(self, network: Changed, *, discard: Iterable[str] = (), seconds: float | None = 60.0) -> Version:
        """Go on with another network, from a batch boundary on, without stopping.

        Parts that are the same (inputs, boxes and outputs of the same name and definition) keep what they hold. New
        ones start empty, and what is gone gives up what it held. A change by which a part that differs would lose
        something is refused, unless `discard` names it. Waits until the first batch of the new version is committed:
        at most so many seconds, and not at all if that is 0.
        """
        return self._take_effect(
            self._change(compile_network(network.network, self._job.plan.architecture), discard), seconds
        )

    def attach(
        self,
        query: Query,
        *,
        at: str | Sequence[str] = (),
        to: str | None = None,
        since: Since = BEGINNING_WORD,
        from_time: Moment | None = None,
        name: str | None = None,
        share: float = SHARE,
        seconds: float | None = 60.0,
    ) -> Version:
        """Attach a query to connection points of the running network, or a copy to one of its merges, without stopping
        it.

        `query` is a function that takes the stream of each point in `at` and ends in outputs. It reads what the points
        hold, and then goes on with what passes there, as if it had been there before: nothing is missed at the seam and
        nothing comes twice. `since` is where it begins: "beginning", with all that is held; "now", without history; a
        length of time such as "1 hour", counted back from the low-water mark of the stream; or a value of its
        progressing attribute, as a datetime. `share` is how much of the time batches of history may take at most, while
        other results go on. Its name is that of the function, if none is given. Waits like `change`.

        With `to`, the name of an lmerge, `query` is a function that takes the network, adds an input to it, and returns
        a stream: one more copy of those that are merged there. `from_time` is the time from which on it has all events;
        until the output is stable up to there, the other copies say how far it may go.
        """
        change = attaching(query, at=at, to=to, since=since, from_time=from_time, name=name, share=share)
        return self._take_effect(self._change_newest(change), seconds)

    def detach(self, name: str, *, seconds: float | None = 60.0) -> Version:
        """End a query that was attached, or let a copy leave that has joined. What it has written stays; what its boxes
        held is given up."""
        return self._take_effect(self._change_newest(lambda job: detached_plan(job, name)), seconds)

    def attached(self) -> list[dict[str, Any]]:
        """The queries that are attached: name, connection points, since when, share, and outputs."""
        return [dict(query) for query in self._jobs.versions.at(self._jobs.newest.version).attached]

    def versions(self) -> list[Version]:
        """The versions of the network, oldest first: since which batch, when, and what has changed."""
        return self._jobs.versions.all()

    def close_shard(self, source: str, shard: str) -> None:
        """Close a shard that will not deliver any more, so that nobody waits for it: a link that was taken down.

        It takes effect with the next batch, which runs even if nothing arrives. If the shard does deliver again, it is
        open again, from where the input stands by then.
        """
        self.result.close_shard(source, shard)

    def _batch(self, intake: DataFrame, batch: int) -> None:
        """Run one batch in the version of the network that its offset names, the way that suits it, and commit it."""
        offset = self._log.offset(batch)
        if offset is None:
            self._job.check_claim()  # whoever has taken the checkpoint may have taken the plan back
            raise InternalError(f"Spark runs batch {batch}, but its log does not say how it was planned")
        planned = intake_offset(offset)
        job = self._jobs.at(planned.version)
        way = way_of(job, planned, self._outlet.before(batch))
        rows: Iterable[Row] | None = self._read_here(job, batch, planned) if way == EXPRESS else None
        if rows is None:
            way = way_by_tasks(job, planned, way)
            rows = collect(intake if way == EXPRESS else exchanged(intake, job, self._ticket_of(job.version)))
        try:
            if way == EXPRESS:
                with our_errors("a stage"), synced_together():
                    self._outlet.announce(job, batch, offset)
                    rows = run_stages(job, batch, rows)
            record = self._outlet.commit(batch, rows, offset)
            self._job = job
            if self._optimizer is not None:
                self._optimizer.after(record)
            with self._changed:
                self._changed.notify_all()
            if self._on_batch is not None:
                self._on_batch(record)
        except BaseException as error:
            # Spark would make a text of it; who waits for the run gets the error itself, a callback's with its cause.
            self._failure = error
            raise

    def _read_here(self, job: Job, batch: int, planned: Offset) -> list[Row] | None:
        """The rows of a small batch, read in this process; None if Spark's tasks shall read them.

        They shall if the planner has left no shares: the batch is not small, or was planned before a restart. And they
        shall if anything goes wrong here: they may see paths that the driver does not, and a cluster has them try more
        than once. What fails there, too, they tell as ever.
        """
        shares = self._shares.take(digest(planned))
        if shares is None:
            return None
        try:
            with synced_together():
                return read_shares(job, batch, shares)
        except Exception as error:
            LOG.info("batch %d is left to Spark's tasks, as it could not be read here: %s", batch, error)
            return None

    def _versions_to_do_again(self) -> list[int]:
        """The versions of the network that are named by batches which were planned, but not done."""
        board = Board(self._job.board)
        texts = [board.offset(batch) for batch in board.planned()]
        return sorted(self._log.versions() | {intake_offset(text).version for text in texts if text is not None})

    def _change(self, plan: Plan, discard: Iterable[str], follows: int | None = None) -> Job:
        job = self._jobs.change(plan, discard, follows)
        self._ticket_of(job.version)
        if job.keep is None:  # a temporary checkpoint is in no catalog
            enter(job)
        return job

    def _change_newest(self, planned: Callable[[Job], Plan]) -> Job:
        newest = self._jobs.newest
        return self._change(planned(newest), (), newest.version)

    def _take_effect(self, job: Job, seconds: float | None) -> Version:
        """Wait until a version has taken effect, if somebody wants to; what it is."""
        if seconds != 0:
            over = self.wait_for(lambda record: record.version >= job.version or not self._query.isActive, seconds)
            if over.version < job.version and self.result.record().version < job.version:
                raise QueryError(
                    f"the run has ended before version {job.version} of its network could take effect",
                    network=job.plan.network.name,
                    hint="connection points can be read by another network: pk.connection_point(path)",
                )
        return self._jobs.versions.at(job.version)

    def _arrange(self, plan: Plan, instead_of: int) -> Job | None:
        job = self._jobs.arrange(plan, instead_of)
        if job is not None:
            self._ticket_of(job.version)
        return job

    def _answer(self) -> None:
        answer(self._jobs, self._job.checkpoint, self._change)

    def _ticket_of(self, version: int) -> JobTicket:
        if version not in self._tickets:
            self._tickets[version] = self._ticket.add(self._jobs.at(version))
        return self._tickets[version]

    def _release(self) -> None:
        self._outlet.close()
        self._job.release()

    def _raise_failure(self) -> None:
        with self._explained():
            failure = self._query.exception()
            if failure is None:
                return
            if self._failure is not None:
                raise self._failure
            raise failure

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return explained(self._job.plan.network.name, self._job.checkpoint.path, self._ticket)


def _release_at_end(query: StreamingQuery, outlet: Outlet, job: Job, over: threading.Event) -> None:
    """Give the checkpoint free when the query has ended, whoever waits for it or does not."""
    # The JVM may be gone, with all that it ran; a query that failed says so to those who wait for it.
    with contextlib.suppress(Exception):
        query.awaitTermination()
    over.set()
    outlet.close()
    job.release()


def _listen(of: weakref.ref[Run], over: threading.Event) -> None:
    """Hear what other processes ask of a run, until it is over."""
    while not over.wait(_LISTEN_SECONDS):
        run = of()
        if run is None:
            return
        with contextlib.suppress(PenstockError):  # a disk that fails now is told by the next batch
            run._answer()
        del run


def run_to_end(job: Job, *, master: str | None = None, on_batch: Callable[[Record], None] | None = None) -> Result:
    """Run over bounded inputs to their end."""
    run = Run(job, master=master, to_the_end=True, on_batch=on_batch)
    try:
        run.wait()
    except BaseException as error:
        if not isinstance(error, PenstockError):
            with contextlib.suppress(Exception):
                run._query.stop()
        raise
    return run.result
