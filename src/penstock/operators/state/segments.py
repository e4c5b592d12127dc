"""Tuples kept by time: state in slots that are segments of an attribute's ticks.

What lies in a range of ticks is found, and let go of, by segment: those outside of it are neither read nor rewritten.
The segments of a batch are as long as its own spread asks for, a power of two ticks, so their number does not depend
on the unit of the attribute; when there are too many in all, they are laid together into longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, to_ticks
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import parted
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import add_chunk

SIDES: Final = 3
"""Slot numbers are shared out among this many stores of one box."""
PIECES: Final = 8
"""Segments that the tuples of one batch are parted into, about."""
MOST_SEGMENTS: Final = 64
"""Segments of a store before they are laid together."""
_LEVELS: Final = 65


@dataclass(frozen=True)
class Segment:
    """The ticks from `number * 2^level` on, `2^level` of them.

    >>> Segment(3, -1).low, Segment(3, -1).high, Segment.of(Segment(3, -1).slot(1))
    (-8, -1, Segment(level=3, number=-1))
    """

    level: int
    number: int

    @property
    def low(self) -> int:
        return self.number << self.level

    @property
    def high(self) -> int:
        """The last tick in it."""
        return ((self.number + 1) << self.level) - 1

    def slot(self, side: int) -> int:
        return (self.number * _LEVELS + self.level) * SIDES + side

    @staticmethod
    def of(slot: int) -> Segment:
        number, level = divmod(slot // SIDES, _LEVELS)
        return Segment(level, number)


class Segments:
    """The tuples of one store; a side is a number below `SIDES`."""

    def __init__(self, slots: Slots, side: int, part: str, on: str) -> None:
        self._slots = slots
        self._side = side
        self._part = part
        self._on = on

    def add(self, tuples: pa.Table) -> None:
        if not tuples.num_rows:
            return
        ticks = self.ticks(tuples)
        spread = int(ticks.max()) - int(ticks.min())
        self._add(tuples, ticks, level=(spread // PIECES).bit_length())
        if len(held := list(self._between(None, None))) > MOST_SEGMENTS:
            self._lay_together(held)

    def read(self, low: int, high: int) -> list[pa.Table]:
        """What may lie from tick `low` to `high`: all tuples of the segments that reach into it."""
        return [chunk for segment in self._between(low, high) for chunk in self._chunks(segment)]

    def least(self) -> int | None:
        """The smallest tick of all, if there is any."""
        first = min(self._between(None, None), key=lambda s: s.low, default=None)
        return None if first is None else min(int(self.ticks(c).min()) for c in self._chunks(first))

    def sift(self, low: int, high: int, needed: Callable[[pa.Table], Mask]) -> int:
        """Keep only what is needed of the segments that reach into `low..high`; how many tuples were let go of."""
        gone = 0
        for segment in list(self._between(low, high)):
            tuples = pa.concat_tables(self._chunks(segment))
            keep = needed(tuples)
            if keep.all():
                continue
            gone += int(len(keep) - keep.sum())
            if keep.any():
                self._slots.replace(
                    segment.slot(self._side), self._part, tuples.filter(pa.array(keep)).combine_chunks()
                )
            else:
                self._slots.drop(segment.slot(self._side))
        return gone

    def forget(self, tick: int) -> int:
        """Let go of all tuples before a tick; how many there were."""
        return self.sift(BEGINNING, tick - 1, lambda tuples: self.ticks(tuples) >= tick)

    def ticks(self, tuples: pa.Table) -> Numbers:
        """When the tuples are."""
        return np.asarray(to_ticks(tuples.column(self._on)).to_numpy(), np.int64)

    def _between(self, low: int | None, high: int | None) -> Iterator[Segment]:
        for slot in self._slots.numbers():
            if slot % SIDES == self._side:
                segment = Segment.of(slot)
                if (high is None or segment.low <= high) and (low is None or segment.high >= low):
                    yield segment

    def _chunks(self, segment: Segment) -> list[pa.Table]:
        return list(self._slots.chunks(segment.slot(self._side), self._part))

    def _add(self, tuples: pa.Table, ticks: Numbers, level: int) -> None:
        for number, chunk in parted(tuples, ticks >> level):
            add_chunk(self._slots, Segment(level, number).slot(self._side), self._part, chunk)

    def _lay_together(self, held: list[Segment]) -> None:
        whole = pa.concat_tables([chunk for segment in held for chunk in self._chunks(segment)])
        spread = max(s.high for s in held) - min(s.low for s in held)
        for segment in held:
            self._slots.drop(segment.slot(self._side))
        self._add(whole, self.ticks(whole), level=min((spread // PIECES).bit_length(), _LEVELS - 2))
