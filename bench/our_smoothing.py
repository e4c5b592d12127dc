"""Penstock at work on `smoothing`: the operators of a smoothed aggregate, train by train, as a stage calls them."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import penstock as pk
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.boxes.aggregate.holder import AggregateOp
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.aggregate.low_level.holder import LowLevelOp
from penstock.operators.protocol import Holder
from penstock.testing.memory_slots import MemorySlots
from penstock_bench.traffic import address

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """Packets in order, with the same groups in every window; their number is their time."""

    groups: int
    window: int
    """Packets in a window."""
    windows: int
    train: int
    seed: int = 9

    @property
    def side(self) -> int:
        """Pairs lie in a square, so that neither address alone tells the group."""
        return math.isqrt(self.groups - 1) + 1

    def trains(self) -> Iterator[pa.Table]:
        for first, groups in self._drawn():
            source, destination = np.divmod(groups, self.side)
            times = np.arange(first, first + len(groups))
            yield pa.table({"ts": times, "srcIP": address(source), "destIP": address(destination)})

    def counts(self) -> Counts:
        """What is right: packets by window and group."""
        found = np.zeros((self.windows, self.groups), np.int64)
        for first, groups in self._drawn():
            found[first // self.window] += np.bincount(groups, minlength=self.groups)
        return found

    def group(self, source: Counts, destination: Counts) -> Counts:
        """The groups of pairs of addresses."""
        known = address(np.arange(self.side))
        order = np.argsort(known)
        numbers = [order[np.searchsorted(known, side, sorter=order)] for side in (source, destination)]
        return numbers[0] * self.side + numbers[1]

    def _drawn(self) -> Iterator[tuple[int, Counts]]:
        """The groups of every train; a window is a whole number of trains."""
        random = np.random.default_rng(self.seed)
        for first in range(0, self.window * self.windows, self.train):
            yield first, random.integers(0, self.groups, self.train)


@dataclass(frozen=True)
class Flushed:
    """What became of a load. Costs are CPU seconds of every train of a window, the median of all windows but the first.

    In the first the table fills. In all others the same work is due at the same place, and one slow moment of the
    machine is none of it.
    """

    low: Sequence[float]
    """Of the low level: reduce the train, place it, flush, and write what leaves as an Arrow train."""
    stage: Sequence[float]
    """And of the high level: merge that, close windows."""
    burst: int
    """The most partial aggregates that left in one train."""
    delay: float
    """How many windows after its end the partial aggregates of a window had all left, at most."""
    wrong: int
    """Groups of windows whose count is not right."""


def drive(load: Load, table: int, **flush: Any) -> Flushed:
    """Put a load through a low-level table and the aggregate behind it."""
    high = aggregate(load, table, flush)
    low = high.inputs[0].box
    assert isinstance(low, LowLevel)
    slots, behind = MemorySlots(), MemorySlots()
    costs: list[tuple[float, float]] = []
    counts = np.zeros((load.windows, load.groups), np.int64)
    burst, delay, done = 0, 0.0, 0
    gc.collect()
    gc.disable()
    for number, packets in enumerate(load.trains()):
        mark = int(packets.column("ts")[-1].as_py())
        began = time.process_time()
        holder = LowLevelOp(low, slots)
        _send(low, holder, [packets])
        departing = [tuples for _, tuples in holder.punctuate([Marks({"ts": mark})], now=0)]
        for tuples in departing:
            _handed_over(tuples)
        between = time.process_time()
        merging = AggregateOp(high, behind)
        _send(high, merging, departing)
        stated = holder.output_marks([Marks({"ts": mark})])
        results = [tuples for _, tuples in merging.punctuate([stated], now=0)]
        costs.append((between - began, time.process_time() - began))
        _count(load, results, counts)
        if number * load.train >= load.window:
            burst = max(burst, sum(tuples.num_rows for tuples in departing))
        reached = stated.of("ts") // load.window
        if reached > done:
            delay, done = max(delay, (mark - (done + 1) * load.window) / load.window), reached
    gc.enable()
    rest, merging = LowLevelOp(low, slots), AggregateOp(high, behind)
    _send(high, merging, [tuples for _, tuples in rest.punctuate([Marks({"ts": END})], now=0)])
    _count(load, [tuples for _, tuples in merging.punctuate([Marks({"ts": END})], now=0)], counts)
    typical = np.median(np.array(costs).reshape(load.windows, -1, 2)[1:], axis=0)
    return Flushed(typical[:, 0].tolist(), typical[:, 1].tolist(), burst, delay, int((counts != load.counts()).sum()))


def aggregate(load: Load, table: int, flush: dict[str, Any]) -> Aggregate:
    """The boxes of Q4, as the language builds them."""
    net = pk.Network("smoothing")
    schema = {"ts": "int64", "srcIP": "int64", "destIP": "int64"}
    packets = net.source("M", pk.memory([], schema=schema), on="ts", progress=pk.ordered())
    flows = packets.aggregate({"n": "count(*)"}, size=load.window, by=["srcIP", "destIP"], table=table, **flush)
    found = flows._port.box
    assert isinstance(found, Aggregate)
    return found


def _send(box: Aggregate | LowLevel, holder: Holder, tables: Sequence[pa.Table]) -> None:
    """Tuples through the entry of a box to its holder, as in a stage."""
    entry = SubAggregateOp(box)
    for tuples in tables:
        entry.process(0, tuples)
    for part, partials in entry.flush():
        known = ARRIVED in partials.column_names
        arrived = pa.repeat(pa.scalar(0, pa.int64()), partials.num_rows)
        holder.receive(part, partials if known else partials.append_column(ARRIVED, arrived))


def _handed_over(tuples: pa.Table) -> pa.Buffer:
    """Partial aggregates as the train in which a high level would get them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as stream:
        stream.write_table(tuples)
    return sink.getvalue()


def _count(load: Load, results: Sequence[pa.Table], counts: Counts) -> None:
    """Add results to the counts, by window and number of the group."""
    for tuples in results:
        window, source, destination, n = (tuples.column(c).to_numpy() for c in ("ts", "srcIP", "destIP", "n"))
        # A result that leaves twice counts twice, and is wrong.
        np.add.at(counts, (window // load.window, load.group(source, destination)), n)
