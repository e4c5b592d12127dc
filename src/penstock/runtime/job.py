"""A job: everything that the tasks of a run need to know, frozen and picklable; and the layout of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.box import Output
from penstock.algebra.hidden import ARRIVED
from penstock.connectors.targets.target import OpenPart, OutputProgress, Receipt, Target
from penstock.errors import PenstockError
from penstock.plan.plan import Plan
from penstock.runtime.settings import (
    CARRIED_BYTES,
    MOST_THREADS,
    REDUCED_BYTES,
    REMEMBERED_BYTES,
    TRAIN_BYTES,
    Settings,
)
from penstock.storage.disk import finish_forgetting
from penstock.storage.folder import Folder
from penstock.storage.lease import Claim, Lease

if TYPE_CHECKING:
    from penstock.runtime.shelf import Shelf

TASKS_PER_PLACE = 1_000_000
"""Parts of an output are numbered by place, task and piece; no place has this many tasks."""
PIECES_PER_TASK = 10_000
"""A task stages what leaves by an output in fewer pieces than this."""


def part_number(place: int, task: int, piece: int = 0) -> int:
    """The number of a part: the order of parts is that of places, tasks and pieces."""
    return (place * TASKS_PER_PLACE + task) * PIECES_PER_TASK + piece


@dataclass(frozen=True)
class Inherited:
    """What a version of a network takes over from the one before."""

    stages: int = 0
    """How many stages that one had."""
    boxes: Mapping[str, int] = field(default_factory=dict)
    """The stateful boxes that keep their state, and the stage at which they had it."""
    same: bool = False
    """Whether it is the same network, arranged in another way."""


@dataclass(frozen=True)
class Job:
    """A plan, how it is run, and where it keeps what it must remember."""

    plan: Plan
    settings: Settings
    checkpoint: Folder
    keep: object = field(default=None, compare=False)
    """What must live as long as the job does on the driver: the owner of a temporary checkpoint."""
    lease: Lease | None = field(default=None, compare=False)
    """That this process may write to the checkpoint; None for who only looks."""
    claim: Claim | None = field(default=None, compare=False)
    """What the tasks of the job know of it."""
    version: int = 1
    """Which version of the network this is."""
    births: Mapping[str, int] = field(default_factory=dict)
    """Since which version each part of the network has been the same, by role and name."""
    inherited: Inherited = field(default_factory=Inherited)
    shelf: Shelf | None = field(default=None, compare=False, repr=False)
    """The jobs of all versions, in the process that runs them."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "keep": None, "lease": None, "shelf": None}

    @property
    def epoch(self) -> int:
        """Which holder of the checkpoint this job belongs to."""
        return self.claim.epoch if self.claim is not None else 0

    def check_claim(self) -> None:
        """Before anything is written: is the checkpoint still ours?"""
        if self.claim is not None:
            self.claim.check()

    def release(self) -> None:
        """The run is over: others may have the checkpoint."""
        finish_forgetting()
        if self.lease is not None:
            self.lease.release()

    @property
    def threads(self) -> int:
        """Threads that this process has for a batch. Functions of the user's would only wait for each other in them."""
        called = any(box.calls_functions for box in self.plan.network.boxes)
        return 1 if called else min(self.settings.threads, MOST_THREADS)

    @property
    def train_bytes(self) -> int:
        """How much one batch takes in, decoded."""
        if self.settings.train_bytes is not None:
            return self.settings.train_bytes
        stateful = [box for stage in range(1, self.plan.stages + 1) for box in self.plan.stateful(stage)]
        if self.threads == 1 or not stateful:
            return TRAIN_BYTES
        if any(box.remembers for box in stateful):
            return REMEMBERED_BYTES
        return REDUCED_BYTES if all(box.reduces for box in stateful) else CARRIED_BYTES

    @property
    def board(self) -> Folder:
        return self.checkpoint.child("board")

    @property
    def spark(self) -> Folder:
        """Spark's own checkpoint of the query."""
        return self.checkpoint.child("spark")

    def journal(self, source: str) -> Folder:
        return self.checkpoint.child("intake", self._folder("input", source))

    def state(self, stage: int, bucket: int) -> Folder:
        return self.checkpoint.child("state", str(stage), str(bucket))

    def scratch(self, output: str) -> Folder:
        return self.checkpoint.child("outlet", self._folder("output", output))

    def target(self, output: Output) -> Target:
        """Where an output goes in this run: it may be a folder of the checkpoint."""
        return output.target.placed(self.checkpoint.child("points", self._folder("output", output.name)))

    def took_effect(self, batch: int, now: int) -> None:
        """A batch is about to be done that is the first of this version."""
        if self.shelf is not None:
            self.shelf.versions.begun(self.version, batch, now)

    def birth(self, role: str, name: str) -> int:
        """The version of the network since which a part of it has been the same."""
        return self.births.get(f"{role} {name}", 1)

    def is_new(self, role: str, name: str) -> bool:
        """Whether a part of the network begins with this version."""
        return self.birth(role, name) == self.version

    def _folder(self, role: str, name: str) -> str:
        """One that has been begun anew does not find what its namesake has left."""
        birth = self.birth(role, name)
        return name if birth == 1 else f"{name}@{birth}"

    def stage_outputs(
        self,
        batch: int,
        part: int,
        leaving: Mapping[str, list[pa.Table]],
        now: int,
        marks: Mapping[str, list[pa.Table]] | None = None,
        begun: Mapping[str, OpenPart] | None = None,
    ) -> dict[str, Receipt]:
        """On a worker: hand the tuples that reached an output to its target, and marks of groups; the receipts, by
        output. Parts that were `begun` have the tuples before these already."""
        receipts: dict[str, Receipt] = {}
        for output in self.plan.network.outputs:
            tables = [_leaving(t, output, now) for t in leaving.get(output.name, ())]
            moved = (marks or {}).get(output.name, [])
            part_begun = (begun or {}).get(output.name)
            if not tables and not moved and part_begun is None:
                continue
            self.check_claim()
            target, scratch = self.target(output), self.scratch(output.name)
            with self._at(output):
                if part_begun is None:
                    receipt = target.stage(batch, part, pa.concat_tables(tables), scratch) if tables else None
                else:
                    if tables:
                        part_begun.add(pa.concat_tables(tables))
                    receipt = part_begun.done()
                groups = target.stage_groups(batch, part, pa.concat_tables(moved), scratch) if moved else ()
            if receipt is not None or groups:
                files = receipt.files if receipt is not None else ()
                receipts[output.name] = Receipt(batch, part, (*files, *groups))
        return receipts

    def begin_outputs(
        self, batch: int, part: int, leaving: dict[str, list[pa.Table]], now: int, begun: dict[str, OpenPart]
    ) -> None:
        """On a worker: hand over tuples of parts that are not whole yet, to the targets that take them so; `begun` has
        these parts. What they have taken leaves no more."""
        for output in self.plan.network.outputs:
            tables = [_leaving(t, output, now) for t in leaving.get(output.name, ())]
            if not tables:
                continue
            with self._at(output):
                if output.name not in begun:
                    opened = self.target(output).opened(batch, part, self.scratch(output.name))
                    if opened is None:
                        continue
                    begun[output.name] = opened
                begun[output.name].add(pa.concat_tables(tables))
            del leaving[output.name]

    def commit_output(self, output: Output, batch: int, receipts: list[Receipt], progress: OutputProgress) -> None:
        """On the driver: let the target make the parts of a batch visible, and its punctuation."""
        ordered = sorted(receipts, key=lambda r: r.part)
        with self._at(output):
            self.target(output).commit(batch, ordered, self.scratch(output.name), progress)

    @contextmanager
    def _at(self, output: Output) -> Iterator[None]:
        """Tell an error at which output it happened."""
        try:
            yield
        except PenstockError as error:
            raise error.located(network=self.plan.network.name, box=output.name) from error.__cause__


def written_schema(output: Output) -> pa.Schema:
    """What is written of an output: what queries see, and the hidden columns that its target asks for."""
    return pa.schema([*output.schema(0), *(pa.field(name, pa.int64()) for name in output.target.hidden)])


def _leaving(tuples: pa.Table, output: Output, now: int) -> pa.Table:
    if ARRIVED in output.target.hidden and ARRIVED not in tuples.column_names:
        tuples = tuples.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), tuples.num_rows))
    return tuples.select(written_schema(output).names)
