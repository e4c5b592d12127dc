"""Opening a checkpoint: taking it for a run, or looking into that of another process.

```
 open_job: lease ─> identity: is it this network's? ─> agreement: are all its pieces of one batch? ─> targets
```
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from penstock.algebra.box import Output
from penstock.errors import QueryError, WorldError
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.runtime.agreement import agree, last_epoch
from penstock.runtime.job import Job, written_schema
from penstock.runtime.settings import POWER, Settings
from penstock.runtime.train import hash_probe
from penstock.storage.folder import Folder
from penstock.storage.lease import MACHINE, Surroundings, take
from penstock.storage.private import make_private
from penstock.storage.sealed import read_sealed, write_sealed

_IDENTITY = "network.json"
ABSENT = {"architecture": OUT_OF_ORDER}
"""What a checkpoint means that does not say."""


def open_job(
    plan: Plan,
    settings: Settings,
    checkpoint: Folder,
    cores: int,
    keep: object = None,
    surroundings: Surroundings = MACHINE,
) -> Job:
    """Take the checkpoint for this run, make sure that it is this network's and whole, and check all targets."""
    checkpoint = replace(checkpoint, lasting=settings.durability == POWER)
    make_private(checkpoint)
    lease = take(checkpoint, least=last_epoch(checkpoint), surroundings=surroundings)
    try:
        known = _identity(checkpoint)
        if known is not None and not settings.buckets:
            settings = replace(settings, buckets=known["buckets"])
        job = Job(plan, settings.resolved(plan, cores), checkpoint, keep, lease, lease.claim)
        identity = {
            "network": plan.network.name,
            "architecture": plan.architecture,
            "fingerprint": fingerprint(plan),
            "buckets": job.settings.buckets,
            "hash": hash_probe(),
        }
        if known is None:
            write_sealed(checkpoint, _IDENTITY, {**identity, "boxes": _boxes(plan)})
        else:
            _check_identity(job, known, identity)
        agree(job)
        for output in plan.network.outputs:
            output.target.check(output.name, written_schema(output), job.scratch(output.name))
        lease.claim.check()
    except BaseException as error:
        try:
            if isinstance(error, WorldError):
                lease.claim.check()  # whoever has lost it while looking has seen what another process was changing
        finally:
            lease.release()
        raise
    return job


def architecture_of(checkpoint: Folder) -> str:
    """The architecture of the run that a checkpoint belongs to; the default where there is none."""
    return str((_identity(checkpoint) or ABSENT)["architecture"])


def look_at(plan: Plan, checkpoint: Folder) -> Job:
    """The job of a run, running or stopped, to read from; nothing is claimed or written."""
    known = _identity(checkpoint)
    if known is None:
        raise QueryError(
            f"there is no run in {checkpoint.path}",
            network=plan.network.name,
            hint="give the checkpoint that the network was started with",
        )
    job = Job(plan, replace(Settings(), buckets=known["buckets"]), checkpoint)
    _check_identity(job, known, {**known, "network": plan.network.name, "fingerprint": fingerprint(plan)})
    return job


def _identity(checkpoint: Folder) -> dict[str, Any] | None:
    """What the checkpoint says of itself; None if it is new."""
    return ABSENT | read_sealed(checkpoint, _IDENTITY) if checkpoint.exists(_IDENTITY) else None


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
