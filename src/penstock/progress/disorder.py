"""Disorder: how far the tuples of a shard lie behind the largest value that came before them.

```
 arrival     3   9   7   12   4   15            a gauge in every task that reads the shard
 largest     3   9   9   12  12   15     ─────> Stretch: smallest, largest, behind at most 8, a histogram
 behind      0   0   2    0   8    0                │
                                                    └──> Disorder of the input, merged in the board's record
```

An input under `pk.delayed(bound)` keeps its promise if nothing lies further behind than the bound. Values are ticks
that grow, so an attribute that decreases is measured like any other.

To compare every tuple with the running maximum would cost the intake 6 %. A long chunk that is out of order is measured
in blocks instead, for 2 %: how far its tuples lie behind earlier blocks is exact, what is out of order within a block
counts in the widest one. The histogram is of a sample, in which a tuple stands for those up to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END

Ticks = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.uint64]

BLOCK: Final = 251
"""Tuples in a block: a prime number, so that links that take turns do not meet it."""
LONG: Final = 64 * BLOCK
"""Chunks from this long on are measured in blocks."""
SAMPLE: Final = 1024
"""Tuples of a shorter chunk that the histogram takes, or up to twice as many, at equal distances."""
AT_ONCE: Final = 64
"""Samples that are put into the histogram together."""
STEPS: Final = 8
"""Buckets of the histogram for each power of two: a percentile is at most an eighth too large."""
BUCKETS: Final = 66 * STEPS
"""Lengths have up to 64 bits, and may be rounded up."""


@dataclass(frozen=True)
class Disorder:
    """How far behind tuples were, as far as is known; `buckets` counts those that were, by length.

    >>> Disorder(1000, 95, {"56": 990, "61": 10}).within(0.99)
    71
    """

    tuples: int = 0
    largest: int = 0
    buckets: Mapping[str, int] = field(default_factory=dict)

    def merge(self, other: Disorder) -> Disorder:
        keys = sorted({*self.buckets, *other.buckets}, key=int)
        buckets = {k: self.buckets.get(k, 0) + other.buckets.get(k, 0) for k in keys}
        return Disorder(self.tuples + other.tuples, max(self.largest, other.largest), buckets)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Disorder:
        return Disorder(**document)

    def within(self, share: float) -> int:
        """At most so far behind was this share of the tuples."""
        needed = math.ceil(self.tuples * share)
        found = self.tuples - sum(self.buckets.values())
        if found >= needed:
            return 0
        for bucket in sorted(map(int, self.buckets)):
            found += self.buckets[str(bucket)]
            if found >= needed:
                return min(self.largest, _upper(bucket))
        return self.largest


@dataclass(frozen=True)
class Stretch:
    """What one task has read of an attribute of a shard, in one batch."""

    smallest: int
    largest: int
    disorder: Disorder

    def to_json(self) -> dict[str, Any]:
        return {"smallest": self.smallest, "largest": self.largest, "disorder": self.disorder.to_json()}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Stretch:
        return Stretch(document["smallest"], document["largest"], Disorder.from_json(document["disorder"]))


def joined(stretches: Iterable[Stretch], *, in_sequence: bool) -> Disorder:
    """The disorder of a shard in a batch, from the stretches of its tasks, in order of arrival.

    A task does not know what the tasks before it have read: its smallest value tells how far it lies behind them. If
    nobody knows in what order tasks have read, each stands for itself.
    """
    whole, before = Disorder(), BEGINNING
    for stretch in stretches:
        behind = max(0, before - stretch.smallest) if in_sequence and before != BEGINNING else 0
        whole = whole.merge(stretch.disorder).merge(Disorder(largest=behind))
        before = max(before, stretch.largest)
    return whole


@dataclass(frozen=True)
class Values:
    """The ticks of an attribute in a chunk, in order of arrival, and the extremes of its blocks.

    They are what the intake must know of a chunk in any case; so to measure disorder costs little more.
    """

    ticks: Ticks
    in_order: bool = False
    highs: Ticks | None = None
    lows: Ticks | None = None
    """The largest and the smallest value of each block, of a long chunk that is out of order."""

    @staticmethod
    def of(column: pa.ChunkedArray) -> Values:
        """Those that are not NULL."""
        known = column.drop_null() if column.null_count else column
        chunk = known.chunk(0) if known.num_chunks == 1 else known.combine_chunks()
        ticks = chunk.to_numpy(zero_copy_only=False)
        if len(ticks) < LONG:
            return Values(ticks)
        if _in_order(ticks):
            return Values(ticks, in_order=True)
        starts = np.arange(0, len(ticks), BLOCK)
        return Values(ticks, False, np.maximum.reduceat(ticks, starts), np.minimum.reduceat(ticks, starts))

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The smallest and the largest."""
        if not len(self.ticks):
            return None, None
        if self.in_order:
            return int(self.ticks[0]), int(self.ticks[-1])
        lows = self.ticks if self.lows is None else self.lows
        highs = self.ticks if self.highs is None else self.highs
        return int(lows.min()), int(highs.max())


