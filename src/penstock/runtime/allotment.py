"""How much of each input one train takes.

A train is bounded by its rows, if somebody has said how many, and by what its tuples take up once decoded, counting
only the columns that somebody asks for: an input of which one timestamp is read may send a longer train than one whose
every column travels on. Inputs share the room evenly; what one of them leaves empty goes to those that have filled
their share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.algebra.source import Source
from penstock.connectors.connector import UNLIMITED, Advance, Feed, Limit, Position
from penstock.runtime.doubtful import columns_surely_needed
from penstock.runtime.history_pace import HistoryPace
from penstock.runtime.history_pieces import HistoryPieces
from penstock.runtime.job import Job
from penstock.runtime.small_batch import FEW_BYTES, FEW_ROWS


@dataclass(frozen=True)
class Allotment:
    """The longest train that inputs make together, and the columns that are read of each."""

    rows: int
    bytes: int
    columns: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(job: Job) -> Allotment:
        columns = {source.name: tuple(columns_to_read(job, source)) for source in job.plan.network.sources}
        return Allotment(job.settings.train_rows or UNLIMITED, job.train_bytes, columns)

    def with_histories(
        self,
        feeds: Mapping[str, Feed],
        positions: Mapping[str, Position],
        shares: Mapping[str, float],
        pace: HistoryPace,
        pieces: HistoryPieces,
    ) -> tuple[dict[str, Advance], dict[str, Sequence[Position]]]:
        """The next step of each input, of which some are histories, with the shares that they may take at most; their
        pace says how many rows. What others take first, histories do not make a large batch of. Of histories that are
        read ahead, the step is one of pieces that are done: where these end is told, too."""
        past = {name: at for name, at in positions.items() if name in shares}
        if not past or pace.unlimited:
            return self.advance(feeds, positions), {}
        others = {name: at for name, at in positions.items() if name not in shares}
        share = min(shares[name] for name in past)
        kept = int(self.rows * share), int(self.bytes * share)
        rest = replace(self, rows=max(1, self.rows - kept[0]), bytes=max(1, self.bytes - kept[1]))
        steps = rest.advance(feeds, others) if others else {}
        live, size = sum(s.rows for s in steps.values()), sum(s.bytes for s in steps.values())
        ahead = [n for n, at in past.items() if pieces.reads(n, feeds[n], at, self.columns[n], pace.fitting)]
        past = {name: at for name, at in past.items() if name not in ahead}
        if not past and not any(pieces.ready(name, 1) for name in ahead):
            return steps, {}
        most, ends = pace.next_rows(live=live if others else None), dict[str, Sequence[Position]]()
        for name in ahead if most else ():
            if (found := pieces.ready(name, most)) is not None:
                steps[name], ends[name] = found
        if most and past:
            rows, kept_bytes = min(most, kept[0]), kept[1]
            if others and live < FEW_ROWS and size < FEW_BYTES:
                rows, kept_bytes = min(rows, FEW_ROWS - live), min(kept_bytes, FEW_BYTES - size)
            room = replace(self, rows=max(1, rows), bytes=max(1, kept_bytes))
            steps = {**steps, **room.advance(feeds, past)}
        return steps, ends

    def advance(self, feeds: Mapping[str, Feed], positions: Mapping[str, Position]) -> dict[str, Advance]:
        """The next step of each input that has a position; each takes a tuple at least, if it has any."""
        each = max(1, self.rows // len(positions)), max(1, self.bytes // len(positions))
        steps = {name: feeds[name].advance(at, self._limit(name, *each)) for name, at in positions.items()}
        rows = self.rows - sum(s.rows for s in steps.values())
        size = self.bytes - sum(s.bytes for s in steps.values())
        # Asking once more has its price, so it is done where it brings a good deal.
        if rows < each[0] / 2 or size < each[1] / 2:
            return steps
        hungry = [
            name for name, s in steps.items() if not s.ended and 2 * max(s.rows / each[0], s.bytes / each[1]) >= 1
        ]
        for left, name in zip(range(len(hungry), 0, -1), hungry, strict=True):
            if rows < left or size < left:
                break
            first = steps[name]
            more = feeds[name].advance(first.position, self._limit(name, rows // left, size // left))
            rows, size = rows - more.rows, size - more.bytes
            steps[name] = replace(
                more,
                clock=first.clock if more.clock is None else more.clock,
                rows=first.rows + more.rows,
                bytes=first.bytes + more.bytes,
            )
        return steps

    def _limit(self, name: str, rows: int, size: int) -> Limit:
        return Limit(max(1, rows), max(1, size), self.columns[name])


def columns_to_read(job: Job, source: Source) -> Sequence[str]:
    """The columns of an input that somebody needs of all tuples, in the order of the schema."""
    needed = set(columns_surely_needed(job, source))
    for track in source.tracks:
        where = track.policy.where
        if where is not None:
            from penstock.algebra.expressions.binding import bind_predicate  # a parser, which others do without

            needed.update(bind_predicate(where, source.tuples).columns)
    # Of tuples that are only counted, one column says how many there are.
    return [name for name in source.delivered.names if name in needed] or source.delivered.names[:1]
