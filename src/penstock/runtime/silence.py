"""Who speaks for an input that is silent, and when: heartbeats on a timer, timestamps on demand.

A pure function of the board's record, the clock and the last heartbeats. What it decides becomes part of the offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.algebra.box import Source
from penstock.algebra.network import Network
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Heartbeat, Idle, OnDemand, idle_of
from penstock.runtime.board import Record, source_marks
from penstock.runtime.waiting import culprits, met

Stated = dict[str, dict[str, int]]
"""Ticks that shards state, by input and shard."""


@dataclass(frozen=True)
class Silence:
    """The inputs of a network that have a policy for silence."""

    network: Network

    def watched(self) -> list[tuple[Source, Idle]]:
        return [(s, idle) for s in self.network.sources if (idle := idle_of(s.policy)) is not None]

    def heartbeats(
        self, record: Record, beats: Mapping[str, Mapping[str, int]], speaking: Collection[tuple[str, str]], now: int
    ) -> Stated:
        """What is due on a timer; `beats` are the last ones, `speaking` the shards that deliver in this batch."""
        found: Stated = {}
        for source, idle in self.watched():
            if not isinstance(idle, Heartbeat):
                continue
            for shard, seen in self._silent(record, source, speaking):
                last = beats.get(source.name, {}).get(shard, 0)
                if idle.due(seen, last, now):
                    self._state(found, source, shard, seen, idle, now)
        return found

    def on_demand(self, record: Record, speaking: Collection[tuple[str, str]], now: int, *, anyway: bool) -> Stated:
        """What silent inputs state because somebody waits for them, and would go on; or because a batch runs anyway."""
        able: Stated = {}
        for source, idle in self.watched():
            if isinstance(idle, OnDemand):
                for shard, seen in self._silent(record, source, speaking):
                    self._state(able, source, shard, seen, idle, now)
        if anyway or not able:
            return able
        found: Stated = {}
        for need in record.waiting:
            blamed = {(source.name, shard) for source, shard in culprits(self.network, need, record.shards)}
            asked = {s: {k: v for k, v in shards.items() if (s, k) in blamed} for s, shards in able.items()}
            if met(self.network, need, self._marks(record, asked)):
                for name, shards in asked.items():
                    found.setdefault(name, {}).update(shards)
        return {name: shards for name, shards in found.items() if shards}

    def latent(self, inputs: Mapping[str, Any], now: int) -> Stated:
        """What inputs with latent timestamps state with every batch: whatever they bring later is later."""
        latent = [s for s in self.network.sources if s.timestamps == "latent" and not inputs[s.name]["ended"]]
        return {s.name: dict.fromkeys(s.connector.shards(), now + 1) for s in latent}

    def _silent(
        self, record: Record, source: Source, speaking: Collection[tuple[str, str]]
    ) -> Iterator[tuple[str, Extremes]]:
        for shard, seen in record.shards.get(source.name, {}).items():
            if not seen.ended and (source.name, shard) not in speaking:
                yield shard, seen

    def _state(self, found: Stated, source: Source, shard: str, seen: Extremes, idle: Idle, now: int) -> None:
        tick = idle.statement(seen, now, source.on_type)
        if tick > source.policy.low_water_mark(seen, source.on_type):
            found.setdefault(source.name, {})[shard] = tick

    def _marks(self, record: Record, stated: Stated) -> dict[str, dict[str, int]]:
        """The marks of all inputs, if shards stated this."""
        return {
            s.name: source_marks(
                s,
                {
                    shard: replace(seen, stated=max(seen.stated, stated.get(s.name, {}).get(shard, seen.stated)))
                    for shard, seen in record.shards.get(s.name, {}).items()
                },
            )
            for s in self.network.sources
        }


def merged(first: Mapping[str, Mapping[str, int]], second: Mapping[str, Mapping[str, int]]) -> Stated:
    """Both, by input and shard; of two values the larger.

    >>> merged({"a": {"0": 1}}, {"a": {"0": 3, "1": 2}})
    {'a': {'0': 3, '1': 2}}
    """
    found: Stated = {name: dict(shards) for name, shards in first.items()}
    for name, shards in second.items():
        own = found.setdefault(name, {})
        own.update({shard: max(value, own.get(shard, value)) for shard, value in shards.items()})
    return found
