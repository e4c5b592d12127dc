"""Which tuples of two tables are partners: the predicate, and the band on their ticks.

DuckDB hashes what the predicate equates and compares the rest. A hash table that outgrows the cache, with partners from
all of a long train in it, is slow: so many tuples are taken by slices of time, each with what the band lets it meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.boxes.join.box import SEGMENT, Join
from penstock.operators.arrays import Numbers, shifted, ticks_of

SLICE_ROWS: Final = 1 << 19
"""Tuples of both sides that are matched at once: over ten million, 2^18 to 2^20 are about alike, 2^22 takes twice as
long."""
BLOCK_ROWS: Final = 1 << 15
"""Tuples whose times are summed up as one smallest and one largest, to find a slice without looking at all."""


class Matcher:
    """Finds partners; row numbers stand for tuples."""

    def __init__(self, box: Join) -> None:
        self._box = box
        predicate = box.pairing.predicate
        used = predicate.columns if predicate is not None else ()
        self._used = [[(box.pairing.side_of(n)[1], n) for n in used if box.pairing.side_of(n)[0] == s] for s in (0, 1)]
        if box.home is not None:
            self._used = [[*columns, (SEGMENT, f"#segment{s}")] for s, columns in enumerate(self._used)]
        # What can be said as an equality is hashed.
        conditions = ['"#tick1" = "#first"'] if box.band.width == 0 else ['"#tick1" >= "#first"', '"#tick1" <= "#last"']
        conditions += ['"#segment0" = "#segment1"'] if box.home is not None else []
        conditions += [f"({predicate.sql})"] if predicate is not None else []
        self._where = " AND ".join(conditions)

    def pairs(self, left: pa.Table, right: pa.Table) -> Iterator[tuple[Numbers, Numbers]]:
        """Row numbers of partners, left and right."""
        for found in self._run('SELECT "#row0" AS l, "#row1" AS r FROM l JOIN r ON', left, right):
            yield found.column("l").to_numpy(), found.column("r").to_numpy()

    def met(self, left: pa.Table, right: pa.Table) -> Iterator[Numbers]:
        """Row numbers of the left tuples that have any partner, each once, ascending."""
        # Not as a SEMI JOIN: DuckDB may do that by merging ranges, and then loses NULLs of the predicate (2.0.0).
        for found in self._run('SELECT DISTINCT "#row0" AS l FROM l JOIN r ON', left, right):
            yield np.sort(found.column("l").to_numpy())

    def _run(self, select: str, left: pa.Table, right: pa.Table) -> Iterator[pa.Table]:
        if not left.num_rows or not right.num_rows:
            return
        band, on = self._box.band, self._box.on
        sides = [self._columns(side, tuples) for side, tuples in enumerate((left, right))]
        times = [_Times(ticks_of(tuples, on[side])) for side, tuples in enumerate((left, right))]
        first, last = times[0].first, times[0].last
        length = max((last - first) // max(1, (left.num_rows + right.num_rows) // SLICE_ROWS) + 1, band.width)
        for start in range(first, last + 1, length):
            end = min(start + length - 1, last)
            rows = times[0].between(start, end), times[1].between(start - band.before, end + band.after)
            if not all(len(r) for r in rows):
                continue
            tables = {name: self._slice(side, sides[side], times[side], rows[side]) for side, name in enumerate("lr")}
            found = kernel.run(f"{select} {self._where}", **tables)
            if found.num_rows:
                yield found

    def _columns(self, side: int, tuples: pa.Table) -> dict[str, pa.ChunkedArray]:
        """What the predicate uses of a side, under the names that it uses, in one piece."""
        used = self._used[side]
        whole = tuples.select([column for column, _ in used]).combine_chunks()
        return {name: whole.column(i) for i, (_, name) in enumerate(used)}

    def _slice(self, side: int, columns: dict[str, pa.ChunkedArray], times: _Times, rows: Numbers) -> pa.Table:
        """Rows of one side, with their numbers, and their ticks or those that their partners can have."""
        band, ticks = self._box.band, times.ticks
        if len(rows) < len(ticks):
            columns, ticks = {name: c.take(pa.array(rows)) for name, c in columns.items()}, ticks[rows]
        bounds = (
            {"#tick1": ticks} if side else {"#first": shifted(ticks, -band.before), "#last": shifted(ticks, band.after)}
        )
        return pa.table({**columns, f"#row{side}": rows, **bounds})


class _Times:
    """The ticks of tuples, and the extremes of every block of them."""

    def __init__(self, ticks: Numbers) -> None:
        self.ticks = ticks
        starts = np.arange(0, len(ticks), BLOCK_ROWS)
        self._low, self._high = np.minimum.reduceat(ticks, starts), np.maximum.reduceat(ticks, starts)
        self.first, self.last = int(self._low.min()), int(self._high.max())

    def between(self, first: int, last: int) -> Numbers:
        """The rows from tick `first` to `last`, in their order."""
        if first <= self.first and last >= self.last:
            return np.arange(len(self.ticks))
        blocks = np.flatnonzero((self._high >= first) & (self._low <= last))
        if not len(blocks):
            return np.zeros(0, np.int64)
        start = int(blocks[0]) * BLOCK_ROWS
        ticks = self.ticks[start : (int(blocks[-1]) + 1) * BLOCK_ROWS]
        return np.flatnonzero((ticks >= first) & (ticks <= last)) + start
