"""One writer to a checkpoint: who holds it, since when, and how one that lost it finds out.

On a local disk the operating system knows: the holder has locked `lease.lock`, and the lock goes when the process does,
also when it is killed; one that is merely stopped keeps it. Elsewhere (object stores, file systems without locks) the
holder renews `lease.json` every few seconds, and a lease that was not renewed for `PERIOD` seconds may be taken over.
Clocks of machines that share a checkpoint must agree to within some seconds then.

Every holder has an *epoch*, one more than the last. It stands in the lease and in every record of the board. Before it
writes, a process looks whether the lease is still its own; if it is not, it stops with an error and writes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

import psutil

from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import OtherFormatError, read_sealed, write_sealed

_LOCK: Final = "lease.lock"
_LEASE: Final = "lease.json"
PERIOD: Final = 30.0
"""Seconds after which a lease that nobody renews is free, where there are no locks."""
_SETTLE: Final = 0.5
"""Seconds within which two processes that take a free lease at the same time see each other."""
_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Surroundings(Protocol):
    """What a lease asks of the machine."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def myself(self) -> tuple[str, int, float]:
        """The name of the host, the number of this process, and when it began."""

    def is_dead(self, host: str, process: int, began: float) -> bool:
        """Whether a process is known to have ended; False if nobody can say."""


class Machine:
    """The machine itself."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def myself(self) -> tuple[str, int, float]:
        return socket.gethostname(), os.getpid(), psutil.Process().create_time()

    def is_dead(self, host: str, process: int, began: float) -> bool:
        if host != socket.gethostname():
            return False
        try:
            return bool(abs(psutil.Process(process).create_time() - began) > 1)
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


MACHINE: Final = Machine()


@dataclass(frozen=True)
class Holder:
    """Who holds a checkpoint."""

    epoch: int
    token: str
    host: str
    process: int
    began: float
    since: float
    renewed: float
    released: bool = False

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.process} on host {self.host}, since {since}"


@dataclass(frozen=True)
class Claim:
    """What a holder's tasks carry with them, wherever they run: enough to find out that the lease was lost."""

    folder: Folder
    epoch: int
    token: str

    def check(self) -> None:
        """Stop here if another process has taken the checkpoint."""
        holder = holder_of(self.folder)
        if holder is None or holder.token != self.token:
            by = f"{holder}" if holder is not None else "nobody: the lease is gone"
            raise WorldError(
                f"this run has lost the checkpoint {self.folder.path}",
                expected=f"the lease of epoch {self.epoch}",
                found=f"held by {by}",
                hint="nothing more was written; let the other run go on, or stop it and start this one again",
            )


class Lease:
    """A checkpoint that this process holds, until it is released or the process ends."""

    def __init__(self, folder: Folder, holder: Holder, lock: int | None, surroundings: Surroundings) -> None:
        self.claim = Claim(folder, holder.epoch, holder.token)
        self._holder = holder
        self._surroundings = surroundings
        self._over = threading.Event()
        # Also when nobody releases it: a lease does not outlive the run that it was taken for.
        self._finish = weakref.finalize(self, _close, lock, self._over)
        if lock is None and isinstance(surroundings, Machine):
            threading.Thread(target=_renew, args=(weakref.ref(self), self._over), daemon=True).start()

    def renew(self) -> None:
        """Tell others that the holder lives; nothing if the lease was lost."""
        if _is_held_by(self.claim):
            self._holder = replace(self._holder, renewed=self._surroundings.now())
            write_sealed(self.claim.folder, _LEASE, asdict(self._holder))

    def release(self) -> None:
        """Let others have the checkpoint. A second call does nothing."""
        if not self._finish.alive:
            return
        with contextlib.suppress(WorldError):  # whoever finds it later sees that the process is gone
            if _is_held_by(self.claim):
                write_sealed(self.claim.folder, _LEASE, asdict(replace(self._holder, released=True)))
        self._finish()


