"""How much of each input one train takes.

A train is bounded by what its tuples take up once decoded, counting only the columns that somebody asks for: an input
of which one timestamp is read may send a longer train than one whose every column travels on. Inputs share the room
evenly; what one of them leaves empty goes to those that have filled their share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.algebra.box import Source
from penstock.algebra.expression import bind_predicate
from penstock.connectors.base import Advance, Feed, Limit, Position
from penstock.runtime.job import Job

_VARIABLE_BYTES = 32  # what a string, a list or a struct is taken to need


@dataclass(frozen=True)
class Allotment:
    """The longest train of every input, if it were the only one."""

    whole: Mapping[str, Limit]

    @staticmethod
    def of(job: Job) -> Allotment:
        settings = job.settings
        whole = {}
        for source in job.plan.network.sources:
            read = max(1, sum(_width(source.delivered.field(name).type) for name in columns_to_read(job, source)))
            rows = settings.train_rows or settings.train_bytes // read
            # A file's bytes are those of all its columns.
            size = settings.train_bytes * sum(map(_width, source.delivered.types)) // read
            whole[source.name] = Limit(max(1, rows), max(1, size))
        return Allotment(whole)

    def advance(self, feeds: Mapping[str, Feed], positions: Mapping[str, Position]) -> dict[str, Advance]:
        """The next step of each input that has a position."""
        share = 1 / len(positions)
        steps = {name: feeds[name].advance(at, self._part(name, share)) for name, at in positions.items()}
        used = {
            name: sum(max(0, s.rows) for s in feeds[name].splits(at, steps[name].position)) / self.whole[name].rows
            for name, at in positions.items()
        }
        hungry = [name for name, step in steps.items() if not step.ended and used[name] >= share / 2]
        left = 1 - sum(min(share, part) for part in used.values())
        if left < share / 2:
            return steps
        for name in hungry:
            more = feeds[name].advance(steps[name].position, self._part(name, left / len(hungry)))
            steps[name] = replace(more, clock=steps[name].clock if more.clock is None else more.clock)
        return steps

    def _part(self, name: str, share: float) -> Limit:
        whole = self.whole[name]
        return Limit(max(1, int(whole.rows * share)), max(1, int(whole.bytes * share)))


def columns_to_read(job: Job, source: Source) -> Sequence[str]:
    """The columns of an input that somebody needs, in the order of the schema."""
    needed = set(job.plan.columns[source.name])
    for track in source.tracks:
        where = getattr(track.policy, "where", None)
        if where is not None:
            needed.update(bind_predicate(where, source.tuples).columns)
    # Of tuples that are only counted, one column says how many there are.
    return [name for name in source.delivered.names if name in needed] or source.delivered.names[:1]


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES
