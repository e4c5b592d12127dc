"""How pairs change when events do: what there are more and fewer of, and the elements that say so.

With A0 and B0 as they were, and dA and dB as what has changed, the pairs change by dA with B0 + dB, and by A0 with dB:
counts are multiplied, and those of equal pairs added up, so that what comes and goes in one batch is not seen.

```
 of one payload and Vs       fewer with the ends    6  8          more with the ends    7
 elements                    adjust from 6 to 7, and 8 is removed
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import END
from penstock.boxes.temporal_join.box import TemporalJoin
from penstock.boxes.temporal_join.events import COUNT, START, STOP, numbers_of, times
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_numbers

ROW: Final = "#row"


class PairChanges:
    """Finds the elements of pairs."""

    def __init__(self, box: TemporalJoin) -> None:
        self._box = box
        predicate = box.pairing.predicate
        used = [box.pairing.side_of(name) for name in (predicate.columns if predicate is not None else ())]
        self._used = [[column for of, column in used if of == side] for side in (0, 1)]
        both_valid = '"#vs0" < "#ve1" AND "#vs1" < "#ve0"'
        condition = f"({predicate.sql}) AND {both_valid}" if predicate is not None else both_valid
        self._match = f'SELECT "{ROW}0" AS l, "{ROW}1" AS r FROM l JOIN r ON {condition}'
        self._payloads = box.pairing.left.names, box.pairing.right.names

    def elements(self, held: Sequence[pa.Table], fresh: Sequence[pa.Table]) -> pa.Table | None:
        """What to say of pairs: `held` is what was there of both sides, `fresh` what has changed."""
        sides = [pa.concat_tables([fresh[side], held[side]]).combine_chunks() for side in (0, 1)]
        cuts = [table.num_rows for table in fresh]
        # Changes of the left side meet all of the right one; what was there on the left meets changes of the right.
        parts = [
            self._matched(sides, (slice(0, cuts[0]), slice(0, sides[1].num_rows))),
            self._matched(sides, (slice(cuts[0], sides[0].num_rows), slice(0, cuts[1]))),
        ]
        left, right = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        if not len(left):
            return None
        start = np.maximum(numbers_of(sides[0], START)[left], numbers_of(sides[1], START)[right])
        stop = np.minimum(numbers_of(sides[0], STOP)[left], numbers_of(sides[1], STOP)[right])
        counts = numbers_of(sides[0], COUNT)[left] * numbers_of(sides[1], COUNT)[right]
        equal = [self._equal(side, sides[side], rows) for side, rows in enumerate((left, right))]
        families = group_numbers(pa.table({"l": equal[0], "r": equal[1], START: start}), ["l", "r", START])
        events = group_numbers(pa.table({"family": families, STOP: stop}), ["family", STOP])
        totals = np.zeros(int(events.max()) + 1, np.int64)
        np.add.at(totals, events, counts)
        _, first = np.unique(events, return_index=True)
        fewer, more = (self._spelled(totals * sign, first, families, stop) for sign in (-1, 1))
        adjusted, partners = _partners(families[fewer], families[more])
        single = np.ones(len(fewer), bool), np.ones(len(more), bool)
        single[0][adjusted], single[1][partners] = False, False
        removed, inserted = fewer[single[0]], more[single[1]]
        if not len(adjusted) + len(removed) + len(inserted):
            return None
        rows = np.concatenate([fewer[adjusted], removed, inserted])
        old = np.concatenate([stop[fewer[adjusted]], stop[removed], np.full(len(inserted), END)])
        new = np.concatenate([stop[more[partners]], start[removed], stop[inserted]])
        arrived = [numbers_of(sides[side], ARRIVED)[found] for side, found in enumerate((left, right))]
        return self._said(
            [sides[0].take(pa.array(left[rows])), sides[1].take(pa.array(right[rows]))],
            start[rows],
            old,
            new,
            np.arange(len(rows)) >= len(rows) - len(inserted),
            np.minimum(*arrived)[rows],
        )

    def _matched(self, sides: Sequence[pa.Table], parts: tuple[slice, slice]) -> tuple[Numbers, Numbers]:
        """Rows of both sides, of those in some parts, that satisfy the predicate and are valid together."""
        if any(part.stop <= part.start for part in parts):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        tables = {name: self._shown(side, sides[side], parts[side]) for side, name in enumerate("lr")}
        found = kernel.run(self._match, **tables)
        left, right = found.column("l").to_numpy(), found.column("r").to_numpy()
        order = np.lexsort((right, left))
        return left[order], right[order]

    def _shown(self, side: int, events: pa.Table, part: slice) -> pa.Table:
        """What the kernel sees of events, under the names that the predicate uses."""
        columns = {self._box.pairing.inside(side, c): events.column(c) for c in dict.fromkeys(self._used[side])}
        columns |= {f"{name}{side}": events.column(name) for name in (START, STOP)}
        columns[f"{ROW}{side}"] = pa.array(np.arange(events.num_rows))
        return pa.table(columns).slice(part.start, part.stop - part.start)

    def _equal(self, side: int, events: pa.Table, rows: Numbers) -> Numbers:
        """A number for the payload of each row, the same for equal ones."""
        found, places = np.unique(rows, return_inverse=True)
        return group_numbers(events.take(pa.array(found)), self._payloads[side])[places]

    def _spelled(self, totals: Numbers, first: Numbers, families: Numbers, stop: Numbers) -> Numbers:
        """A row for each single event of which there are more than none, by family and end."""
        rows = np.repeat(first, np.maximum(totals, 0))
        return rows[np.lexsort((stop[rows], families[rows]))]

    def _said(
        self, sides: Sequence[pa.Table], start: Numbers, old: Numbers, new: Numbers, inserts: Numbers, arrived: Numbers
    ) -> pa.Table:
        box, kind = self._box, self._box.time
        columns = {name: sides[side].column(column) for name, side, column in box.pairing.columns}
        columns |= {
            SYNC: times(np.where(inserts, start, np.minimum(old, new)), kind),
            KIND: pa.array(np.where(inserts, INSERT, ADJUST), pa.string()),
            VS: times(start, kind),
            VE: times(new, kind),
            VOLD: times(old, kind),
            ARRIVED: pa.array(arrived),
        }
        schema = box.schema(0).append(pa.field(ARRIVED, pa.int64()))
        return pa.table([columns[name] for name in schema.names], schema=schema)


def _partners(fewer: Numbers, more: Numbers) -> tuple[Numbers, Numbers]:
    """Places of both that are partners: the first of each family, the second, and so on. Both are sorted.

    >>> [places.tolist() for places in _partners(np.array([1, 1, 4]), np.array([1, 3, 4, 4]))]
    [[0, 2], [0, 2]]
    """
    ranks = np.arange(len(fewer)) - np.searchsorted(fewer, fewer)
    places = np.searchsorted(more, fewer) + ranks
    there = places < np.searchsorted(more, fewer, side="right")
    return np.flatnonzero(there), places[there]
