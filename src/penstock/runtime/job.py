"""A job: everything that the tasks of a run need to know, frozen and picklable; and the layout of its checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import pyarrow as pa

from penstock.algebra.box import Output
from penstock.algebra.hidden import ARRIVED
from penstock.connectors.targets import Receipt, Results
from penstock.errors import PenstockError, QueryError
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.runtime.settings import Settings
from penstock.runtime.train import hash_probe
from penstock.storage.folder import Folder
from penstock.storage.private import make_private

_IDENTITY = "network.json"
ABSENT = {"architecture": OUT_OF_ORDER}
"""What a checkpoint means that does not say."""

TASKS_PER_PLACE = 1_000_000
"""Parts of an output are numbered by place, task and piece; no place has this many tasks."""
PIECES_PER_TASK = 10_000
"""A task stages what leaves by an output in fewer pieces than this."""


def part_number(place: int, task: int, piece: int = 0) -> int:
    """The number of a part: the order of parts is that of places, tasks and pieces."""
    return (place * TASKS_PER_PLACE + task) * PIECES_PER_TASK + piece


@dataclass(frozen=True)
class Job:
    """A plan, how it is run, and where it keeps what it must remember."""

    plan: Plan
    settings: Settings
    checkpoint: Folder
    keep: object = field(default=None, compare=False)
    """What must live as long as the job does on the driver: the owner of a temporary checkpoint."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "keep": None}

    @property
    def board(self) -> Folder:
        return self.checkpoint.child("board")

    @property
    def spark(self) -> Folder:
        """Spark's own checkpoint of the query."""
        return self.checkpoint.child("spark")

    def journal(self, source: str) -> Folder:
        return self.checkpoint.child("intake", source)

    def state(self, stage: int, bucket: int) -> Folder:
        return self.checkpoint.child("state", str(stage), str(bucket))

    def scratch(self, output: str) -> Folder:
        return self.checkpoint.child("outlet", output)

    def stage_outputs(self, batch: int, part: int, leaving: dict[str, list[pa.Table]], now: int) -> dict[str, object]:
        """On a worker: hand the tuples that reached an output to its target; the receipts, as JSON."""
        receipts: dict[str, object] = {}
        for output in self.plan.network.outputs:
            tables = [_leaving(t, output, now) for t in leaving.get(output.name, ())]
            if not tables:
                continue
            with self._at(output):
                receipt = output.target.stage(batch, part, pa.concat_tables(tables), self.scratch(output.name))
            if receipt is not None:
                receipts[output.name] = receipt.to_json()
        return receipts

    def commit_output(self, output: Output, batch: int, receipts: list[Receipt]) -> None:
        """On the driver: let the target make the parts of a batch visible."""
        ordered = sorted(receipts, key=lambda r: r.part)
        with self._at(output):
            output.target.commit(batch, ordered, self.scratch(output.name))

    @contextmanager
    def _at(self, output: Output) -> Iterator[None]:
        """Tell an error at which output it happened."""
        try:
            yield
        except PenstockError as error:
            raise error.located(network=self.plan.network.name, box=output.name) from error.__cause__


def open_job(plan: Plan, settings: Settings, checkpoint: Folder, cores: int, keep: object = None) -> Job:
    """Claim the checkpoint for this network, or make sure that it is this network's; check all targets."""
    make_private(checkpoint)
    known = ABSENT | json.loads(checkpoint.read(_IDENTITY).to_pybytes()) if checkpoint.exists(_IDENTITY) else None
    if known is not None and not settings.buckets:
        settings = replace(settings, buckets=known["buckets"])
    job = Job(plan, settings.resolved(plan, cores), checkpoint, keep)
    identity = {
        "network": plan.network.name,
        "architecture": plan.architecture,
        "fingerprint": fingerprint(plan),
        "buckets": job.settings.buckets,
        "hash": hash_probe(),
    }
    if known is None:
        checkpoint.write(_IDENTITY, json.dumps({**identity, "boxes": _boxes(plan)}).encode())
    else:
        _check_identity(job, known, identity)
    for output in plan.network.outputs:
        output.target.check(output.name, _written(output), job.scratch(output.name))
    return job


def architecture_of(checkpoint: Folder) -> str:
    """The architecture of the run that a checkpoint belongs to; the default where there is none."""
    known = json.loads(checkpoint.read(_IDENTITY).to_pybytes()) if checkpoint.exists(_IDENTITY) else {}
    return str((ABSENT | known)["architecture"])


def look_at(plan: Plan, checkpoint: Folder) -> Job:
    """The job of a run, running or stopped, to read from; nothing is claimed or written."""
    if not checkpoint.exists(_IDENTITY):
        raise QueryError(
            f"there is no run in {checkpoint.path}",
            network=plan.network.name,
            hint="give the checkpoint that the network was started with",
        )
    known = ABSENT | json.loads(checkpoint.read(_IDENTITY).to_pybytes())
    job = Job(plan, replace(Settings(), buckets=known["buckets"]), checkpoint)
    _check_identity(job, known, {**known, "network": plan.network.name, "fingerprint": fingerprint(plan)})
    return job


def _written(output: Output) -> pa.Schema:
    """What is written of an output: kept results have their QoS timestamps, other places what queries see."""
    schema = output.schema(0)
    return schema.append(pa.field(ARRIVED, pa.int64())) if isinstance(output.target, Results) else schema


def _leaving(tuples: pa.Table, output: Output, now: int) -> pa.Table:
    if ARRIVED not in tuples.column_names and isinstance(output.target, Results):
        tuples = tuples.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), tuples.num_rows))
    return tuples.select(_written(output).names)


def _check_identity(job: Job, known: dict[str, object], identity: dict[str, object]) -> None:
    reasons = {
        "network": "belongs to another network",
        "architecture": "was made with another architecture",
        "fingerprint": "was made by a different version of this network",
        "buckets": "was made with another number of buckets",
        "hash": "was made with another version of the kernel, whose groups live in other buckets",
    }
    for key, reason in reasons.items():
        if known.get(key) != identity[key]:
            expected, found = str(known.get(key)), str(identity[key])
            if key == "fingerprint" and isinstance(before := known.get("boxes"), list):
                pairs = zip_longest(before, _boxes(job.plan), fillvalue="no such box")
                expected, found = next((pair for pair in pairs if pair[0] != pair[1]), (expected, found))
            raise QueryError(
                f"the checkpoint {job.checkpoint.path} {reason}",
                network=job.plan.network.name,
                expected=expected,
                found=found,
                hint="run the network as it was, or start with another checkpoint",
            )


def fingerprint(plan: Plan) -> str:
    """What a checkpoint depends on: every box with its inputs, and its stage. Where outputs go may change."""
    lines = [
        f"{b.kind} {b.name} ({', '.join(p.name for p in b.inputs)}) "
        f"{'' if isinstance(b, Output) else b.describe()} {plan.stage_of.get(b.name, '')} {b.schema(0)}"
        for b in plan.network.boxes
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _boxes(plan: Plan) -> list[str]:
    """The same as people read it, to say what has changed."""
    return [
        f"{b.kind} {b.name} <- {', '.join(p.name for p in b.inputs) or 'outside'}"
        f"{'' if isinstance(b, Output) else f': {b.describe()}'} "
        f"({', '.join(f'{f.name} {f.type}' for f in b.schema(0))})"
        for b in plan.network.boxes
    ]
