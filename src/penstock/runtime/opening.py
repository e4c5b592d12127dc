"""Opening a checkpoint: taking it for a run, or looking into that of another process.

```
 open_job: lease ─> identity: is it this network's? ─> agreement: are all its pieces of one batch? ─> targets
```
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import QueryError, WorldError
from penstock.plan.compile import compile_network
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.runtime.agreement import agree, last_epoch
from penstock.runtime.attaching import seen_with_attached
from penstock.runtime.board import Board
from penstock.runtime.job import Inherited, Job, written_schema
from penstock.runtime.offsets import intake_offset
from penstock.runtime.settings import ON, POWER, Settings
from penstock.runtime.shelf import Shelf
from penstock.runtime.spark_log import SparkLog
from penstock.runtime.train import hash_probe
from penstock.runtime.versions import Dumps, Part, Version, Versions, fingerprint, first_version, next_version
from penstock.storage.folder import Folder
from penstock.storage.lease import MACHINE, Surroundings, take
from penstock.storage.private import make_private
from penstock.storage.sealed import RESTORE, read_sealed, write_sealed

_IDENTITY = "network.json"
_VERSIONS = "versions"
ABSENT = {"architecture": OUT_OF_ORDER}
"""What a checkpoint means that does not say."""


def open_job(
    plan: Plan,
    settings: Settings,
    checkpoint: Folder,
    cores: int,
    keep: object = None,
    surroundings: Surroundings = MACHINE,
    *,
    discard: Iterable[str] = (),
    dumps: Dumps | None = None,
) -> Job:
    """Take the checkpoint for this run, make sure that it is this network's and whole, and check all targets.

    If the network has changed since, this is its next version; what would be lost by that must be named in `discard`.
    """
    checkpoint = replace(checkpoint, lasting=settings.durability == POWER)
    make_private(checkpoint)
    lease = take(checkpoint, least=last_epoch(checkpoint), surroundings=surroundings)
    try:
        if checkpoint.lasting:
            checkpoint.sync_names()
        known = identity_of(checkpoint)
        if known is not None and not settings.buckets:
            settings = replace(settings, buckets=known["buckets"])
        job = Job(plan, settings.resolved(plan, cores), checkpoint, keep, lease, lease.claim)
        identity = {
            "network": plan.network.name,
            "architecture": plan.architecture,
            "buckets": job.settings.buckets,
            "hash": hash_probe(),
        }
        if known is None:
            known = {**identity, "run": uuid.uuid4().hex, "synced": checkpoint.lasting}
            write_sealed(checkpoint, _IDENTITY, known)
        else:
            _check_identity(job, known, identity)
        if known["synced"] and not checkpoint.lasting:
            known = {**known, "synced": False}
            write_sealed(checkpoint, _IDENTITY, known)
        job = _turn_to_version(job, Versions(checkpoint.child(_VERSIONS), known["run"], dumps), discard)
        agree(job, always_synced=known["synced"])
        for output in job.plan.network.outputs:
            job.target(output).check(output.name, written_schema(output), job.scratch(output.name))
        lease.claim.check()
    except BaseException as error:
        try:
            if isinstance(error, WorldError):
                lease.claim.check()  # whoever has lost it while looking has seen what another process was changing
        finally:
            lease.release()
        raise
    return job


def _turn_to_version(job: Job, versions: Versions, discard: Iterable[str]) -> Job:
    """The job as the version of the network that it is: the one that ran last, or the next."""
    ran = _last_named(job)
    for number in versions.numbers():
        if number > max(1, ran):
            versions.withdraw(number)  # somebody asked for it, but no batch has heard of it
    if not versions.numbers() or not ran:
        if ran:
            raise WorldError(f"the versions of the network are missing in {versions.folder.path}", hint=RESTORE)
        version = first_version(job.plan)
        versions.put(version, job.plan)
        return Shelf(replace(job, births=version.births), versions).newest
    last = versions.at(ran)
    job = seen_with_attached(job, versions, last)
    job = replace(job, plan=_as_arranged(job.plan, last)) if job.settings.optimize == ON else job
    before = versions.at(ran - 1).inherited_by(last) if ran > 1 else Inherited()
    if last.fingerprint == fingerprint(job.plan):
        if versions.dumps is not None:
            versions.put(last, job.plan)  # functions that it calls may have been mended
        return Shelf(replace(job, version=ran, births=last.births, inherited=before), versions).newest
    version = next_version(last, job.plan, discard)
    job = replace(job, version=version.number, births=version.births, inherited=last.inherited_by(version))
    versions.put(version, job.plan)
    return Shelf(job, versions).newest


def _as_arranged(plan: Plan, version: Version) -> Plan:
    """A plan as the optimizer had arranged it in a version; as it is, if it cannot be arranged like that any more."""
    if plan.declared is None or not version.arrangement or not version.is_of(plan):
        return plan
    try:
        arranged = compile_network(plan.declared, plan.architecture, version.steps)
    except (QueryError, KeyError, TypeError):
        return plan
    return arranged if fingerprint(arranged) == version.fingerprint else plan


def _last_named(job: Job) -> int:
    """The newest version that any offset names; 0 if there is none."""
    board, log = Board(job.board), SparkLog(job.spark)
    found = {0} | log.versions()
    for batch in {*board.batches(), *board.planned()}:
        with contextlib.suppress(WorldError):
            if (text := board.offset(batch)) is not None:
                found.add(intake_offset(text).version)
    return max(found)


def has_run(checkpoint: Folder) -> bool:
    """Whether a folder is the checkpoint of a run."""
    return checkpoint.exists(_IDENTITY)


def history_of(checkpoint: Folder) -> list[Version]:
    """The versions that a network has had in a checkpoint, oldest first: for those who do not have the network."""
    known = identity_of(checkpoint)
    return Versions(checkpoint.child(_VERSIONS), known["run"]).all() if known is not None else []


def architecture_of(checkpoint: Folder) -> str:
    """The architecture of the run that a checkpoint belongs to; the default where there is none."""
    return str((identity_of(checkpoint) or ABSENT)["architecture"])


def look_at(plan: Plan, checkpoint: Folder) -> Job:
    """The job of a run, running or stopped, to read from; nothing is claimed or written."""
    job, known = _seen(plan, checkpoint)
    versions = Versions(checkpoint.child(_VERSIONS), known["run"])
    numbers = versions.numbers()
    if numbers:
        job = seen_with_attached(job, versions, versions.at(numbers[-1]))
    version = next((v for v in map(versions.at, reversed(numbers)) if v.is_of(job.plan)), None)
    if version is None:
        raise _another_version(job, versions.at(numbers[-1]) if numbers else None)
    job = replace(job, plan=_as_arranged(job.plan, version))
    return Shelf(replace(job, version=version.number, births=version.births), versions).newest


def versions_of(plan: Plan, checkpoint: Folder, dumps: Dumps | None = None) -> Versions:
    """The versions of a network that has run in a checkpoint, whatever version the plan is of."""
    return Versions(checkpoint.child(_VERSIONS), _seen(plan, checkpoint)[1]["run"], dumps)


def _seen(plan: Plan, checkpoint: Folder) -> tuple[Job, dict[str, Any]]:
    """A job to look with, and what the checkpoint says of itself; refused if it is not of this network."""
    known = identity_of(checkpoint)
    if known is None:
        raise QueryError(
            f"there is no run in {checkpoint.path}",
            network=plan.network.name,
            hint="give the checkpoint that the network was started with",
        )
    job = Job(plan, replace(Settings(), buckets=known["buckets"]), checkpoint)
    _check_identity(job, known, {**known, "network": plan.network.name})
    return job, known


def _another_version(job: Job, newest: Version | None) -> QueryError:
    ours = first_version(job.plan).parts
    theirs = newest.parts if newest is not None else {}
    differing = [key for key in dict.fromkeys((*theirs, *ours)) if _text(theirs, key) != _text(ours, key)]
    key = differing[0] if differing else ""
    return QueryError(
        f"the run in {job.checkpoint.path} is of a different version of this network",
        network=job.plan.network.name,
        expected=f"{key}: {_text(theirs, key)}" if key else "boxes in another order",
        found=f"{key}: {_text(ours, key)}" if key else None,
        hint="give the application as it runs now",
    )


def _text(parts: Mapping[str, Part], key: str) -> str:
    return parts[key].text if key in parts else "no such part"


def identity_of(checkpoint: Folder) -> dict[str, Any] | None:
    """What the checkpoint says of itself; None if it is new."""
    return ABSENT | read_sealed(checkpoint, _IDENTITY) if checkpoint.exists(_IDENTITY) else None


def _check_identity(job: Job, known: dict[str, object], identity: dict[str, object]) -> None:
    reasons = {
        "network": "belongs to another network",
        "architecture": "was made with another architecture",
        "buckets": "was made with another number of buckets",
        "hash": "was made with another version of the kernel, whose groups live in other buckets",
    }
    for key, reason in reasons.items():
        if known.get(key) != identity[key]:
            raise QueryError(
                f"the checkpoint {job.checkpoint.path} {reason}",
                network=job.plan.network.name,
                expected=str(known.get(key)),
                found=str(identity[key]),
                hint="run the network as it was, or start with another checkpoint",
            )
