"""Longer trains for an input that lags: what is left out of a train does not count.

A batch that leaves all of its tuples out takes nearly as long as one that works on them: planning, logs and commits
cost the same. So an input whose floor is ahead of it takes the way to it in a few long trains. How many rows lie there,
nobody knows before they are read. It is estimated by how many rows the last batch had for a tick. Only a part of the
estimate is taken, so that rows of use which the train reaches by mistake stay few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.algebra.floors import Floors
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.connector import UNLIMITED, Advance, Feed, Limit
from penstock.runtime.allotment import Allotment
from penstock.runtime.board import Record

PART: Final = (3, 4)
"""How much of the estimated way is taken at once: what is left is estimated anew by the next batch."""
MOST_TRAINS: Final = 64
"""By how many trains one is made longer at most: it is read in one piece."""


@dataclass(frozen=True)
class _Seen:
    """What an input had brought by the time a batch was planned."""

    rows: int
    reached: Mapping[str, int]
    """The largest ticks, by attribute."""


class FastForward:
    """The trains of a version of a network, where feedback leaves tuples out."""

    def __init__(self, sources: tuple[Source, ...], allotment: Allotment) -> None:
        self._sources = {source.name: source for source in sources}
        self._allotment = allotment
        self._seen: dict[str, _Seen] = {}

    def lengthened(
        self, feeds: Mapping[str, Feed], steps: Mapping[str, Advance], floors: Mapping[str, Floors], record: Record
    ) -> dict[str, Advance]:
        """The steps of a batch that follows a record; those of inputs below their floors are longer."""
        found = dict(steps)
        for name, step in steps.items():
            now = self._now(self._sources[name], record)
            before, self._seen[name] = self._seen.get(name), now
            # A script says what comes with which reading of its clock.
            if before is None or name not in floors or not step.rows or step.ended or step.clock is not None:
                continue
            if (rows := self._rows_ahead(before, now, floors[name]) - step.rows) > 0:
                limit = Limit(rows, self._allotment.bytes, self._allotment.columns[name])
                more = feeds[name].advance(step.position, limit)
                found[name] = replace(more, rows=step.rows + more.rows, bytes=step.bytes + more.bytes)
        return found

    def _rows_ahead(self, before: _Seen, now: _Seen, floors: Floors) -> int:
        """About how many rows to take that are below a floor."""
        if self._allotment.rows == UNLIMITED:
            return 0
        ways = [0]
        for attribute, floor in floors.items():
            came = now.reached[attribute] - before.reached[attribute]
            if came > 0 and floor > now.reached[attribute]:
                ways.append((floor - now.reached[attribute]) * (now.rows - before.rows) * PART[0] // (came * PART[1]))
        return min(max(ways), MOST_TRAINS * self._allotment.rows)

    @staticmethod
    def _now(source: Source, record: Record) -> _Seen:
        reached = record.issued(source).reached.values()
        furthest = {t.attribute: max((r[t.attribute] for r in reached), default=BEGINNING) for t in source.tracks}
        return _Seen(record.inputs[source.name].read if source.name in record.inputs else 0, furthest)
