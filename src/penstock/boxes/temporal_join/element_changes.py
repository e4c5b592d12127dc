"""What elements change: which events there are more of after them, and which fewer. Illegal elements are refused.

```
 insert(p, Vs, Ve)          one more of <p, Vs, Ve>
 adjust(p, Vs, Vold, Ve)    one less of <p, Vs, Vold>, one more of <p, Vs, Ve>; of none more if Ve is Vs
```

An adjust takes an event that must be there: held, or made by an element before it. For each event the takes and gives
of a batch are added up in order of arrival, all at once; where the sum falls below nothing, an element took what was
not there. The elements of that payload and start, and only those, are then looked at one after the other: refusing
one takes away what it would have given, and so decides on those behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import END, out_of_range, to_ticks
from penstock.boxes.temporal_join.events import COUNT, START, STOP, added_up, event_schema, numbers_of
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import group_numbers
from penstock.operators.matching_rows import rows_among, taken

NO_KIND: Final = "kind is neither insert nor adjust"
OUT_OF_RANGE: Final = "a time is out of range"
NO_START: Final = "an event has no start"
WRONG_SYNC: Final = "sync is not the earliest time that the element speaks of"
NO_LIFETIME: Final = "an event does not end after it starts"
NOT_THERE: Final = "it adjusts an event that is not there"
FINE: Final = ""


@dataclass(frozen=True)
class Changes:
    """What the elements of a batch come to."""

    events: pa.Table
    """How many more or fewer there are of each event."""
    refused: pa.Table
    """Elements that may not be."""
    reasons: pa.Array
    """Why, for each of them."""


def changes(elements: pa.Table, payload: pa.Schema, near: Callable[[pa.Table], pa.Table]) -> Changes:
    """What elements in order of arrival come to; `near` finds what is held that some of them may adjust."""
    ticks = _Ticks.of(elements)
    reasons = ticks.faults(elements)
    takes = pc.equal(elements.column(KIND), ADJUST).fill_null(False).to_numpy() & (reasons == FINE)
    if takes.any():
        reasons[_takers_of_nothing(elements, ticks, takes, reasons == FINE, payload, near)] = NOT_THERE
    fine = reasons == FINE
    takers, givers = np.flatnonzero(takes & fine), np.flatnonzero(fine & (ticks.stop != ticks.start))
    less = _events(elements, payload, takers, ticks.start, ticks.old, -1)
    more = _events(elements, payload, givers, ticks.start, ticks.stop, 1)
    refused = np.flatnonzero(~fine)
    return Changes(
        added_up(pa.concat_tables([less, more]), payload.names),
        elements.take(pa.array(refused)),
        pa.array(reasons[refused], pa.string()),
    )


@dataclass(frozen=True)
class _Ticks:
    """The times of elements; infinity is `END`, and so is what is not there."""

    sync: Numbers
    start: Numbers
    stop: Numbers
    old: Numbers

    @staticmethod
    def of(elements: pa.Table) -> _Ticks:
        columns = (to_ticks(elements.column(name), wrap=True) for name in (SYNC, VS, VE, VOLD))
        return _Ticks(*(np.asarray(pc.fill_null(column, END).to_numpy(), np.int64) for column in columns))

    def faults(self, elements: pa.Table) -> np.ndarray:
        """Why each element may not be, as far as it tells itself."""
        kind = elements.column(KIND)
        inserts, adjusts = (pc.equal(kind, each).fill_null(False).to_numpy() for each in (INSERT, ADJUST))
        earliest = np.where(inserts, self.start, np.minimum(self.old, self.stop))
        far: Mask = np.zeros(len(self.sync), bool)
        for name in (VS, VE, VOLD):
            column = elements.column(name)
            far |= pc.fill_null(out_of_range(to_ticks(column, wrap=True), column.type), False).to_numpy()
        faults = [
            (~(inserts | adjusts), NO_KIND),
            (far, OUT_OF_RANGE),
            (elements.column(VS).is_null().to_numpy(), NO_START),
            (self.sync != earliest, WRONG_SYNC),
            (np.where(inserts, self.stop <= self.start, self.stop < self.start), NO_LIFETIME),
        ]
        return np.select([fault for fault, _ in faults], [reason for _, reason in faults], FINE).astype(object)


def _takers_of_nothing(
    elements: pa.Table,
    ticks: _Ticks,
    takes: Mask,
    fine: Mask,
    payload: pa.Schema,
    near: Callable[[pa.Table], pa.Table],
) -> Numbers:
    """The rows of adjusts whose event is not there when they come."""
    gives = fine & (ticks.stop != ticks.start)
    takers, givers = np.flatnonzero(takes), np.flatnonzero(gives)
    wanted = _events(elements, payload, takers, ticks.start, ticks.old, -1)
    held, family = near(wanted), [*payload.names, START]
    held = taken(held, rows_among(held, wanted, family))
    together = pa.concat_tables([held, wanted, _events(elements, payload, givers, ticks.start, ticks.stop, 1)])
    families = group_numbers(together, family)
    events = group_numbers(pa.table({"family": families, STOP: together.column(STOP)}), ["family", STOP])
    # What is held comes first; an element takes before it gives.
    when = np.concatenate([np.full(held.num_rows, -1), 2 * takers, 2 * givers + 1])
    order = np.lexsort((when, events))
    counts, places = numbers_of(together, COUNT)[order], events[order]
    sums = np.cumsum(counts)
    first = np.flatnonzero(np.diff(places, prepend=-1))
    sums -= np.repeat(sums[first] - counts[first], np.diff(np.append(first, len(sums))))
    # Rows of one event that are held at once add up to what there is, whatever their order.
    short = (sums < 0) & (when[order] >= 0)
    if not short.any():
        return np.zeros(0, np.int64)
    troubled = np.isin(families, families[order][short])
    return _one_by_one(
        events[: held.num_rows][troubled[: held.num_rows]],
        numbers_of(held, COUNT)[troubled[: held.num_rows]],
        _at(takers, events[held.num_rows :], troubled[held.num_rows :]),
        _at(givers, events[held.num_rows + len(takers) :], troubled[held.num_rows + len(takers) :]),
    )


def _at(rows: Numbers, events: Numbers, troubled: Mask) -> dict[int, int]:
    """The event of each of some rows, where there is trouble."""
    size = len(rows)
    keep = troubled[:size]
    return dict(zip(rows[keep].tolist(), events[:size][keep].tolist(), strict=True))


def _one_by_one(events: Numbers, counts: Numbers, takes: dict[int, int], gives: dict[int, int]) -> Numbers:
    """The rows that take what is not there, each judged by those before it."""
    there: dict[int, int] = {}
    for event, count in zip(events.tolist(), counts.tolist(), strict=True):
        there[event] = there.get(event, 0) + count
    refused = []
    for row in sorted({*takes, *gives}):
        if row in takes:
            if there.get(takes[row], 0) < 1:
                refused.append(row)
                continue
            there[takes[row]] -= 1
        if row in gives:
            there[gives[row]] = there.get(gives[row], 0) + 1
    return np.array(refused, np.int64)


def _events(
    elements: pa.Table, payload: pa.Schema, rows: Numbers, start: Numbers, stop: Numbers, count: int
) -> pa.Table:
    """So many of the event of each of some elements."""
    some = elements.select([*payload.names, ARRIVED]).take(pa.array(rows))
    own = {START: start[rows], STOP: stop[rows], COUNT: np.full(len(rows), count)}
    columns = {name: some.column(name) for name in some.column_names} | own
    schema = event_schema(payload)
    return pa.table([columns[name] for name in schema.names], schema=schema)
