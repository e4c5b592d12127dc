"""What a Join holds of one side, and until when.

A tuple is kept *until* the other side's low-water mark passes the last tick at which it can still find a partner: for a
left tuple `A + after`, for a right one `B + before` (oop.md Figure 4, read as in `band.py`). Its slot is
a segment of these ticks, so punctuation drops whole slots and rewrites those only in which it lies; and tuples that
arrive read no other slots than those that can reach them.

Where it matters who has met a partner, a slot has a row of bits beside its tuples, one for each in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.join.box import ONE_SIDED, SEGMENT, Join
from penstock.operators.arrays import Mask, Numbers, shifted, ticks_of
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.segments import MOST_SEGMENTS, PIECES, SIDES, Segment

TUPLES: Final = "tuples"
MET: Final = "met"
PIECE_ROWS: Final = 1024
"""Tuples of a batch that are not worth a slot of their own."""
LAST_LEVEL: Final = 63
"""Two segments of this level hold all ticks."""


@dataclass(frozen=True)
class Held:
    """Tuples of one slot, and their places in it."""

    segment: Segment
    tuples: pa.Table
    places: Numbers


@dataclass(frozen=True)
class Gone:
    """Tuples that are let go of."""

    released: int
    """How many there are; a tuple of which copies are kept elsewhere does not count yet."""
    alone: pa.Table | None = None
    """Those that have never met a partner, where the join preserves them."""


class HeldSide:
    """The stored tuples of one side."""

    def __init__(self, box: Join, side: int, slots: Slots) -> None:
        self._box = box
        self._side = side
        self._slots = slots
        self._copied = box.home is not None and box.home != side
        self._remembers = side in box.preserved or (side == 0 and box.how in ONE_SIDED)
        self._preserved = side in box.preserved
        self._once = side == 0 and box.how in ONE_SIDED
        """Whether a tuple that has met a partner is of no use any more."""

    def count(self) -> int:
        """How many tuples are held."""
        return sum(
            int((~self._met(s, rows)).sum()) if self._once else rows
            for s in self._segments()
            if (rows := sum(c.num_rows for c in self._chunks(s)))
        )

    def next_alone(self) -> int | None:
        """The first tick that the other side's mark must reach for a tuple to leave without a partner, if any waits."""
        if not self._preserved:
            return None
        for segment in sorted(self._segments(), key=lambda s: s.low):
            tuples = pa.concat_tables(self._chunks(segment))
            alone = ~self._met(segment, tuples.num_rows)
            if alone.any():
                return int(min(self._until(tuples)[alone].min(), END - 1)) + 1
        return None

    def reaching(self, first: int, last: int) -> list[Held]:
        """What can meet tuples of the other side from tick `first` to `last`."""
        found = []
        for segment in self._segments():
            if segment.high >= first and segment.low - self._box.band.width <= last:
                tuples = pa.concat_tables(self._chunks(segment))
                if self._once:
                    places = np.flatnonzero(~self._met(segment, tuples.num_rows))
                    tuples = tuples if len(places) == tuples.num_rows else tuples.take(pa.array(places))
                else:
                    places = np.arange(tuples.num_rows)
                found.append(Held(segment, tuples, places))
        return found

    def remember(self, held: Held, met: Mask) -> int:
        """Note which of the tuples have met a partner; how many are let go of for that reason."""
        if not self._remembers or not met.any():
            return 0
        tuples = pa.concat_tables(self._chunks(held.segment))
        bits = self._met(held.segment, tuples.num_rows)
        bits[held.places[met]] = True
        # Bits are cheap, tuples are not: those of no use any more go when they are the greater part.
        if self._once and 2 * bits.sum() > len(bits):
            self._rewrite(held.segment, tuples, bits, ~bits)
        else:
            self._note(held.segment, bits)
        return int(met.sum()) if self._once else 0

    def purge(self, mark: int) -> Iterator[Gone]:
        """Let go of what the other side's low-water mark has passed."""
        if mark == BEGINNING:
            return
        for segment in [s for s in self._segments() if s.low < mark]:
            tuples = pa.concat_tables(self._chunks(segment))
            met = self._met(segment, tuples.num_rows)
            keep = np.zeros(tuples.num_rows, bool) if segment.high < mark else self._kept(tuples, mark)
            if keep.all():
                continue
            # Tuples of no use any more were released when they met their partner.
            leave = ~keep & ~met if self._once else ~keep
            yield self._gone(tuples, met, leave)
            self._rewrite(segment, tuples, met, keep)

    def forget(self, floor: int) -> int:
        """Let go of tuples before a tick of their own attribute, whoever they have met; how many there were."""
        gone, until = 0, min(floor + self._box.band.reach(self._side), END)
        for segment in [s for s in self._segments() if s.low <= until]:
            tuples = pa.concat_tables(self._chunks(segment))
            keep = ticks_of(tuples, self._box.on[self._side]) >= floor
            if not keep.all():
                met = self._met(segment, tuples.num_rows)
                gone += self._gone(tuples, met, ~keep & ~met if self._once else ~keep).released
                self._rewrite(segment, tuples, met, keep)
        return gone

    def store(self, tuples: pa.Table, met: Mask, mark: int) -> Gone:
        """Keep of fresh tuples what can still find a partner; the others."""
        keep = self._kept(tuples, mark)
        if self._once:
            keep &= ~met
        gone = self._gone(tuples, met, ~keep)
        if keep.any():
            rows = np.flatnonzero(keep)
            tuples = tuples if len(rows) == tuples.num_rows else tuples.take(pa.array(rows))
            self._add(tuples, met[rows])
        return gone

    def _until(self, tuples: pa.Table) -> Numbers:
        """The last tick of the other side that a tuple can meet here."""
        until = shifted(ticks_of(tuples, self._box.on[self._side]), self._box.band.reach(self._side))
        if not self._copied:
            return until
        # A copy only meets what lies in its segment.
        length = self._box.segment_ticks
        return np.minimum(until, shifted(tuples.column(SEGMENT).to_numpy() * length, length - 1))

    def _kept(self, tuples: pa.Table, mark: int) -> Mask:
        if mark in (BEGINNING, END):
            return np.full(tuples.num_rows, mark == BEGINNING)
        return self._until(tuples) >= mark

    def _gone(self, tuples: pa.Table, met: Mask, leave: Mask) -> Gone:
        if self._preserved:
            alone = leave & ~met
            return Gone(int(leave.sum()), tuples if alone.all() else tuples.filter(pa.array(alone)))
        if not self._copied:
            return Gone(int(leave.sum()))
        # Of several copies the one in the last segment is let go of last: it is not cut short.
        end = shifted(ticks_of(tuples, self._box.on[self._side]), self._box.band.reach(self._side))
        return Gone(int((leave & (self._until(tuples) == end)).sum()))

    def _add(self, tuples: pa.Table, met: Mask) -> None:
        until = self._until(tuples)
        first, last = int(until.min()), int(until.max())
        lowest = min((s.low for s in self._segments()), default=first)
        pieces = min(PIECES, tuples.num_rows // PIECE_ROWS + 1)
        # Segments are as long as the spread of the batch asks for, and so long that there are never too many of them.
        longest = max((last - first) // pieces, (last - min(first, lowest)) // MOST_SEGMENTS)
        level = min(longest.bit_length(), LAST_LEVEL)
        numbers = until >> np.int64(level)
        if numbers[0] != numbers[-1] or (numbers != numbers[0]).any():
            order = np.argsort(numbers, kind="stable")
            tuples, numbers, met = tuples.take(pa.array(order)), numbers[order], met[order]
        tuples = tuples.combine_chunks()
        for a, b in pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]):
            self._append(Segment(level, int(numbers[a])), tuples.slice(a, b - a), met[a:b])

    def _append(self, segment: Segment, tuples: pa.Table, met: Mask) -> None:
        slot = segment.slot(self._side)
        if met.any() and not self._once:
            before = sum(c.num_rows for c in self._chunks(segment))
            self._note(segment, np.append(self._met(segment, before), met))
        add_chunk(self._slots, slot, TUPLES, tuples)

    def _rewrite(self, segment: Segment, tuples: pa.Table, met: Mask, keep: Mask) -> None:
        if not keep.any():
            self._slots.drop(segment.slot(self._side))
            return
        self._slots.replace(segment.slot(self._side), TUPLES, tuples.filter(pa.array(keep)).combine_chunks())
        if self._slots.count(segment.slot(self._side), MET):
            self._note(segment, met[keep])

    def _met(self, segment: Segment, rows: int) -> Mask:
        """Which of the first `rows` tuples of a slot have met a partner; of those added later nothing is noted yet."""
        met = np.zeros(rows, bool)
        for chunk in self._slots.chunks(segment.slot(self._side), MET) if self._remembers else ():
            noted = np.unpackbits(np.frombuffer(chunk.column(MET)[0].as_buffer(), np.uint8))[:rows]
            met[: len(noted)] = noted
        return met

    def _note(self, segment: Segment, met: Mask) -> None:
        bits = pa.array([np.packbits(met).tobytes()], pa.binary())
        self._slots.replace(segment.slot(self._side), MET, pa.table({MET: bits}))

    def _segments(self) -> list[Segment]:
        return [Segment.of(slot) for slot in self._slots.numbers() if slot % SIDES == self._side]

    def _chunks(self, segment: Segment) -> list[pa.Table]:
        return list(self._slots.chunks(segment.slot(self._side), TUPLES))
