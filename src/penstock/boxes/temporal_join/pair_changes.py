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
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import END
from penstock.boxes.temporal_join.box import TemporalJoin
from penstock.boxes.temporal_join.events import COUNT, START, STOP, numbers_of, times
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import group_numbers
from penstock.operators.matching_rows import taken

ROW: Final = "#row"
NARROW: Final = (START, STOP, COUNT, ARRIVED)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of rows of both sides: when they are valid, and how many more or fewer there are."""

    left: Numbers
    right: Numbers
    start: Numbers
    stop: Numbers
    count: Numbers
    arrived: Numbers

    @staticmethod
    def of(left: Numbers, right: Numbers, sides: Sequence[pa.Table]) -> _Pairs:
        (starts, stops, counts, arrived) = (
            (numbers_of(sides[0], name)[left], numbers_of(sides[1], name)[right]) for name in NARROW
        )
        return _Pairs(left, right, np.maximum(*starts), np.minimum(*stops), counts[0] * counts[1], np.minimum(*arrived))


class PairChanges:
    """Finds the elements of pairs."""

    def __init__(self, box: TemporalJoin) -> None:
        self._box = box
        predicate = box.pairing.predicate
        used = [box.pairing.side_of(name) for name in (predicate.columns if predicate is not None else ())]
        self._used = [list(dict.fromkeys(column for of, column in used if of == side)) for side in (0, 1)]
        both_valid = f'"{START}0" < "{STOP}1" AND "{START}1" < "{STOP}0"'
        condition = f"({predicate.sql}) AND {both_valid}" if predicate is not None else both_valid
        self._match = f'SELECT "{ROW}0" AS l, "{ROW}1" AS r FROM l JOIN r ON {condition}'
        self._payloads = box.pairing.left.names, box.pairing.right.names

    def elements(self, held: Sequence[pa.Table], fresh: Sequence[pa.Table]) -> pa.Table | None:
        """What to say of pairs: `held` is what was there of both sides, `fresh` what has changed."""
        sides = [pa.concat_tables([fresh[side], held[side]]) for side in (0, 1)]
        pairs = self._changed(sides, [table.num_rows for table in fresh])
        if not len(pairs.left):
            return None
        found = [self._payload(side, sides[side], rows) for side, rows in enumerate((pairs.left, pairs.right))]
        payloads, (left, right) = [rows for rows, _ in found], [numbers for _, numbers in found]
        equal = [group_numbers(rows, names) for rows, names in zip(payloads, self._payloads, strict=True)]
        same = {"l": equal[0][left], "r": equal[1][right], START: pairs.start}
        families = group_numbers(pa.table(same), list(same))
        fewer, more = _fewer_and_more(families, pairs)
        adjusted, partners = _partners(families[fewer], families[more])
        removed, inserted = np.delete(fewer, adjusted), np.delete(more, partners)
        rows = np.concatenate([fewer[adjusted], removed, inserted])
        if not len(rows):
            return None
        old = np.concatenate([pairs.stop[fewer[adjusted]], pairs.stop[removed], np.full(len(inserted), END)])
        new = np.concatenate([pairs.stop[more[partners]], pairs.start[removed], pairs.stop[inserted]])
        said = [payloads[0].take(pa.array(left[rows])), payloads[1].take(pa.array(right[rows]))]
        inserts = np.arange(len(rows)) >= len(rows) - len(inserted)
        return self._said(said, pairs.start[rows], old, new, inserts, pairs.arrived[rows])

    def _changed(self, sides: Sequence[pa.Table], fresh: Sequence[int]) -> _Pairs:
        """The pairs of which there are more or fewer; what has changed of a side are its first rows."""
        narrow = [
            sides[side].select([*dict.fromkeys((*self._used[side], *NARROW))]).combine_chunks() for side in (0, 1)
        ]
        sizes = [table.num_rows for table in sides]
        # Changes of the left side meet all of the right one; what was there on the left meets changes of the right.
        parts = [
            self._matched(narrow, (slice(0, fresh[0]), slice(0, sizes[1]))),
            self._matched(narrow, (slice(fresh[0], sizes[0]), slice(0, fresh[1]))),
        ]
        left, right = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        return _Pairs.of(left, right, narrow)

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
        columns = {self._box.pairing.inside(side, name): events.column(name) for name in self._used[side]}
        columns |= {f"{name}{side}": events.column(name) for name in (START, STOP)}
        columns[f"{ROW}{side}"] = pa.array(np.arange(events.num_rows))
        return pa.table(columns).slice(part.start, part.stop - part.start)

    def _payload(self, side: int, events: pa.Table, rows: Numbers) -> tuple[pa.Table, Numbers]:
        """The payloads of some rows, those that occur several times once; and for each row which of them it has."""
        found, places = np.unique(rows, return_inverse=True)
        return taken(events.select([*self._payloads[side], COUNT]), found), places

    def _said(
        self, sides: Sequence[pa.Table], start: Numbers, old: Numbers, new: Numbers, inserts: Mask, arrived: Numbers
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


def _fewer_and_more(families: Numbers, pairs: _Pairs) -> tuple[Numbers, Numbers]:
    """A row for each single pair of which there are fewer, and for each of which there are more; by family and end."""
    events = group_numbers(pa.table({"family": families, STOP: pairs.stop}), ["family", STOP])
    _, first = np.unique(events, return_index=True)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, events, pairs.count)
    fewer, more = (np.repeat(first, np.maximum(sign * totals, 0)) for sign in (-1, 1))
    fewer, more = (rows[np.lexsort((pairs.stop[rows], families[rows]))] for rows in (fewer, more))
    return fewer, more


def _partners(fewer: Numbers, more: Numbers) -> tuple[Numbers, Numbers]:
    """Places of both that are partners: the first of each family, the second, and so on. Both are sorted.

    >>> [places.tolist() for places in _partners(np.array([1, 1, 4]), np.array([1, 3, 4, 4]))]
    [[0, 2], [0, 2]]
    """
    ranks = np.arange(len(fewer)) - np.searchsorted(fewer, fewer)
    places = np.searchsorted(more, fewer) + ranks
    there = places < np.searchsorted(more, fewer, side="right")
    return np.flatnonzero(there), places[there]
