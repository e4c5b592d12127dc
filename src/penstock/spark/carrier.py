"""How a job and its errors cross the border between the driver and Spark's Python workers.

The job is pickled once into its checkpoint; tasks carry its ticket, and a worker keeps the jobs that it has read. An
error of ours leaves a worker inside the text of Spark's own error, from where the driver takes it out again.

Either way data must not be able to speak for us. A job file is unpickled only if its bytes have the digest that the
ticket names. An error crosses as JSON texts and is signed with the key of the ticket, which is drawn anew for every run
and never shown: a value of the input, a kernel's message or a text that quotes an earlier error cannot be taken for
ours, whatever it looks like and wherever in Spark's text it stands. Nothing of an error is ever unpickled.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import pickle
import re
import secrets
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext, cloudpickle

from penstock.errors import InternalError, PenstockError, WorldError, error_of, fields_of

if TYPE_CHECKING:
    from penstock.plan.plan import Plan
    from penstock.runtime.job import Job

_MARK: Final = "penstock-error:"
_SIGNED: Final = re.compile(r"([0-9a-f]{64}):([A-Za-z0-9+/=]+)")
_LONGEST: Final = 20_000
"""An error may quote a value of any size; nobody reads more of it, and Spark copies the text several times."""
_FOLDER: Final = "job"
_JOBS: Final = 2
"""Jobs that a process keeps: a run may be on its way from one version of its network to the next."""
_LOOK_SECONDS: Final = 0.1
"""How often the planner looks for a new version while nothing else happens."""
_jobs: dict[JobTicket, Job] = {}


@dataclass(frozen=True)
class JobTicket:
    """Where a job lies, what its bytes must be, and the key that signs what its tasks say to the driver."""

    folder: str
    digest: str
    key: str = field(repr=False)

    @property
    def name(self) -> str:
        return f"job-{self.digest}.pickle"

    def job(self) -> Job:
        if self not in _jobs:
            # A worker serves one query at a time, as a rule: old jobs are not worth their memory.
            while len(_jobs) >= _JOBS:
                _jobs.pop(next(iter(_jobs)))
            _jobs[self] = self._load()
        return _jobs[self]

    def version(self, number: int) -> JobTicket | None:
        """The ticket of a version of the network, if the driver has signed one for this run."""
        from penstock.storage.folder import Folder

        folder, name = Folder(self.folder), _version_file(number)
        if not folder.exists(name):
            return None
        digest, _, signature = folder.read(name).to_pybytes().decode(errors="replace").partition(" ")
        if not hmac.compare_digest(self._signed(number, digest), signature):
            raise WorldError(
                f"{self.folder}/{name} is not what the driver has written",
                expected="the signature of this run",
                hint="somebody has damaged or replaced it: find out who can write there, then start the run again",
            )
        return replace(self, digest=digest)

    def add(self, job: Job) -> JobTicket:
        """Put the job of a version where the tasks of this run find it."""
        content = cloudpickle.dumps(job)
        ticket = replace(self, digest=hashlib.sha256(content).hexdigest())
        folder = job.checkpoint.child(_FOLDER)
        folder.write(ticket.name, content)
        folder.write(_version_file(job.version), f"{ticket.digest} {self._signed(job.version, ticket.digest)}".encode())
        return ticket

    def _signed(self, number: int, digest: str) -> str:
        return hmac.new(self.key.encode(), f"version {number} {digest}".encode(), hashlib.sha256).hexdigest()

    def _load(self) -> Job:
        from penstock.storage.folder import Folder

        content = Folder(self.folder).read(self.name).to_pybytes()
        found = hashlib.sha256(content).hexdigest()
        if not hmac.compare_digest(found, self.digest):
            raise WorldError(
                f"the job file {self.folder}/{self.name} is not the one that the driver has written",
                expected=f"{self.digest} as the SHA-256 of its content",
                found=f"{found} ({len(content)} bytes)",
                hint="somebody has damaged or replaced it: find out who can write there, then start the run again",
            )
        job: Job = pickle.loads(content)
        return job

    @property
    def text(self) -> str:
        return f"{self.digest} {self.key} {self.folder}"

    @staticmethod
    def parse(text: str) -> JobTicket:
        digest, key, folder = text.split(" ", 2)
        return JobTicket(folder, digest, key)


def ship(job: Job) -> JobTicket:
    """Put a job where workers find it."""
    folder = job.checkpoint.child(_FOLDER)
    folder.delete_all()
    return JobTicket(folder.path, "", secrets.token_hex(32)).add(job)


class ShippedJobs:
    """The jobs of a run, as the process that plans its batches finds them."""

    def __init__(self, ticket: JobTicket) -> None:
        self._ticket = ticket
        self._tickets: dict[int, JobTicket] = {}
        self._looked = 0.0

    def has(self, version: int) -> bool:
        if version not in self._tickets and time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            self._find(version)
        return version in self._tickets

    def at(self, version: int) -> Job:
        return self.ticket(version).job()

    def ticket(self, version: int) -> JobTicket:
        if version not in self._tickets and not self._find(version):
            raise WorldError(
                f"a batch names version {version} of the network, which this run does not have",
                hint="start the run again",
            )
        return self._tickets[version]

    def _find(self, version: int) -> bool:
        found = self._ticket.version(version)
        if found is not None:
            self._tickets[version] = found
        return found is not None


def dumps(plan: Plan) -> bytes:
    """A plan with the functions that it refers to, also those of a script."""
    content: bytes = cloudpickle.dumps(plan)
    return content


def _version_file(number: int) -> str:
    return f"version-{number:08d}"


def current_batch() -> int:
    """The batch id of the running task."""
    context = TaskContext.get()
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if batch is None:
        raise InternalError("a task runs outside of a streaming batch")
    return int(batch)


@contextlib.contextmanager
def wrapped_errors(ticket: JobTicket) -> Iterator[None]:
    """Let errors pass through Spark: their content goes, signed, into the text of the error."""
    try:
        yield
    except Exception as error:
        ours = _as_ours(error)
        # A path may hold what no encoding has a place for; Spark could not send it.
        readable = _shortened(str(ours)).encode(errors="backslashreplace").decode()
        raise RuntimeError(f"{readable}\n{_wrap(ours, ticket)}") from None


def unwrapped(text: str, ticket: JobTicket) -> PenstockError | None:
    """Our error inside the text of one of Spark's, if there is any."""
    # Cut at every mark: whatever a forged one is followed by, the true one begins a piece of its own.
    for piece in text.split(_MARK)[1:]:
        signed = _SIGNED.match(piece)
        if signed is None:
            continue
        with contextlib.suppress(binascii.Error):
            packed = base64.b64decode(signed.group(2), validate=True)
            if hmac.compare_digest(_signature(packed, ticket), signed.group(1)):
                return error_of(json.loads(packed))
    return None


