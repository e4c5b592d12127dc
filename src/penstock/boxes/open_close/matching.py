"""Which event each close is about, and what opens and closes make of the events that there are.

```
 of one payload, in order of arrival:   event held      open 7      close 9       close 8
 it is about:                           <1, 4>          <7, ...>    <7, ...>      <7, ...>
 the end before it:                                     infinity    infinity      9
```

As long as every row is about the latest event, that is a matter of looking one row back, for all payloads at once. Only
payloads of which that is not true are looked at again, one row after the other.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.arrays import Mask, Numbers

ALREADY_OPEN: Final = "opens an event while one of its payload is open"
NO_EVENT: Final = "closes an event that does not exist"
SAME_END: Final = "closes an event where it ends already"
_HELD: Final = -1


@dataclass(frozen=True)
class Lives:
    """Events by group; infinity is `END`."""

    groups: Numbers
    starts: Numbers
    ends: Numbers

    def of(self, mask: Mask) -> Lives:
        return Lives(self.groups[mask], self.starts[mask], self.ends[mask])

    def with_others(self, other: Lives) -> Lives:
        pairs = ((self.groups, other.groups), (self.starts, other.starts), (self.ends, other.ends))
        return Lives(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True)
class Matched:
    """What was found of rows: the start of the event that each is about, and its end before."""

    starts: Numbers
    old: Numbers
    refused: dict[int, str]
    events: Lives
    """All events afterwards, those of groups that no row speaks of left out."""


def match(groups: Numbers, opens: Mask, at: Numbers, held: Lives) -> Matched:
    """Match rows in order of arrival to the events of their groups."""
    latest = _latest(held)
    order, entries = _entries(groups, opens, at, latest)
    fitting = _fitting(entries)
    wrong = np.unique(entries.groups[~fitting])
    found = _back(order, entries, len(groups))
    touched = np.unique(groups)
    mine = held.of(np.isin(held.groups, touched) & ~np.isin(held.groups, wrong))
    events = _after(entries, mine, latest, wrong)
    refused: dict[int, str] = {}
    if len(wrong):
        walked, refused = _walk(np.isin(groups, wrong), groups, opens, at, held.of(np.isin(held.groups, wrong)), found)
        events = events.with_others(walked)
    return Matched(*found, refused, events)


@dataclass(frozen=True)
class _Entries:
    """Rows in order of group and arrival, the latest event of the group before them."""

    groups: Numbers
    opens: Mask
    """Where an event begins: at an open, and at the event that was held."""
    held: Mask
    starts: Numbers
    """Of the event that an entry is about."""
    ends: Numbers
    """Of the event after the entry."""
    first: Mask
    """Whether it is the first of its group."""


def _latest(held: Lives) -> Lives:
    """The event of each group that starts last."""
    order = np.lexsort((held.starts, held.groups))
    groups = held.groups[order]
    last = np.append(groups[1:] != groups[:-1], True)[: len(groups)]
    return Lives(groups[last], held.starts[order][last], held.ends[order][last])


def _entries(groups: Numbers, opens: Mask, at: Numbers, latest: Lives) -> tuple[Numbers, _Entries]:
    of = np.isin(latest.groups, groups)
    before = latest.of(of)
    count = len(before.groups)
    all_groups = np.concatenate([before.groups, groups])
    rows = np.concatenate([np.full(count, _HELD), np.arange(len(groups))])
    order = np.lexsort((rows, all_groups))
    begins = np.concatenate([np.ones(count, np.bool_), opens])[order]
    times = np.concatenate([before.starts, at])[order]
    ends = np.concatenate([before.ends, np.where(opens, END, at)])[order]
    sorted_groups = all_groups[order]
    first = np.append(True, sorted_groups[1:] != sorted_groups[:-1])[: len(sorted_groups)]
    # The last entry at or before this one where an event of the group begins.
    place = np.maximum.accumulate(np.where(begins | first, np.arange(len(order)), 0))
    starts = np.where(begins[place], times[place], BEGINNING)
    return rows[order], _Entries(sorted_groups, begins, rows[order] == _HELD, starts, ends, first)


def _fitting(entries: _Entries) -> Mask:
    """Whether each entry is about the latest event, and fits it."""
    ends_before = np.append(END, entries.ends[:-1])[: len(entries.ends)]
    starts_before = np.append(BEGINNING, entries.starts[:-1])[: len(entries.starts)]
    opening = entries.first | ((ends_before <= entries.starts) & (starts_before < entries.starts))
    closing = ~entries.first & (entries.starts != BEGINNING) & (entries.starts < entries.ends)
    closing &= ends_before != entries.ends
    return np.where(entries.opens, opening, closing)


def _back(order: Numbers, entries: _Entries, count: int) -> tuple[Numbers, Numbers]:
    """The start of the event of every row, and its end before, in order of arrival."""
    ends_before = np.append(END, entries.ends[:-1])[: len(entries.ends)]
    starts, old = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rows = ~entries.held
    starts[order[rows]], old[order[rows]] = entries.starts[rows], ends_before[rows]
    return starts, old


def _after(entries: _Entries, held: Lives, latest: Lives, wrong: Numbers) -> Lives:
    """The events of groups in which everything fits: the last entry of each event says how it ends."""
    last = np.append(entries.opens[1:] | entries.first[1:], True)[: len(entries.opens)]
    last &= ~np.isin(entries.groups, wrong)
    now = Lives(entries.groups[last], entries.starts[last], entries.ends[last])
    # The latest event of a group is among the entries; those before it stay as they are.
    newest = latest.starts[np.searchsorted(latest.groups, held.groups)]
    return now.with_others(held.of(held.starts != newest))


class _OfOne:
    """The events of one payload."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: dict[int, int] = {}

    def at(self, time: int) -> int | None:
        """The start of the latest event that does not start after a time."""
        place = bisect_right(self.starts, time)
        return self.starts[place - 1] if place else None


def _walk(
    chosen: Mask, groups: Numbers, opens: Mask, at: Numbers, held: Lives, found: tuple[Numbers, Numbers]
) -> tuple[Lives, dict[int, str]]:
    """Rows of some groups, one after the other; what is found of them is written into `found`."""
    there: dict[int, _OfOne] = {int(group): _OfOne() for group in np.unique(groups[chosen])}
    order = np.argsort(held.starts, kind="stable")
    for group, start, end in zip(*(part[order].tolist() for part in vars(held).values()), strict=True):
        there[group].starts.append(start)
        there[group].ends[start] = end
    refused: dict[int, str] = {}
    starts, old = found
    for row in np.flatnonzero(chosen).tolist():
        events, time = there[int(groups[row])], int(at[row])
        start = events.at(time)
        end = None if start is None else events.ends[start]
        if opens[row]:
            if end is not None and time < end:
                refused[row] = ALREADY_OPEN
            else:
                insort(events.starts, time)
                starts[row], old[row], events.ends[time] = time, END, END
        elif start is None or end is None or end == time:
            refused[row] = NO_EVENT if start is None else SAME_END
        else:
            starts[row], old[row], events.ends[start] = start, end, time
            if start == time:
                del events.starts[bisect_right(events.starts, start) - 1], events.ends[start]
    rows = [(group, start, end) for group, events in there.items() for start, end in events.ends.items()]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return Lives(*(np.array(column, np.int64) for column in columns)), refused
