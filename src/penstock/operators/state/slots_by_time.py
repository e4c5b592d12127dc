"""Slots by time: what a batch brings is spread over segments of one length."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.ticks import tick_ns
from penstock.operators.arrays import Numbers

MINUTE_NS: Final = 60 * 10**9
INTEGERS: Final = 1024
MOST_SEGMENTS: Final = 64
"""Segments that one batch is spread over at most: where its ticks reach further, its segments are longer."""
LEVELS: Final = 64


class SlotsByTime:
    """Slots by time: one of level l holds ticks `[n * length, (n + 1) * length)`, where its length is base * 2^l.

    >>> segments = SlotsByTime(pa.int64())
    >>> [segments.span(slot) for slot in segments.slots_of(np.array([5, 1030, -1])).tolist()]
    [(0, 1024), (1024, 2048), (-1024, 0)]
    >>> [segments.span(slot) for slot in segments.slots_of(np.array([0, 100_000])).tolist()]
    [(0, 2048), (98304, 100352)]
    """

    def __init__(self, kind: pa.DataType) -> None:
        unit = tick_ns(kind)
        # Slot numbers are 64 times segment numbers and must fit into 64 bits, as ticks do; a date32 has 32.
        least = 1 if pa.types.is_date32(kind) else LEVELS
        self._base = INTEGERS if unit is None else max(least, MINUTE_NS // unit)

    def slots_of(self, ticks: Numbers) -> Numbers:
        """The slot of every tuple of a batch, all of one level."""
        if not len(ticks):
            return ticks
        low, high, level = int(ticks.min()), int(ticks.max()), 0
        while high // (self._base << level) - low // (self._base << level) >= MOST_SEGMENTS:
            level += 1
        return self.at_level(ticks, level)

    def at_level(self, ticks: Numbers, level: int) -> Numbers:
        """The slot of a level in which each tuple would be."""
        return np.floor_divide(ticks, self._base << level) * LEVELS + level

    def span(self, slot: int) -> tuple[int, int]:
        """The ticks [start, stop) that a slot is for."""
        number, level = divmod(slot, LEVELS)
        length = self._base << level
        return number * length, (number + 1) * length