@contextlib.contextmanager
def our_errors(where: str) -> Iterator[None]:
    """Let nothing but errors of ours pass; `where` says who failed."""
    try:
        yield
    except Exception as error:
        ours = _as_ours(error, where)
        if ours is error:
            raise
        raise ours from error


def _as_ours(error: Exception, where: str = "a worker") -> PenstockError:
    """What went wrong, in our words: who waits for the run has no other view of it."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, MemoryError):
        return WorldError(
            f"{where} has no memory left",
            found=str(error) or None,
            hint="take smaller trains (train_bytes=), fewer tasks at a time, or a larger machine",
        )
    if isinstance(error, OSError):
        return WorldError(
            f"{where} failed on the outside world: {type(error).__name__}: {error}",
            hint="check the path, the rights and the space there",
        )
    told = "".join(traceback.format_exception(error))
    return InternalError(f"{where} failed with {type(error).__name__}: {error}", found=told[-_LONGEST:])


def _wrap(error: PenstockError, ticket: JobTicket) -> str:
    packed = json.dumps({name: _shortened(text) for name, text in fields_of(error).items()}).encode()
    return f"{_MARK}{_signature(packed, ticket)}:{base64.b64encode(packed).decode()}"


def _signature(packed: bytes, ticket: JobTicket) -> str:
    return hmac.new(ticket.key.encode(), packed, hashlib.sha256).hexdigest()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
