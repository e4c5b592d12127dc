"""The network as people use it: build it, explain it, run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.catalog.entering import enter, place_of_run
from penstock.catalog.finding import checkpoint_of
from penstock.connectors.points.point_history import SHARE
from penstock.errors import QueryError
from penstock.language.attaching import BEGINNING_WORD, Query, Since
from penstock.language.builder import Builder
from penstock.language.copies import Moment
from penstock.plan.compile import compile_network
from penstock.plan.explain import explain
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.runtime.asking import ask
from penstock.runtime.attaching import attaching, detached_plan
from penstock.runtime.board import Board, Record
from penstock.runtime.budget import Budget
from penstock.runtime.job import Job
from penstock.runtime.limits import Most, judge
from penstock.runtime.live_plan import explain_live
from penstock.runtime.local import run_locally
from penstock.runtime.opening import architecture_of, look_at, open_job, versions_of
from penstock.runtime.result import Result
from penstock.runtime.settings import AUTO, OFF, POWER, PROCESS, REFUSE, Settings
from penstock.runtime.shelf import Shelf
from penstock.runtime.stepping.stepper import Stepper
from penstock.runtime.versions import Version
from penstock.spark.carrier import dumps
from penstock.spark.reading import read_now
from penstock.spark.run import Run, run_to_end
from penstock.spark.session import parallelism, shared_cores
from penstock.storage.folder import Folder
from penstock.storage.lease import refuse_if_held
from penstock.storage.sizes import Size
from penstock.storage.temporary import TemporaryFolder

ENGINES = ("spark", "local")


class Network(Builder):
    """A network of boxes and arcs; the unit that is started."""

    def run(
        self,
        engine: str = "spark",
        *,
        master: str | None = None,
        checkpoint: str | None = None,
        train_rows: int | None = None,
        train_bytes: int | None = None,
        buckets: int = 0,
        tasks: int = 0,
        architecture: str = OUT_OF_ORDER,
        durability: str = POWER,
        way: str = AUTO,
        optimize: str = OFF,
        max_refused: Most | None = None,
        max_late: Most | None = None,
        keep: Size | None = None,
        disk: Size | None = None,
        when_full: str = REFUSE,
        discard: Iterable[str] = (),
        name: str | None = None,
        on_batch: Callable[[Record], None] | None = None,
    ) -> Result:
        """Run over bounded inputs to their end, exactly once, and return what came out.

        With a `checkpoint` that an earlier run has left, the run goes on from there. `train_bytes` bounds the decoded
        tuples that one batch takes in, and `train_rows`, if given, their number; `buckets` and `tasks` are the
        parallelism of stages and of the intake (0: one for each core). `architecture` is "out-of-order"; or "in-order",
        which keeps every stream in order and holds tuples back for that. With `durability` "power" a committed batch
        survives a power cut; "process" is for those who only fear the end of the process. `way` is how batches get
        through the stages: "auto" by their size, "express" in this process, "exchange" in tasks of Spark's; the
        results are the same. With `optimize` "on" boxes are put in another order while the network runs, by what they
        cost and let through; the results are the same. `on_batch` is called after every batch with the board's record.

        `max_refused` and `max_late` are the most records of an input that may be refused, and tuples that may be late:
        a number, or a share such as "5%". The run ends with an error after the batch that exceeds them.

        `keep` is how many bytes, such as "1 GB", each output keeps whose tuples are kept, unless it says so itself; and
        each late and error stream. `disk` is how much the run may take up on disks, with state and connection points.
        If the next batch may not have room, the run ends with an error; with `when_full="oldest"` the oldest history
        of connection points and kept results leaves.

        If the network has changed since the checkpoint was made, the run goes on with the changed one: see
        `Run.change`, also for `discard`.

        A run with a checkpoint enters the catalog, where other processes find it by its name: `name`, or that of the
        network. With `name` alone the checkpoint is the one that the run had before, or a new one in the catalog's
        folder.
        """
        if engine not in ENGINES:
            raise QueryError(f"unknown engine {engine!r}", expected=f"one of {', '.join(ENGINES)}")
        settings = Settings(
            train_rows=train_rows,
            train_bytes=train_bytes,
            buckets=buckets,
            tasks=tasks,
            durability=durability,
            way=way,
            optimize=optimize,
            max_refused=max_refused,
            max_late=max_late,
            keep=keep,
            disk=disk,
            when_full=when_full,
        )
        unbounded = [s.name for s in self.network.sources if not s.connector.bounded]
        if unbounded:
            raise QueryError(
                f"the input '{unbounded[0]}' never ends, so run() would not either",
                network=self.name,
                hint="use start(), which returns a handle",
            )
        checkpoint = place_of_run(checkpoint, name)
        if checkpoint is not None:
            refuse_if_held(Folder(checkpoint))
        if engine == "local":
            job = self._job(settings, checkpoint, os.cpu_count() or 1, architecture, discard, name)
            return run_locally(job, on_batch)
        settings = replace(settings, threads=shared_cores(master))
        job = self._job(settings, checkpoint, parallelism(master), architecture, discard, name)
        return run_to_end(job, master=master, on_batch=on_batch)

    def start(
        self,
        *,
        master: str | None = None,
        checkpoint: str | None = None,
        train_rows: int | None = None,
        train_bytes: int | None = None,
        buckets: int = 0,
        tasks: int = 0,
        architecture: str = OUT_OF_ORDER,
        durability: str = POWER,
        way: str = AUTO,
        optimize: str = OFF,
        max_refused: Most | None = None,
        max_late: Most | None = None,
        keep: Size | None = None,
        disk: Size | None = None,
        when_full: str = REFUSE,
        discard: Iterable[str] = (),
        name: str | None = None,
        on_batch: Callable[[Record], None] | None = None,
    ) -> Run:
        """Start on Spark and return a handle; the run goes on until it is stopped or its inputs have ended."""
        settings = Settings(
            train_rows=train_rows,
            train_bytes=train_bytes,
            buckets=buckets,
            tasks=tasks,
            durability=durability,
            way=way,
            optimize=optimize,
            max_refused=max_refused,
            max_late=max_late,
            keep=keep,
            disk=disk,
            when_full=when_full,
        )
        checkpoint = place_of_run(checkpoint, name)
        if checkpoint is not None:
            refuse_if_held(Folder(checkpoint))
        settings = replace(settings, threads=shared_cores(master))
        job = self._job(settings, checkpoint, parallelism(master), architecture, discard, name)
        bounded = all(s.connector.bounded for s in job.plan.network.sources)
        return Run(job, master=master, to_the_end=bounded, on_batch=on_batch)

    def look(self, checkpoint: str) -> Result:
        """What a run of this network has produced so far, and who waits in it; the run may be going on elsewhere.

        `checkpoint` is that of the run, or its name."""
        folder = Folder(checkpoint_of(checkpoint))
        return Result(look_at(compile_network(self.network, architecture_of(folder)), folder))

    def read(self, checkpoint: str, name: str, *, master: str | None = None) -> pa.Table:
        """What an output, a connection point or a view of a run shows now; the run may be going on elsewhere."""
        folder = Folder(checkpoint_of(checkpoint))
        return read_now(look_at(compile_network(self.network, architecture_of(folder)), folder), name, master)

    def change(self, checkpoint: str, *, discard: Iterable[str] = (), seconds: float = 60.0) -> Version:
        """Ask the run that uses a checkpoint, in another process, to go on with this network: see `Run.change`.

        The version is the one that the run has made of it; it takes effect with the next batch.
        """
        folder = Folder(checkpoint_of(checkpoint))
        plan = compile_network(self.network, architecture_of(folder))
        return ask(folder, plan, versions_of(plan, folder, dumps), discard, seconds)

    def attach(
        self,
        checkpoint: str,
        query: Query,
        *,
        at: str | Sequence[str] = (),
        to: str | None = None,
        since: Since = BEGINNING_WORD,
        from_time: Moment | None = None,
        name: str | None = None,
        share: float = SHARE,
        seconds: float = 60.0,
    ) -> Version:
        """Ask the run that uses a checkpoint, in another process, to attach a query, or a copy: see `Run.attach`."""
        change = attaching(query, at=at, to=to, since=since, from_time=from_time, name=name, share=share)
        return self._ask_with(checkpoint, change, seconds)

    def detach(self, checkpoint: str, name: str, *, seconds: float = 60.0) -> Version:
        """Ask the run that uses a checkpoint, in another process, to detach a query: see `Run.detach`."""
        return self._ask_with(checkpoint, lambda job: detached_plan(job, name), seconds)

    def _ask_with(self, checkpoint: str, planned: Callable[[Job], Plan], seconds: float) -> Version:
        folder = Folder(checkpoint_of(checkpoint))
        plan = compile_network(self.network, architecture_of(folder))
        job = look_at(plan, folder)
        return ask(folder, planned(job), versions_of(plan, folder, dumps), (), seconds, job.version)

    def look_at_versions(self, checkpoint: str) -> list[Version]:
        """The versions of this network that a run has had, oldest first."""
        folder = Folder(checkpoint_of(checkpoint))
        return versions_of(compile_network(self.network, architecture_of(folder)), folder).all()

    def explain(self, *, architecture: str = OUT_OF_ORDER, live: str | None = None) -> str:
        """The plan: boxes, stages, the two halves of each Aggregate, and the progress of every arc.

        With `live`, the checkpoint of a run: the plan as the run has it now, what boxes cost and let through there,
        what the optimizer has changed, when, and what that has saved.
        """
        if live is None:
            return explain(compile_network(self.network, architecture))
        folder = Folder(live)
        job = look_at(compile_network(self.network, architecture_of(folder)), folder)
        return explain_live(job, Shelf.of(job).versions.at(job.version))

    def stepper(self, *, relaxed: bool = True, architecture: str = OUT_OF_ORDER) -> Stepper:
        """Step through the network in this process, one element and one box at a time; inputs are fed by hand.

        With `relaxed=False` merges and joins wait until all their inputs have elements, as they do without time-stamp
        memory: then tuples with equal timestamps hold each other back.
        """
        return Stepper(compile_network(self.network, architecture), relaxed=relaxed)

    def _job(
        self,
        settings: Settings,
        checkpoint: str | None,
        cores: int,
        architecture: str,
        discard: Iterable[str],
        name: str | None,
    ) -> Job:
        plan = compile_network(self.network, architecture)
        if checkpoint is not None:
            job = open_job(plan, settings, Folder(checkpoint), cores, discard=discard, dumps=dumps)
            try:
                # A run that a limit has ended must not creep on, a batch with every start.
                judge(plan.network, settings, Board(job.board).latest())
                if (budget := Budget.of(job)) is not None:
                    budget.refuse_if_full(job)
                enter(job, name)
            except BaseException:
                job.release()
                raise
            return job
        temporary = TemporaryFolder(f"penstock-{self.name}-")
        # Nobody can go on from a folder that goes with this process.
        settings = replace(settings, durability=PROCESS)
        return open_job(plan, settings, Folder(temporary.path), cores, keep=temporary, dumps=dumps)