class Gauge:
    """Measures one attribute of one shard, as a task reads it."""

    def __init__(self, reached: int = BEGINNING) -> None:
        self._reached = reached
        """The largest value so far: of earlier batches, and of what this task has read."""
        self._smallest: int | None = None
        self._largest = BEGINNING
        self._tuples = 0
        self._behind = 0
        self._buckets = np.zeros(BUCKETS, np.int64)
        self._samples: list[tuple[Lengths, int]] = []
        """How far tuples of a sample are behind, and how many each stands for; not in the buckets yet."""

    def take(self, values: Values) -> None:
        """Tuples in the order in which they came."""
        ticks = values.ticks
        smallest, largest = values.bounds
        if smallest is None or largest is None:
            return
        if values.in_order:
            self._each(ticks[: np.searchsorted(ticks, self._reached)])
        elif values.highs is None or values.lows is None or max(self._reached, largest) - smallest > END:
            self._each(ticks)
        else:
            self._blocks(ticks, values.highs, values.lows)
        self._tuples += len(ticks)
        self._smallest = smallest if self._smallest is None else min(smallest, self._smallest)
        self._largest = max(self._largest, largest)
        self._reached = max(self._reached, largest)

    def stretch(self) -> Stretch | None:
        """All of it; None if there was nothing."""
        if self._smallest is None:
            return None
        self._tally()
        buckets = {str(bucket): int(self._buckets[bucket]) for bucket in np.flatnonzero(self._buckets)}
        return Stretch(self._smallest, self._largest, Disorder(self._tuples, self._behind, buckets))

    def _each(self, ticks: Ticks) -> None:
        """Compare every tuple with the largest before it."""
        if len(ticks):
            largest = np.maximum(np.maximum.accumulate(ticks), self._reached)
            # Up to 2**64, so without a sign.
            behind = largest.astype(np.uint64) - ticks.astype(np.uint64)
            self._behind = max(self._behind, int(behind.max()))
            step = max(1, len(ticks) // SAMPLE)
            self._sampled(behind[::step][: len(ticks) // step].copy(), step)

    def _blocks(self, ticks: Ticks, highs: Ticks, lows: Ticks) -> None:
        """Compare blocks with those before them: a handful of calls, as each is dear after other work."""
        spans = highs - lows
        before = np.maximum.accumulate(highs)
        if self._reached > before[0]:
            np.maximum(before, self._reached, out=before)
            self._behind = max(self._behind, self._reached - int(lows[0]))
        self._behind = max(self._behind, int((before[:-1] - lows[1:]).max()))
        widest = int(spans.argmax())
        if spans[widest] > self._behind:
            inside = ticks[widest * BLOCK : (widest + 1) * BLOCK]
            self._behind = max(self._behind, int((np.maximum.accumulate(inside) - inside).max()))
        behind = np.maximum(before[:-1] - ticks[BLOCK::BLOCK], 0)
        self._sampled(behind.view(np.uint64), BLOCK)

    def _sampled(self, behind: Lengths, tuples: int) -> None:
        self._samples.append((behind, tuples))
        if len(self._samples) >= AT_ONCE:
            self._tally()

    def _tally(self) -> None:
        for tuples in sorted({each for _, each in self._samples}):
            sample = np.concatenate([behind for behind, each in self._samples if each == tuples])
            fraction, power = np.frexp(sample[sample > 0].astype(np.float64))
            buckets = power * STEPS + ((fraction - 0.5) * 2 * STEPS).astype(np.int64)
            self._buckets += np.bincount(buckets, minlength=BUCKETS) * tuples
        self._samples.clear()


def _in_order(ticks: Ticks) -> bool:
    # Disordered chunks show it at once, as a rule.
    return not (ticks[1:BLOCK] < ticks[: BLOCK - 1]).any() and not (ticks[BLOCK:] < ticks[BLOCK - 1 : -1]).any()


def _upper(bucket: int) -> int:
    """The largest length in a bucket."""
    power, step = divmod(bucket, STEPS)
    return math.ceil(math.ldexp(0.5 + (step + 1) / (2 * STEPS), power)) - 1
