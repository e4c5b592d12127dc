"""The entry of Join: picks the columns that are needed, and spreads tuples over segments of time if there are no keys.

It keeps the tuples of the running batch only, as they are: nothing is copied but those of two segments.

```
 segments of 2 * (before + after) ticks     |  segment 4   |  segment 5   |
 the home side, by its own time                     t             t
 the other side, wherever it can meet it      u (u)       u    (u) u
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.hidden import ARRIVED
from penstock.boxes.join.box import SEGMENT, Join
from penstock.operators.arrays import shifted, ticks_of


class JoinEntryOp:
    """Sends the tuples of each side, by the side's name."""

    def __init__(self, box: Join, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._columns = columns_of(box, needed)
        self._gathered: tuple[list[pa.Table], list[pa.Table]] = ([], [])

    def process(self, slot: int, tuples: pa.Table) -> None:
        stamped = [ARRIVED] if ARRIVED in tuples.column_names else []
        self._gathered[slot].append(tuples.select([*self._columns[slot], *stamped]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        for side, gathered in enumerate(self._gathered):
            # Tuples of one side may come with and without a QoS timestamp: from behind a stage, and from the intake.
            for alike in _alike(gathered):
                yield self._box.SIDES[side], alike if self._box.home is None else self._in_segments(side, alike)
            gathered.clear()

    def _in_segments(self, side: int, tuples: pa.Table) -> pa.Table:
        box = self._box
        ticks, length = ticks_of(tuples, box.on[side]), box.segment_ticks
        if side == box.home:
            return tuples.append_column(SEGMENT, pa.array(ticks // length))
        # Left partners of u lie between B - after and B + before, right partners of t between A - before and A + after.
        first = shifted(ticks, -box.band.reach(1 - side)) // length
        last = shifted(ticks, box.band.reach(side)) // length
        again = np.flatnonzero(last > first)
        copies = [tuples.append_column(SEGMENT, pa.array(first))]
        if len(again):
            copies.append(tuples.take(pa.array(again)).append_column(SEGMENT, pa.array(last[again])))
        return pa.concat_tables(copies)


def columns_of(box: Join, needed: Sequence[frozenset[str]]) -> tuple[list[str], list[str]]:
    """The columns of each side that are sent, in the order of its schema."""
    left, right = box.required(needed)
    return [n for n in box.pairing.left.names if n in left], [n for n in box.pairing.right.names if n in right]


def _alike(tables: list[pa.Table]) -> Iterator[pa.Table]:
    for stamped in (False, True):
        found = [t for t in tables if (ARRIVED in t.column_names) == stamped]
        if found:
            yield pa.concat_tables(found)
