"""How much a run may take up on disks: `disk=`, and what happens when that is full: `when_full=`.

State, connection points, kept results and all the rest of the checkpoint count. A walk over all files would cost more
than a small batch, so it is done beside the run, every `EVERY` batches. In between the bytes that batches have staged
are added, or what batches have added before, if that is more. Only when the sum comes near the limit, the files are
counted at once, before the next batch is planned.

What is full is told with an error; or the oldest history leaves: first what only waits for the end of its grace, then
the oldest files of connection points and the oldest kept results, whichever are of the earliest batches. State never
leaves, nor what a run may have to go back to.

Targets that look after their places beside the run write, too: they are lent half of what is free, and keep to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

import deltalake
from deltalake.exceptions import DeltaError

from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.points.stored_files import StoredFile, stored_files
from penstock.connectors.targets.kept_results import SETTLED, KeptResults
from penstock.errors import WorldError
from penstock.runtime.footprint import Stored, footprint_of, told, total
from penstock.runtime.job import Job
from penstock.runtime.settings import OLDEST
from penstock.storage.sizes import size_text

LOG = logging.getLogger("penstock.upkeep")
EVERY: Final = 32
"""Batches between two counts."""
_RESERVE: Final = 100
"""A hundredth of the budget stays free, for what a batch needs beyond what was foreseen."""
_NEAR: Final = 2
"""Files are counted at once when there may be room for so many batches beside the next one: a guess may be too low."""
_ROOM: Final = 10
"""A tenth of the budget is made free at a time: less would be work for every batch."""


class Budget:
    """What a run has taken up, and may."""

    def __init__(self, limit: int, when_full: str) -> None:
        self._limit = limit
        self._oldest = when_full == OLDEST
        self._counted = 0
        """Bytes at the last count."""
        self._at: int | None = None
        """The batch after which that was."""
        self._since: dict[int, int] = {}
        """Bytes that each batch since then has staged."""
        self._rate = 0
        """What a batch has added between the last two counts, as a mean."""
        self._most = 0
        """What a batch has needed at most."""
        self._heard: tuple[int, int] | None = None
        """The batch and the bytes of a count beside the run, until the run has noticed it."""
        self._lent = 0
        """Bytes that who works beside the run may add, until they are counted."""
        self._lock = threading.Lock()
        """Two threads look at what is lent and what was heard."""

    @staticmethod
    def of(job: Job) -> Budget | None:
        """The budget of a run; None if there is none."""
        limit = job.settings.disk_bytes
        return Budget(limit, job.settings.when_full) if limit is not None else None

    def refuse_if_full(self, job: Job) -> None:
        """Before a run starts: refuse one that is full already, unless the oldest may leave."""
        stored = footprint_of(job)
        if not self._oldest and self._is_full(total(stored)):
            raise self._full(job, stored)

    def after(
        self, job: Job, batch: int, staged: int, kept: Mapping[str, KeptResults], settle: Callable[[], None]
    ) -> bool:
        """After a batch: make room, or refuse, if the next one might not have any. Whether it is time to count again,
        beside the run. `settle` waits until nobody works beside the run."""
        with self._lock:
            self._since[batch] = staged
            self._most = max(self._most, staged)
            if self._heard is not None:
                self._note(*self._heard)
                self._heard = None
            guess = self._counted + self._added() + self._lent + _NEAR * self._most
            near = self._at is None or self._is_full(guess)
        if near:
            settle()
            self._heard = None
            stored = self._count(job, batch)
            if self._is_full(total(stored)) and self._oldest:
                stored = self._make_room(job, batch, kept)
            if self._is_full(total(stored)):
                raise self._full(job, stored)
        # More often at first: then nothing is known yet of what a batch adds.
        return batch - (self._at or 0) >= min(EVERY, max(1, batch // 2))

    def _added(self) -> int:
        return max(sum(self._since.values()), self._rate * len(self._since))

    def count_beside(self, job: Job, batch: int) -> None:
        """Count in another thread. Batches go on meanwhile: what they stage may count twice until the next time."""
        counted = total(footprint_of(job))
        with self._lock:
            self._heard, self._lent = (batch, counted), 0

    def lend(self, job: Job, batch: int, work: Callable[[int | None], None]) -> None:
        """Let somebody work in another thread, who is told how many bytes that may add."""
        with self._lock:
            used = self._counted + self._added() + self._most + self._limit // _RESERVE
            self._lent = max(0, self._limit - used) // 2
        try:
            work(self._lent)
        finally:
            self.count_beside(job, batch)

    def _count(self, job: Job, batch: int) -> list[Stored]:
        stored = footprint_of(job)
        self._note(batch, total(stored))
        return stored

    def _note(self, batch: int, counted: int) -> None:
        """So much there was after a batch."""
        if self._at is not None and batch > self._at:
            self._rate = max(0, counted - self._counted) // (batch - self._at)
            if batch - self._at >= EVERY:  # a mean of fewer says little
                self._most = max(self._most, self._rate)
        self._counted, self._at = counted, batch
        self._since = {later: staged for later, staged in self._since.items() if later > batch}

    def _is_full(self, used: int) -> bool:
        return used + self._most + self._limit // _RESERVE > self._limit

    def _make_room(self, job: Job, batch: int, kept: Mapping[str, KeptResults]) -> list[Stored]:
        """Let the oldest history leave until a part of the budget is free."""
        wanted = self._limit - self._limit // _ROOM - self._most
        points = {
            output.name: target
            for output in job.plan.network.outputs
            if isinstance(target := job.target(output), ConnectionPoint)
        }
        try:
            for name, point in points.items():
                point.sweep(job.scratch(name))
            history = {name: _history(point) for name, point in points.items()}
            settled = [(unit.last, size) for own in kept.values() for unit, size in own.settled(batch)]
            files = [(file.last, file.size) for own in history.values() for file in own]
            cut = _cut([*settled, *files], total(self._count(job, batch)) - wanted)
            for name, point in points.items():
                if gone := [file for file in history[name] if file.last <= cut]:
                    point.let_go(gone, job.scratch(name))
                    point.sweep(job.scratch(name))
            for own in kept.values():
                own.forget_to(min(cut, batch - SETTLED))
        except (DeltaError, OSError) as error:
            LOG.warning("no room could be made on the disk: %s", error)
        return self._count(job, batch)

    def _full(self, job: Job, stored: list[Stored]) -> WorldError:
        more = "" if self._oldest else "; or let the oldest history leave: when_full='oldest' (--when-full)"
        return WorldError(
            "the next batch may need more than is left of what the run may take up on disks",
            network=job.plan.network.name,
            expected=f"at most {size_text(self._limit)} in {job.checkpoint.path} and its connection points",
            found=f"{size_text(total(stored))} ({told(stored)}), and up to {size_text(self._most)} for a batch",
            hint="keep less (keep= of connection points, outputs and the run), or allow more with disk= (--disk)"
            f"{more}; what is committed stays, and a run with more room goes on from there",
        )


def _cut(sizes: list[tuple[int, int]], much: int) -> int:
    """Up to which batch history must leave to free so many bytes; of what is told by last batch and size.

    >>> _cut([(7, 50), (3, 10), (5, 30)], 35)
    5
    """
    freed, cut = 0, -1
    for last, size in sorted(sizes):
        if freed >= much:
            break
        freed, cut = freed + size, last
    return cut


def _history(point: ConnectionPoint) -> list[StoredFile]:
    """The files of a point that may leave: all but the newest."""
    files = stored_files(deltalake.DeltaTable(point.folder.path))
    return sorted(files, key=lambda file: (file.last, file.path))[:-1]
