"""The optimizer at work (aurora.md 3.1): it looks at what boxes cost, and arranges them anew between two batches.

```
 board's record ──> statistics ──> propose ──> plan, arranged ──> next version of the network ──> next batch
                                                                         │
 taken back, if it does great harm <─────────────── what it really saves ┘
```

A batch runs the version that its offset names, so what is measured here never changes an answer, and a batch that is
done again is done as it was arranged then. What is known lies in the checkpoint, and a restart goes on with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from penstock.algebra.network import Network
from penstock.errors import InternalError, PenstockError, WorldError
from penstock.plan.compile import compile_network
from penstock.plan.optimize import Proposal, disturbed, propose, without_combining
from penstock.plan.plan import Arrangement, Plan
from penstock.plan.prune_boxes import prune_boxes
from penstock.plan.rewrites.rewrites import drafted
from penstock.runtime.board import Board, Record
from penstock.runtime.box_statistics import NOTHING_YET, BoxStatistics, taken_since
from penstock.runtime.job import Job
from penstock.runtime.settings import ON
from penstock.runtime.shelf import Shelf
from penstock.storage.folder import Folder
from penstock.storage.sealed import read_sealed, write_sealed

LEAST_TUPLES: Final = 1_000
"""Batches with fewer are not worth a change: what they cost, the boxes do not decide."""
LOOK_EVERY: Final = 4
"""Batches between two looks for a better arrangement, each of which holds a batch up for some 20 ms."""
SETTLED: Final = 2
"""So many batches of a version are measured before the next change."""
WORSE: Final = 2.0
"""A change after which tuples cost so much more than before is taken back. Less says nothing: boxes with state cost
more as they fill, however the others are arranged."""
FORGIVEN: Final = 20
"""After so many batches an arrangement that was taken back may be tried again."""
KEPT_CHANGES: Final = 50
SAVE_EVERY: Final = 8
"""Batches; the board keeps more records than these, so nothing is lost in between."""
_FOLDER: Final = "optimizer"
_FILE: Final = "statistics.json"

Arrange = Callable[[Plan, int], Job | None]
"""What makes an arranged plan the next version of a run's network."""


@dataclass(frozen=True)
class Change:
    """What the optimizer has done, and what came of it."""

    batch: int
    """The batch after which it was decided."""
    version: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    """The boxes of the subnetwork, in the order in which tuples meet them."""
    expected: float
    """The share of the subnetwork's cost that it was expected to save."""
    cost_before: float | None = None
    cost_after: float | None = None
    """Seconds that all boxes took for each tuple of the inputs."""
    taken_back: bool = False

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Change:
        orders = {key: tuple(str(name) for name in document[key]) for key in ("before", "after")}
        return Change(**{**document, **orders})


@dataclass(frozen=True)
class Known:
    """All that the optimizer remembers."""

    statistics: BoxStatistics = NOTHING_YET
    changes: tuple[Change, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"statistics": self.statistics.to_json(), "changes": [asdict(change) for change in self.changes]}


