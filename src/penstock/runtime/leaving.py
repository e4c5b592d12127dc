"""Shards that leave: closed because somebody asked for it, or because nothing has come from them for too long.

Who wants a shard closed leaves a request in the checkpoint; the planner finds it there. Like everything that changes an
answer, what it decides becomes part of the offset. A shard that delivers again afterwards is open again, from where its
input stands by then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from typing import Final

from penstock.algebra.source import Source
from penstock.errors import QueryError
from penstock.progress.extremes import NOTHING, Extremes
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.storage.folder import Folder

_SUFFIX: Final = ".json"
_LOOK_SECONDS: Final = 0.1
"""How often the planner looks for requests while nothing else happens."""


class Leaving:
    """The planner's side: which shards leave with the next batch."""

    def __init__(self, job: Job) -> None:
        self._folder = _requests(job)
        self._sources = job.plan.network.sources
        self._began: int | None = None
        self._looked = 0.0
        self._asked: list[dict[str, str]] = []

    @property
    def timed(self) -> bool:
        """Whether shards may leave by themselves, so that somebody must watch the clock."""
        return any(s.closes for s in self._sources)

    def asked(self, done: int) -> list[dict[str, str]]:
        """Requests that no batch has heard of yet; `done` is how many have been."""
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            names = sorted(n for n in self._folder.names() if n.endswith(_SUFFIX))
            for name in names[len(self._asked) :]:
                self._asked.append(json.loads(self._folder.read(name).to_pybytes()))
        return self._asked[done:]

    def since(self, now: int) -> int:
        """The first clock reading of this planner: a run that was down for a while has not heard of anybody."""
        self._began = now if self._began is None else min(self._began, now)
        return self._began

    def decide(
        self, record: Record, asked: list[dict[str, str]], speaking: Collection[tuple[str, str]], now: int, since: int
    ) -> dict[str, dict[str, int]]:
        """The shards that leave at a clock reading; those that deliver in this batch stay.

        Nobody is overdue who had no time to speak `since` a clock reading.
        """
        wanted = {(request["input"], request["shard"]) for request in asked}
        found: dict[str, dict[str, int]] = {}
        for source in self._sources:
            for shard, seen in record.shards.get(source.name, {}).items():
                if seen.ended or seen.gone or (source.name, shard) in speaking:
                    continue
                late = source.closes and is_overdue(source, seen, now, since)
                if late or (source.name, shard) in wanted:
                    # Strictly after its last tuple, even if the clock stands still.
                    found.setdefault(source.name, {})[shard] = max(now, seen.at + 1)
        return found


def request(job: Job, source: str, shard: str) -> None:
    """Ask that a shard be closed; refused if there is none that is open."""
    sources = {s.name: s for s in job.plan.network.sources}
    if source not in sources:
        raise QueryError(f"there is no input '{source}'", expected=f"one of {', '.join(sources)}")
    # Before the first batch, only the declaration knows of shards.
    declared = dict.fromkeys(sources[source].connector.shards(), NOTHING)
    known = Board(job.board).latest().shards.get(source, declared)
    opened = [name for name, seen in known.items() if not seen.ended and not seen.gone]
    if shard not in opened:
        raise QueryError(
            f"the input '{source}' has no open shard '{shard}'",
            expected=f"one of {', '.join(opened)}" if opened else "none is open",
        )
    folder = _requests(job)
    folder.make()
    number = sum(name.endswith(_SUFFIX) for name in folder.names())
    folder.write(f"{number:08d}{_SUFFIX}", json.dumps({"input": source, "shard": shard}).encode())


def is_overdue(source: Source, seen: Extremes, now: int, since: int) -> bool:
    """Whether a shard has been silent for too long; one that never spoke is counted `since` a clock reading."""
    return source.overdue is not None and now - max(seen.at, since) >= source.overdue


def _requests(job: Job) -> Folder:
    return job.checkpoint.child("requests")
