"""Feedback on the driver: what merges need no more is heard by the planner, and told to those who write for this run.

```
 board's record: how far merges are ─┬─> Hearing ──> floors in the next offset ─┬─> the intake leaves tuples out
 readers of this run's tables ───────┘                                           └─> boxes let go of state
 board's record ──> Telling ──> the tables that this run reads ──> the planners of those who write them
```

Floors change no answer, but they change what is written of a stream on its way: so they are in the offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from penstock.algebra.floors import NO_FLOORS, Floors, highest
from penstock.progress.usefulness import NetworkFloors, floors_of, floors_of_inputs
from penstock.runtime.board import Record
from penstock.runtime.job import Job
from penstock.runtime.offsets import Offset

_LISTEN_SECONDS: Final = 0.05
"""How often readers are listened to, at most: a batch takes longer, and it is the next one that hears of it."""


class Hearing:
    """What the inputs of a version of a network may leave out, and its boxes forget."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._heeding = [o for o in job.plan.network.outputs if o.target.heeds]
        merges = any(box.gives_feedback for box in job.plan.network.boxes)
        self.used = merges or bool(self._heeding)
        """Whether there can be any floors."""
        self._heard: Mapping[str, Floors] = {}
        self._listened: float | None = None

    def floors(self, record: Record) -> NetworkFloors:
        """The floors of inputs and boxes, for the batch that follows a record."""
        if not self.used:
            return NetworkFloors()
        return floors_of(self._job.plan.network, record.marks, self._listen())

    def _listen(self) -> Mapping[str, Floors]:
        now = time.monotonic()
        if self._heeding and (self._listened is None or now - self._listened >= _LISTEN_SECONDS):
            self._listened = now
            self._heard = {o.name: self._job.target(o).heard(o.schema(0)) for o in self._heeding}
        return self._heard


class Telling:
    """What a version of a network tells those who write its inputs."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._sources = [s for s in job.plan.network.sources if s.connector.tells]
        self._told: dict[str, Floors] = {}

    def tell(self, record: Record, planned: Offset) -> None:
        """Once a batch is done for good: say what is of no use any more, where that is news."""
        if not self._sources:
            return
        now = floors_of_inputs(self._job.plan.network, record.marks)
        for source in self._sources:
            # What readers of this run's tables have said, the offset knows.
            news = highest(planned.floors.get(source.name, NO_FLOORS), now.get(source.name, NO_FLOORS))
            if self._told.get(source.name) != news:
                folder = self._job.journal(source.name)
                if source.connector.tell(news, source.delivered, folder):
                    self._told[source.name] = news
