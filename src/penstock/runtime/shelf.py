"""The jobs of a run, one for each version of its network that a batch may name; and how a version is added."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from penstock.errors import InternalError, QueryError
from penstock.plan.plan import Plan
from penstock.runtime.attaching import with_attached
from penstock.runtime.job import Inherited, Job, written_schema
from penstock.runtime.versions import Version, Versions, fingerprint, next_version


class Shelf:
    """The jobs that the process which runs a network keeps."""

    def __init__(self, job: Job, versions: Versions) -> None:
        self.versions = versions
        self._jobs = {job.version: replace(job, shelf=self)}
        self._changing = threading.Lock()

    @staticmethod
    def of(job: Job) -> Shelf:
        """The shelf that a job came from when its checkpoint was opened."""
        if job.shelf is None:
            raise InternalError("a job runs whose checkpoint nobody has opened")
        return job.shelf

    @property
    def newest(self) -> Job:
        return self._jobs[max(self._jobs)]

    def has(self, version: int) -> bool:
        return version <= self.newest.version

    def at(self, version: int) -> Job:
        if version not in self._jobs:
            known = self.versions.at(version)
            same = next((j for j in self._jobs.values() if fingerprint(j.plan) == known.fingerprint), None)
            plan = same.plan if same is not None else self.versions.plan(version)
            self._jobs[version] = _job_of(self.newest, plan, known, self._inherited(known))
        return self._jobs[version]

    def change(self, plan: Plan, discard: Iterable[str] = (), follows: int | None = None) -> Job:
        """Make a plan the next version of the network, and check its outputs; the newest, if it is the same already,
        however the optimizer has arranged it.

        A plan that `follows` a version was made from it, and is refused if another came in between. Others get the
        queries that are attached to the newest version.
        """
        with self._changing:
            newest = self.newest
            if follows is None:
                plan = with_attached(plan, newest.plan.declared, newest)
            elif follows != newest.version:
                raise QueryError(
                    "the network has changed in between",
                    network=plan.network.name,
                    expected=f"version {follows}",
                    found=f"version {newest.version}",
                    hint="ask again",
                )
            if self.versions.at(newest.version).is_of(plan):
                _check_places(newest.plan, plan, [output.name for output in plan.network.outputs])
                return newest
            return self._next(newest, plan, discard)

    def arrange(self, plan: Plan, instead_of: int) -> Job | None:
        """Make a plan of the same network, arranged in another way, its next version; None if another version than the
        one that it was made for is the newest by now."""
        with self._changing:
            newest = self.newest
            return self._next(newest, plan) if newest.version == instead_of else None

    def _next(self, newest: Job, plan: Plan, discard: Iterable[str] = ()) -> Job:
        _check_streams(newest.plan, plan)
        before = self.versions.at(newest.version)
        version = next_version(before, plan, discard)
        job = _job_of(newest, plan, version, before.inherited_by(version))
        outputs = [output.name for output in plan.network.outputs]
        _check_places(newest.plan, plan, [name for name in outputs if not job.is_new("output", name)])
        job.check_claim()
        for output in plan.network.outputs:
            if job.is_new("output", output.name):
                job.target(output).check(output.name, written_schema(output), job.scratch(output.name))
        self.versions.put(version, plan)
        _check_kept(self.versions, version, plan)
        self._jobs[version.number] = job
        return job

    def _inherited(self, version: Version) -> Inherited:
        return self.versions.at(version.number - 1).inherited_by(version) if version.number > 1 else Inherited()


def _check_kept(versions: Versions, version: Version, plan: Plan) -> None:
    """Refuse to attach queries that nobody could find again after a restart."""
    if version.attached and not versions.at(version.number).plan:
        versions.withdraw(version.number)
        raise QueryError(
            "an attached query is kept in the checkpoint with the user's signature, and there is no key to sign with",
            network=plan.network.name,
            hint="give this user a home folder, or set PENSTOCK_KEY",
        )


def _job_of(like: Job, plan: Plan, version: Version, inherited: Inherited) -> Job:
    return replace(like, plan=plan, version=version.number, births=version.births, inherited=inherited)


def _check_streams(before: Plan, after: Plan) -> None:
    """Refuse to change the inputs that are Spark's own: its query has them from its beginning."""
    own = [[s.name for s in plan.network.sources if s.connector.planned_elsewhere] for plan in (before, after)]
    if own[0] != own[1]:
        raise QueryError(
            "inputs that are Spark DataFrames cannot come or go",
            network=after.network.name,
            expected=f"just {', '.join(own[0]) or 'none'}",
            found=", ".join(own[1]) or "none",
            hint="start another run for them",
        )


def _check_places(before: Plan, after: Plan, staying: Iterable[str]) -> None:
    """Refuse to send an output elsewhere while batches of the version before may be on their way."""
    was, now = ({o.name: o.target.describe() for o in plan.network.outputs} for plan in (before, after))
    for name in staying:
        if was[name] != now[name]:
            raise QueryError(
                f"the output '{name}' would go elsewhere",
                network=after.network.name,
                expected=was[name],
                found=now[name],
                hint="stop the run and start it with the changed network, or give the output another name",
            )
