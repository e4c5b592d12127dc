"""Penstock's side of `ets`: the network of ets.md Fig. 4, and what is seen of it while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

import penstock as pk
from penstock.progress.policy import Policy
from penstock.runtime.board import Record
from penstock_bench.poisson import SCHEMA, Poisson
from penstock_bench.throughput import CORES

MERGE: Final = "merge"


@dataclass
class Seen:
    """What left the network and how it stood after every batch, each with the clock reading in microseconds."""

    emitted: list[tuple[int, pa.Table]] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    """(clock reading, tuples that the merge holds) after each batch."""
    statements: list[int] = field(default_factory=list)
    """When something was stated in the place of the slow input."""

    def emit(self, tuples: pa.Table) -> None:
        self.emitted.append((_now(), tuples))

    def note(self, record: Record) -> None:
        now = _now()
        work = record.boxes.get(MERGE)
        self.batches.append((now, work.held_rows if work is not None else 0))
        stated = max((seen.stated for seen in record.shards.get("slow", {}).values()), default=0)
        if stated > self._stated:
            self.statements.append(now)
        self._stated = max(stated, self._stated)

    _stated: int = 0


class OrderedUnion:
    """Two inputs of very different rates, a filter behind each, and the order-preserving merge."""

    def __init__(self, timestamps: str, every: str | None, on_demand: bool) -> None:
        self._timestamps = timestamps
        # Heartbeats are injected into the sparser stream, as in the paper; on demand both inputs may be asked.
        fast, slow = pk.ordered(), pk.ordered()
        if every is not None:
            slow = pk.ordered(idle=pk.heartbeat(every=every, skew="0 seconds"))
        if on_demand:
            fast = slow = pk.ordered(idle=pk.on_demand(skew="0 seconds"))
        self._policies: tuple[Policy, Policy] = (fast, slow)

    def warm_up(self) -> None:
        """Bring the session up, and have it run a network of the same shape."""
        net = pk.Network("warm-up")
        script = pk.memory([(0, 1)] * 40, schema=SCHEMA, train=10)
        inputs = [net.source(name, script, timestamps="latent") for name in ("fast", "slow")]
        pk.merge(*(s.where("v < 95") for s in inputs)).output("out")
        net.run(master=f"local[{CORES}]", buckets=1, tasks=1)

    def start(self, fast: Poisson, slow: Poisson, scratch: Path, seen: Seen) -> pk.Run:
        net = pk.Network("ets")
        streams = [
            net.source(name, arrivals, timestamps=self._timestamps, progress=policy).where("v < 95")
            for name, arrivals, policy in zip(("fast", "slow"), (fast, slow), self._policies, strict=True)
        ]
        inputs = [
            s.map(ts="ts", due="due", input=f"'{name}'") for s, name in zip(streams, ("fast", "slow"), strict=True)
        ]
        emit: Callable[[pa.Table], None] = seen.emit
        pk.merge(*inputs, name=MERGE).output("merged", to=pk.callback(emit))
        return net.start(
            master=f"local[{CORES}]", checkpoint=str(scratch / "run"), buckets=1, tasks=1, on_batch=seen.note
        )


def _now() -> int:
    return time.time_ns() // 1000
