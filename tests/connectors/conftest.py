"""Runs a connector as the engine would: advance, splits, read, until it ends."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.algebra.ticks import BEGINNING
from penstock.connectors.connector import Connector, Journal, Limit
from penstock.connectors.journal import MemoryJournal

EVERYTHING = Limit(2**62, 2**62)


@dataclass
class Drained:
    tuples: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    by_shard: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    splits: int = 0
    batches: int = 0
    stated: int = BEGINNING
    positions: list[Any] = field(default_factory=list)

    def told(self) -> list[tuple[Any, ...]]:
        return [(one["position"], one["record"], one["reason"]) for one in self.rejects]


def _drain(
    connector: Connector,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    limit: Limit | Callable[[], Limit] = EVERYTHING,
    journal: Journal | None = None,
) -> Drained:
    shape = schema or connector.schema()
    assert shape is not None
    names = list(shape.names if columns is None else columns)
    feed = connector.open(shape, MemoryJournal() if journal is None else journal)
    worker = pickle.loads(pickle.dumps(connector))
    drained, position, last = Drained(), feed.start(), dict[str, int]()
    while True:
        step = feed.advance(position, limit() if callable(limit) else limit)
        end = json.loads(json.dumps(step.position))
        for split in feed.splits(position, end):
            assert split.seq > last.get(split.shard, -1)
            last[split.shard] = split.seq
            drained.splits += 1
            for chunk in worker.read(pickle.loads(pickle.dumps(split)), shape, names):
                assert chunk.tuples.schema.names == names
                assert chunk.tuples.schema.types == [shape.field(name).type for name in names]
                rows = chunk.tuples.to_pylist()
                drained.tuples += rows
                drained.by_shard.setdefault(split.shard, []).extend(rows)
                drained.rejects += [] if chunk.rejects is None else chunk.rejects.to_pylist()
                drained.stated = max((drained.stated, *(t for said in chunk.stated.values() for t in said)))
        drained.positions.append(end)
        drained.batches += 1
        if step.ended or end == position:
            feed.close()
            return drained
        position = end


@pytest.fixture
def drain() -> Callable[..., Drained]:
    return _drain


@pytest.fixture
def any_limit() -> Callable[[], Limit]:
    """Limits that differ from train to train, the same in every run."""
    chance = random.Random(7)
    return lambda: Limit(chance.randint(1, 900), chance.choice([300, 5_000, 2**40]))