def take(folder: Folder, *, least: int = 0, surroundings: Surroundings = MACHINE) -> Lease:
    """Take a checkpoint, or refuse at once, saying who has it. The epoch is above `least` and all before."""
    # That a lease survives a power cut helps nobody: its holder does not.
    folder = replace(folder, lasting=False)
    with _locked(folder) as lock:
        before = holder_of(folder)
        if lock is None and before is not None and not _is_free(before, surroundings):
            raise _in_use(folder, before, lock)
        host, process, began = surroundings.myself()
        now = surroundings.now()
        epoch = max(least, before.epoch if before is not None else 0) + 1
        holder = Holder(epoch, uuid.uuid4().hex, host, process, began, now, now)
        write_sealed(folder, _LEASE, asdict(holder))
        if lock is None:
            surroundings.sleep(_SETTLE)
            found = holder_of(folder)
            if found is None or found.token != holder.token:
                raise _in_use(folder, found or holder, lock)
        return Lease(folder, holder, lock, surroundings)


def is_held(folder: Folder) -> bool:
    """Whether a process uses a checkpoint; nothing is taken."""
    try:
        refuse_if_held(folder)
    except WorldError:
        return True
    return False


def refuse_if_held(folder: Folder) -> None:
    """Refuse a checkpoint that is in use, before anything costly is begun; nothing is taken."""
    if folder.exists(_LEASE):
        with _locked(folder) as lock:
            holder = holder_of(folder)
            if lock is not None:
                os.close(lock)
            elif holder is not None and not _is_free(holder, MACHINE):
                raise _in_use(folder, holder, lock)


def holding(folder: Folder, surroundings: Surroundings = MACHINE) -> Holder | None:
    """Who holds a checkpoint, as far as its lease tells; None if nobody does. For those who only look: nothing is
    locked, not even for a moment in which a run could start."""
    holder = holder_of(folder)
    if holder is None or holder.released or surroundings.is_dead(holder.host, holder.process, holder.began):
        return None
    # Where there are locks a lease is not renewed.
    return None if folder.local() is None and _is_free(holder, surroundings) else holder


def _is_free(before: Holder, surroundings: Surroundings) -> bool:
    return (
        before.released
        or surroundings.now() - before.renewed >= PERIOD
        or surroundings.is_dead(before.host, before.process, before.began)
    )


@contextlib.contextmanager
def _locked(folder: Folder) -> Iterator[int | None]:
    """The locked file, which stays locked if all goes well; None where there are no locks."""
    path = folder.local()
    if path is None:
        yield None
        return
    folder.make()
    # Not opened for writing: a file system with such a file could not be made read-only under a run.
    lock = os.open(f"{path}/{_LOCK}", os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(folder, holder_of(folder), lock) from None
        except OSError as failure:
            if failure.errno not in _NO_LOCKS:
                raise
            os.close(lock)
            yield None
            return
        yield lock
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(lock)
        raise


def _in_use(folder: Folder, holder: Holder | None, lock: int | None) -> WorldError:
    hint = "stop that run first, or start this one with another checkpoint"
    if lock is None:
        hint += f"; if that run has died, wait {PERIOD:.0f} s until its lease has run out"
    return WorldError(
        f"the checkpoint {folder.path} is in use by {holder if holder is not None else 'another process'}", hint=hint
    )


def holder_of(folder: Folder) -> Holder | None:
    """Who the lease names; None if there is none that can be read. That of another version of Penstock is refused."""
    if not folder.exists(_LEASE):
        return None
    try:
        return Holder(**read_sealed(folder, _LEASE))
    except OtherFormatError:
        raise
    except (WorldError, TypeError):
        return None  # cut short by a power cut, with its holder: a lock, or the epochs on the board, say the rest


def _is_held_by(claim: Claim) -> bool:
    holder = holder_of(claim.folder)
    return holder is not None and holder.token == claim.token


def _close(lock: int | None, over: threading.Event) -> None:
    over.set()
    if lock is not None:
        with contextlib.suppress(OSError):
            os.close(lock)


def _renew(of: weakref.ref[Lease], over: threading.Event) -> None:
    while not over.wait(PERIOD / 3):
        lease = of()
        if lease is None:
            return
        with contextlib.suppress(WorldError):  # a store that does not answer now may do so next time
            lease.renew()
        del lease
