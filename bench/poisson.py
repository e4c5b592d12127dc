"""Tuples that arrive at random moments, at a mean rate, in real time: the arrivals of ets.md section 6.

Arrival i is a pure function of (rate, seed, i), so a replay reads the same tuples; only how many have arrived is the
clock's to say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split

SCHEMA: Final = pa.schema([pa.field("due", pa.int64()), pa.field("v", pa.int32())])
"""When a tuple was due, in microseconds since the epoch, and a number from 0 to 99 for filters."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part(Split):
    """Arrivals `[start, stop)`."""

    start: int
    stop: int


@dataclass(frozen=True)
class Poisson(Connector):
    """An input that never ends: its tuples come at `rate` a second in the mean, from `origin` on."""

    rate: float
    seed: int
    origin: int
    """The clock reading at which arrivals begin, in microseconds since the epoch."""
    most: int
    """Arrivals that are drawn; after them the input is silent."""

    @property
    def bounded(self) -> bool:
        return False

    def schema(self) -> pa.Schema:
        return SCHEMA

    def describe(self) -> str:
        return f"Poisson arrivals ({self.rate:g} a second)"

    def shards(self) -> Sequence[str]:
        return ("0",)

    def open(self, schema: pa.Schema, journal: Journal) -> PoissonFeed:
        return PoissonFeed(self)

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        assert isinstance(split, Part)
        found = {"due": self.due(), "v": self.values()}
        arrays = [pa.array(found[name][split.start : split.stop], SCHEMA.field(name).type) for name in columns]
        yield Chunk(pa.record_batch(arrays, names=list(columns)))

    def due(self) -> Integers:
        """The moments of all arrivals, in microseconds since the epoch."""
        return _gaps(self.rate, self.seed, self.most) + self.origin

    def values(self) -> Integers:
        return np.random.default_rng([self.seed, 1]).integers(0, 100, self.most)


@dataclass(frozen=True)
class PoissonFeed(Feed):
    """Positions are `{"at": arrivals taken}`."""

    connector: Poisson

    def start(self) -> Position:
        return {"at": 0}

    def advance(self, position: Position, limit: Limit) -> Advance:
        arrived = int(np.searchsorted(self.connector.due(), time.time_ns() // 1000, "right"))
        return Advance({"at": max(position["at"], min(arrived, position["at"] + limit.rows))})

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        low, high = start["at"], end["at"]
        return [Part("0", low, high - low, low, high)] if low < high else []


@lru_cache(maxsize=4)
def _gaps(rate: float, seed: int, most: int) -> Integers:
    gaps = np.random.default_rng([seed, 0]).exponential(1e6 / rate, most)
    moments: Integers = np.cumsum(gaps).astype(np.int64)
    return moments
