"""Who speaks for an input that is silent, and when: heartbeats on a timer, timestamps on demand.

A pure function of the board's record, the clock and the last heartbeats. What it decides becomes part of the offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from penstock.algebra.joint_punctuation import Way
from penstock.algebra.marks import UNKNOWN, Marks, most
from penstock.algebra.network import Network
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Heartbeat, Idle, OnDemand
from penstock.progress.shards import source_marks, statement, stating
from penstock.runtime.board import Need, Record
from penstock.runtime.offsets import InputAt
from penstock.runtime.waiting import culprits, met

Stated = dict[str, dict[str, Marks]]
"""What shards state, by input and shard."""


@dataclass(frozen=True)
class Silence:
    """The inputs of a network that have a policy for silence."""

    network: Network

    def watched(self) -> list[tuple[Source, Track, Idle]]:
        return [
            (source, track, idle)
            for source in self.network.sources
            for track in source.tracks
            if (idle := track.policy.idle) is not None
        ]

    def heartbeats(
        self, record: Record, beats: Mapping[str, Mapping[str, int]], speaking: Collection[tuple[str, str]], now: int
    ) -> Stated:
        """What is due on a timer; `beats` are the last ones, `speaking` the shards that deliver in this batch."""
        found: Stated = {}
        for source, track, idle in self.watched():
            if not isinstance(idle, Heartbeat):
                continue
            for shard, seen in self._silent(record, source, speaking):
                last = beats.get(source.name, {}).get(shard, 0)
                if idle.due(seen, last, now):
                    self._state(found, source, track, shard, seen, idle, now)
        return found

    def on_demand(self, record: Record, speaking: Collection[tuple[str, str]], now: int, *, anyway: bool) -> Stated:
        """What silent inputs state because somebody waits for them, and would go on; or because a batch runs anyway."""
        able: Stated = {}
        for source, track, idle in self.watched():
            if isinstance(idle, OnDemand):
                for shard, seen in self._silent(record, source, speaking):
                    self._state(able, source, track, shard, seen, idle, now)
        if anyway or not able:
            return able
        found: Stated = {}
        most = self._marks(record, able)
        for need, way in [(waits, out) for waits in record.waiting for out in waits.ways]:
            if not met(self.network, need, way, most):
                continue
            blamed = {(source.name, shard) for source, shard in culprits(self.network, need, way, record.shards)}
            asked = {s: {k: v for k, v in shards.items() if (s, k) in blamed} for s, shards in able.items()}
            if met(self.network, need, way, self._marks(record, asked)):
                for name, shards in asked.items():
                    found.setdefault(name, {}).update(shards)
        return {name: shards for name, shards in found.items() if shards}

    def released(self, record: Record) -> Stated:
        """What inputs state of which every shard has been closed: as much as somebody waits for, and no more.

        A promise of more would make late what they bring when they come back.
        """
        found: Stated = {}
        for source in self.network.sources:
            shards = record.shards.get(source.name, {})
            if not shards or not all(seen.gone for seen in shards.values()):
                continue
            for need in record.waiting:
                # The first is the shortest: of what it lets go, the next batch knows.
                found = merged(found, next(self._releasing(record, source, need), {}))
        return found

    def _releasing(self, record: Record, source: Source, need: Need) -> Iterator[Stated]:
        """What an input alone can state to meet a need, for each of its ways."""
        now = self._marks(record, {})
        for way in need.ways:
            marks = Marks.made((t.mark, self._enough(source, t, need, way)) for t in source.tracks)
            asked: Stated = {source.name: dict.fromkeys(record.shards[source.name], marks)}
            before, after = (met(self.network, need, way, m) for m in (now, self._marks(record, asked)))
            if after and not before:
                yield asked

    def _enough(self, source: Source, track: Track, need: Need, way: Way) -> int:
        """The smallest mark of an attribute with which an input no longer holds a box back."""
        ends = {s.name: s.shape(0).at_end() for s in self.network.sources}

        def releases(tick: int) -> bool:
            return met(self.network, need, way, {**ends, source.name: ends[source.name].with_mark(track.mark, tick)})

        # Marks never decrease along a network, so halving finds it.
        low, high = BEGINNING, END
        if releases(low):
            return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if releases(middle) else (middle, high)
        return high

    def latent(self, inputs: Mapping[str, InputAt], now: int) -> Stated:
        """What inputs with latent timestamps state with every batch: whatever they bring later is later."""
        latent = [s for s in self.network.sources if s.timestamps == "latent" and not inputs[s.name].ended]
        return {s.name: {shard: Marks({s.on: now + 1}) for shard in s.connector.shards()} for s in latent}

    def _silent(
        self, record: Record, source: Source, speaking: Collection[tuple[str, str]]
    ) -> Iterator[tuple[str, Extremes]]:
        for shard, seen in record.shards.get(source.name, {}).items():
            if not seen.ended and not seen.gone and (source.name, shard) not in speaking:
                yield shard, seen

    def _state(
        self, found: Stated, source: Source, track: Track, shard: str, seen: Extremes, idle: Idle, now: int
    ) -> None:
        tick = statement(source, track, seen, idle, now)
        if tick is not None:
            shards = found.setdefault(source.name, {})
            shards[shard] = shards.get(shard, UNKNOWN).with_mark(track.mark, tick)

    def _marks(self, record: Record, stated: Stated) -> dict[str, Marks]:
        """The marks of all inputs, if shards stated this."""
        found = {}
        for source in self.network.sources:
            said = stated.get(source.name, {})
            shards = record.shards.get(source.name, {})
            found[source.name] = source_marks(
                source, {shard: seen.merge(stating(source, said.get(shard, UNKNOWN))) for shard, seen in shards.items()}
            )
        return found


def merged(first: Stated, second: Stated) -> Stated:
    """Both, by input and shard; of two marks the larger.

    >>> both = merged({"a": {"0": Marks({"ts": 1})}}, {"a": {"0": Marks({"ts": 3}), "1": Marks({"ts": 2})}})
    >>> both["a"]["0"].of("ts"), both["a"]["1"].of("ts")
    (3, 2)
    """
    found = {name: dict(shards) for name, shards in first.items()}
    for name, shards in second.items():
        own = found.setdefault(name, {})
        own.update({shard: most([own.get(shard, UNKNOWN), marks]) for shard, marks in shards.items()})
    return found