class Optimizer:
    """Follows the batches of a run."""

    def __init__(self, shelf: Shelf, checkpoint: Folder, arrange: Arrange) -> None:
        self._shelf, self._arrange = shelf, arrange
        self._folder = replace(checkpoint.child(_FOLDER), lasting=False)  # what a power cut takes is measured again
        self._known = known_of(checkpoint)
        self._saved = self._known.statistics.batch
        self._last: Record | None = None
        self._settled = 0
        self._off: dict[int, frozenset[str]] = {}
        """By version: the boxes whose selectivity is not their own."""
        self._looked: BoxStatistics | None = None
        self._look_again = 0
        """The batch before which no other arrangement is looked for."""
        self._refused: dict[Arrangement, int] = {}
        """Until which batch an arrangement is not tried again."""
        self._before: tuple[Arrangement, Arrangement] | None = None
        """The last change, until it is known what it saves: what the arrangement was, and is."""
        for record in Board(checkpoint.child("board")).recent():
            self._learn(record)

    def after(self, record: Record) -> None:
        """A batch is done."""
        if not self._learn(record):
            return
        job = self._shelf.newest
        if job.version != record.version or record.ended:
            return  # a change is on its way, or nothing will come any more
        self._settled += 1
        if self._settled >= SETTLED:
            self._account(record)
        if self._settled >= SETTLED:
            self._improve(job, record)
        if record.batch - self._saved >= SAVE_EVERY:
            self._save()

    def _learn(self, record: Record) -> bool:
        """Take a record in; whether it says something of how the network is arranged now."""
        before, self._last = self._last, record
        known = self._known.statistics
        if record.batch <= known.batch or before is None:
            return False
        if before.version != record.version:
            self._settled = 0
        if record.version not in self._off:
            self._off = {record.version: self._disturbed(record.version)}
        self._known = replace(self._known, statistics=known.after(before, record, self._off[record.version]))
        return before.version == record.version and sum(taken_since(before, record).values()) >= LEAST_TUPLES

    def _disturbed(self, version: int) -> frozenset[str]:
        """The boxes whose selectivity is not their own in a version, as far as it is still known."""
        try:
            plan = self._shelf.at(version).plan
        except WorldError:
            return frozenset()
        steps = without_combining(plan.arrangement)
        return disturbed(drafted(declared_of(plan), steps)) if steps else frozenset()

    def _improve(self, job: Job, record: Record) -> None:
        statistics = self._known.statistics
        if record.batch < self._look_again or not statistics.differs(self._looked):
            return
        self._looked, self._look_again = statistics, record.batch + LOOK_EVERY
        network, now = declared_of(job.plan), job.plan.arrangement
        found = propose(network, now, statistics.known())
        if found is not None and self._refused.get(found.arrangement, -1) < record.batch:
            self._change(job, record, found)

    def _change(self, job: Job, record: Record, found: Proposal, *, back: bool = False) -> None:
        now, declared = job.plan.arrangement, job.plan.declared
        if declared is None:
            raise InternalError("a plan has forgotten what network it is of")
        self._refused[found.arrangement] = record.batch + FORGIVEN
        with contextlib.suppress(PenstockError):  # one that cannot be had: the run goes on as it is
            arranged = self._arrange(compile_network(declared, job.plan.architecture, found.arrangement), job.version)
            if arranged is None:
                return
            self._before = now, found.arrangement
            change = Change(record.batch, arranged.version, found.before, found.boxes, found.saving)
            change = replace(change, cost_before=self._known.statistics.spent, taken_back=back)
            self._known = replace(self._known, changes=(*self._known.changes, change)[-KEPT_CHANGES:])
            self._settled = 0
            self._save()

    def _account(self, record: Record) -> None:
        """See what the last change saves; take it back if it does the opposite."""
        if self._before is None:
            return
        (was, now), self._before = self._before, None
        if self._shelf.newest.plan.arrangement != now:
            return  # somebody has changed the network since
        *earlier, last = self._known.changes
        last = replace(last, cost_after=self._known.statistics.spent)
        self._known = replace(self._known, changes=(*earlier, last))
        self._save()
        del self._refused[now]
        if last.taken_back or last.cost_before is None or last.cost_after is None:
            return
        if last.cost_after > WORSE * last.cost_before:
            self._refused[now] = record.batch + FORGIVEN
            self._change(self._shelf.newest, record, Proposal(was, last.before, last.after, 0.0), back=True)

    def _save(self) -> None:
        # The statistics are of use to nobody else: a disk that fails now is told by the next batch.
        with contextlib.suppress(WorldError):
            self._folder.make()
            write_sealed(self._folder, _FILE, self._known.to_json())
            self._saved = self._known.statistics.batch


def optimizer_of(job: Job, arrange: Arrange) -> Optimizer | None:
    """The optimizer of a run, if it is to have one."""
    return Optimizer(Shelf.of(job), job.checkpoint, arrange) if job.settings.optimize == ON else None


def known_of(checkpoint: Folder) -> Known:
    """What the optimizer of a run remembers; nothing if there was none, or if what it wrote cannot be read."""
    folder = checkpoint.child(_FOLDER)
    try:
        if not folder.exists(_FILE):
            return Known()
        document = read_sealed(folder, _FILE)
        changes = tuple(Change.from_json(change) for change in document["changes"])
        return Known(BoxStatistics.from_json(document["statistics"]), changes)
    except (WorldError, KeyError, TypeError, ValueError, AttributeError):
        return Known()


def declared_of(plan: Plan) -> Network:
    """The network as the user has described it, without what nobody reads."""
    if plan.declared is None:
        raise InternalError("a plan has forgotten what network it is of")
    return prune_boxes(Plan(plan.declared)).network
