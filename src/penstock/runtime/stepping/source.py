"""The sources of a network that is stepped: fed by hand or from their connectors, one element at a time.

A source is never executed: what it is given waits in the buffers of its arcs. When it has nothing and somebody waits,
it may state an enabling timestamp (ets.md 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.box import Port
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END, tick_of
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Limit
from penstock.connectors.journal import MemoryJournal
from penstock.connectors.memory import Memory, MemorySplit, PunctuationElement, memory
from penstock.connectors.temporal.temporal_rows import TemporalRows
from penstock.errors import QueryError
from penstock.progress.extremes import NOTHING, Extremes
from penstock.progress.idle import Heartbeat, OnDemand
from penstock.progress.judge import judge, strongest, unfit_rejects, unstable_rejects
from penstock.progress.shards import shard_marks, source_marks, statement, stating
from penstock.runtime.stepping.elements import Element, numbered, single

TRAIN: Final = Limit(64, 1 << 20)
"""What is taken from a connector at once, where it does not say itself: enough to look at."""

Arrivals = Iterator[tuple[Port, Element]]
"""Elements at the ports of the source: its tuples, late ones, and those that were refused."""


class SourceNode:
    """One input: what its shards have delivered and stated."""

    def __init__(self, box: Source, *, sequenced: bool) -> None:
        self.box = box
        self._sequenced = sequenced
        self._seen: dict[str, Extremes] = dict.fromkeys(box.connector.shards(), NOTHING)
        self._spoken = BEGINNING
        """The strongest mark of `on` that has left as punctuation: a filter cannot have dropped it."""
        self._beats: dict[str, int] = {}
        self._feed: Feed | None = None
        self._position: Any = None
        self._ended = False

    def marks(self) -> Marks:
        """The low-water marks of the input."""
        return source_marks(self.box, self._seen)

    @property
    def ended(self) -> bool:
        return self.marks().ended

    def element(self, given: Any, shard: str | None, now: int, number: int) -> Arrivals:
        """Take one row or punctuation that somebody has fed."""
        shard = shard if shard is not None else self._only_shard()
        if isinstance(given, PunctuationElement):
            yield from self._state(shard, self._stated(given))
            return
        script = memory([given], schema=self.box.delivered)
        chunk = next(iter(script.read(MemorySplit("0", 0, 1, 0, 1), self.box.delivered, self.box.delivered.names)))
        yield from self.chunk(chunk, shard, now, number, self.box.name)

    def chunk(self, chunk: Chunk, shard: str, now: int, number: int, origin: str) -> Arrivals:
        """Take what a connector has read: tuple by tuple, then its punctuation."""
        if chunk.rejects is not None:
            for row in single(pa.Table.from_batches([chunk.rejects])):
                yield Port(self.box, Source.ERRORS), Element(UNKNOWN, row)
        for at, row in enumerate(single(pa.Table.from_batches([chunk.tuples]))):
            yield from self._tuple(row, shard, now, number + at, origin)
        stated = strongest(self.box, chunk.stated).with_joint(chunk.joint)
        if stated.says_anything:
            yield from self._state(shard, stated)

    def end(self) -> Arrivals:
        """Nothing will follow."""
        if not self.ended:
            self._seen = {shard: replace(seen, ended=True) for shard, seen in self._seen.items()}
            self._ended = True
            self._spoken = END
            yield Port(self.box), Element(self.marks())
            yield from ((Port(self.box, index), Element(Marks(ended=True))) for index in (Source.LATE, Source.ERRORS))

    def advance(self) -> Advance | None:
        """The next train of the connector, if it has any; one element of a script."""
        if self._ended:
            return None
        if self._feed is None:
            connector = self.box.connector
            self._feed = _one_by_one(connector).open(self.box.delivered, MemoryJournal())
            self._position = self._feed.start()
        step = self._feed.advance(self._position, TRAIN)
        return step if step.ended or step.position != self._position else None

    def pull(self, step: Advance, now: int, number: int) -> Arrivals:
        """Take what `advance` has found."""
        assert self._feed is not None
        names = self.box.delivered.names
        for split in self._feed.splits(self._position, step.position):
            for chunk in self.box.connector.read(split, self.box.delivered, names):
                origin = split.found_in or self.box.name
                yield from self.chunk(chunk, split.shard, now, number, origin)
                number += chunk.tuples.num_rows
        self._position = step.position
        if step.ended:
            yield from self.end()

    def speaking(self, step: Advance) -> set[str]:
        """The shards that deliver something in a train."""
        assert self._feed is not None
        return {split.shard for split in self._feed.splits(self._position, step.position)}

    def beat(self, now: int, speaking: Collection[str] = ()) -> Arrivals:
        """What is due on the timer of a heartbeat, of shards that are silent."""
        due: dict[str, Marks] = {}
        for track in self.box.tracks:
            idle = track.policy.idle
            for shard, seen in self._seen.items():
                if not isinstance(idle, Heartbeat) or seen.ended or shard in speaking:
                    continue
                stated = statement(self.box, track, seen, idle, now)
                if idle.due(seen, self._beats.get(shard, 0), now) and stated is not None:
                    due[shard] = due.get(shard, UNKNOWN).with_mark(track.mark, stated)
        for shard, marks in due.items():
            self._beats[shard] = now
            yield from self._state(shard, marks)

    def could_state(self, now: int) -> Marks | None:
        """The marks of the input if it were asked on demand now; None if it has nothing to say."""
        if self.ended or not any(isinstance(track.policy.idle, OnDemand) for track in self.box.tracks):
            return None
        marks = source_marks(self.box, {shard: seen.merge(said) for shard, seen, said in self._on_demand(now)})
        return marks if marks.of(self.box.tracks[0].mark) > self._spoken else None

    def state_on_demand(self, now: int) -> Arrivals:
        """An enabling timestamp."""
        self._seen = {shard: seen.merge(said) for shard, seen, said in self._on_demand(now)}
        yield from self._punctuation()

    def _on_demand(self, now: int) -> Iterator[tuple[str, Extremes, Extremes]]:
        for shard, seen in self._seen.items():
            said = UNKNOWN
            for track in self.box.tracks:
                idle = track.policy.idle
                stated = statement(self.box, track, seen, idle, now) if isinstance(idle, OnDemand) else None
                if stated is not None and not seen.ended:
                    said = said.with_mark(track.mark, stated)
            yield shard, seen, stating(self.box, said)

    def _tuple(self, row: pa.Table, shard: str, now: int, number: int, origin: str) -> Arrivals:
        box = self.box
        if box.stamped:
            row = row.add_column(0, box.on, pa.array([now], pa.int64()).cast(box.on_type))
        row = row.select(box.tuples.names)
        before = self._seen.get(shard, stating(box, self.marks()))
        verdict = judge(box, row, shard_marks(box, before))
        if verdict.stated.says_anything:
            yield from self._state(shard, verdict.stated)
            return
        if verdict.unfit is not None:
            yield (
                Port(box, Source.ERRORS),
                Element(UNKNOWN, unfit_rejects(row.select(box.delivered.names), box, origin)),
            )
            return
        row = numbered(row.append_column(ARRIVED, pa.array([now], pa.int64())), number, self._sequenced)
        seen = verdict.extremes(box, now)
        if seen is not None:
            self._seen[shard] = before.merge(seen)
        if verdict.late is None:
            yield Port(box), Element(self.marks(), row)
        elif box.refuses_late:
            yield Port(box, Source.ERRORS), Element(UNKNOWN, unstable_rejects(row.select(box.tuples.names), origin))
        elif box.late == "route":
            yield Port(box, Source.LATE), Element(UNKNOWN, row)

    def _state(self, shard: str, marks: Marks) -> Arrivals:
        before = self._seen.get(shard, stating(self.box, self.marks()))
        self._seen[shard] = before.merge(stating(self.box, marks))
        yield from self._punctuation()

    def _punctuation(self) -> Arrivals:
        marks = self.marks()
        self._spoken = max(self._spoken, marks.of(self.box.tracks[0].mark))
        # One shard has spoken, and nothing is known yet of another: that says nothing of the input.
        if marks.says_anything:
            yield Port(self.box), Element(marks)

    def _stated(self, given: PunctuationElement) -> Marks:
        tracks = {track.attribute: track for track in self.box.tracks}
        unknown = [name for name, _ in given.value if name not in tracks]
        if unknown:
            raise QueryError(
                f"{given} states '{unknown[0]}', which the input makes no progress on",
                box=self.box.name,
                expected=f"one of {', '.join(tracks)}",
            )
        ticks = {tracks[name]: tick_of(value, tracks[name].kind) for name, value in given.value}
        return Marks.made((track.mark, -tick if track.descending else tick) for track, tick in ticks.items())

    def _only_shard(self) -> str:
        if len(self._seen) == 1:
            return next(iter(self._seen))
        raise QueryError(
            f"the input has {len(self._seen)} shards",
            box=self.box.name,
            expected=f"shard= one of {', '.join(self._seen)}",
        )


def _one_by_one(connector: Connector) -> Connector:
    """A script that gives one element at a time; any other input as it is."""
    if isinstance(connector, TemporalRows):
        return replace(connector, rows=_one_by_one(connector.rows))
    return replace(connector, train=1) if isinstance(connector, Memory) else connector
