"""What elements make of the events that there are, and which of them are illegal.

Every element changes how many events there are of a payload, start and end: an insert adds one; an adjust takes one
away, and adds one unless it is a removal. All changes are sorted by event and time and added up at once: where a sum
falls below zero, something was taken away that was not there. Only the events of which that is true, which in a legal
stream are none, are looked at again, one element after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import ADJUST, KIND, VE, VOLD, VS
from penstock.algebra.ticks import END, from_ticks, to_ticks
from penstock.errors import InternalError
from penstock.operators.arrays import Mask, Numbers, ticks_of
from penstock.operators.groups import Groups, number

NO_EVENT: Final = "adjusts an event that does not exist"
TWICE: Final = "inserts an event that exists already, but the input was declared with unique=True"


@dataclass(frozen=True)
class Reckoning:
    """What elements have made of the events that were held."""

    refused: dict[int, str]
    """The illegal elements, by row, and why."""
    untouched: Mask
    """The events held that no element speaks of."""
    events: pa.Table
    """All others, as they are now."""


def ends_of(tuples: pa.Table, attribute: str) -> Numbers:
    """When events end, in ticks; infinity is `END`."""
    return np.asarray(pc.fill_null(to_ticks(tuples.column(attribute)), END).to_numpy(), np.int64)


def reckon(
    held: pa.Table, elements: pa.Table, payload: Sequence[str], *, unique: bool = False, trusted: bool = False
) -> Reckoning:
    """Take elements in order of arrival; `held` are the events that they may speak of.

    Elements that are `trusted` to be legal may come in any order: only what they come to counts. Where events have a
    QoS timestamp, it is that of the first element that spoke of them.
    """
    groups, (of_held, of_elements) = number([held, elements], [*payload, VS])
    touched = np.zeros(groups.count, np.bool_)
    touched[of_elements] = True
    mine = touched[of_held]
    before = _Changes.held(of_held[mine], ends_of(held, VE)[mine])
    work = _Elements(of_elements, elements)
    changes = _Changes.together(before, work.changes())
    wrong = set() if trusted else changes.impossible() | (changes.doubled() if unique else set())
    refused: dict[int, str] = {}
    if wrong:
        refused = work.walk(wrong, before, unique=unique)
        changes = _Changes.together(before, work.changes(without=list(refused)))
    numbers, ends = changes.counted()
    events = _events(groups, numbers, ends, held.schema)
    if ARRIVED in held.column_names:
        first = _first_arrivals(groups.count, (of_held, held), (of_elements, elements))
        events = events.append_column(ARRIVED, pa.array(first[numbers]))
    return Reckoning(refused, ~mine, events.select(held.column_names))


@dataclass(frozen=True)
class _Changes:
    """Changes of the number of events: of which group, with which end, when, and by how many."""

    groups: Numbers
    ends: Numbers
    when: Numbers
    by: Numbers

    @staticmethod
    def held(groups: Numbers, ends: Numbers) -> _Changes:
        """Events that were there before all elements."""
        return _Changes(groups, ends, np.full(len(groups), -1), np.ones(len(groups), np.int64))

    @staticmethod
    def together(*several: _Changes) -> _Changes:
        """In order of group and end, and of time where these are the same."""
        parts = [np.concatenate([getattr(each, name) for each in several]) for name in ("groups", "ends", "when", "by")]
        order = np.lexsort((parts[2], parts[1], parts[0]))
        return _Changes(*(part[order] for part in parts))

    def impossible(self) -> set[int]:
        """The groups of which an event was taken away that was not there."""
        if not len(self.groups):
            return set()
        begins = np.diff(self.groups, prepend=-1).astype(bool) | np.diff(self.ends, prepend=self.ends[0]).astype(bool)
        return set(self.groups[_running(self.by, begins) < 0].tolist())

    def doubled(self) -> set[int]:
        """The groups of which two events were there at a time."""
        order = np.lexsort((self.when, self.groups))
        groups = self.groups[order]
        return set(groups[_running(self.by[order], np.diff(groups, prepend=-1).astype(bool)) > 1].tolist())

    def counted(self) -> tuple[Numbers, Numbers]:
        """Group and end of every event that there is in the end."""
        if not len(self.groups):
            return self.groups, self.ends
        begins = np.diff(self.groups, prepend=-1).astype(bool) | np.diff(self.ends, prepend=self.ends[0]).astype(bool)
        first = np.flatnonzero(begins)
        counts = np.add.reduceat(self.by, first)
        if counts.min() < 0:
            raise InternalError("elements of a temporal stream adjust an event that does not exist")
        return np.repeat(self.groups[first], counts), np.repeat(self.ends[first], counts)


class _Elements:
    """The elements of a batch, as numbers."""

    def __init__(self, groups: Numbers, elements: pa.Table) -> None:
        self._groups = groups
        self._ends, self._old = ends_of(elements, VE), ends_of(elements, VOLD)
        self._adjusts: Mask = pc.equal(elements.column(KIND), ADJUST).to_numpy()
        self._adds: Mask = ~self._adjusts | (self._ends != ticks_of(elements, VS))

    def changes(self, without: Sequence[int] = ()) -> _Changes:
        """What they change, if some of them are left out."""
        adjusts, adds = self._adjusts.copy(), self._adds.copy()
        adjusts[list(without)] = adds[list(without)] = False
        gone, come = np.flatnonzero(adjusts), np.flatnonzero(adds)
        return _Changes(
            np.concatenate([self._groups[gone], self._groups[come]]),
            np.concatenate([self._old[gone], self._ends[come]]),
            np.concatenate([2 * gone, 2 * come + 1]),
            np.concatenate([np.full(len(gone), -1), np.ones(len(come), np.int64)]),
        )

    def walk(self, wrong: set[int], before: _Changes, *, unique: bool) -> dict[int, str]:
        """The illegal elements of some groups. What is illegal changes nothing, so each must be looked at in turn."""
        there: dict[int, Counter[int]] = {group: Counter() for group in wrong}
        for group, end in zip(before.groups.tolist(), before.ends.tolist(), strict=True):
            if group in there:
                there[group][end] += 1
        refused: dict[int, str] = {}
        for row in np.flatnonzero(np.isin(self._groups, list(wrong))).tolist():
            events = there[int(self._groups[row])]
            if self._adjusts[row]:
                if not events[int(self._old[row])]:
                    refused[row] = NO_EVENT
                    continue
                events[int(self._old[row])] -= 1
            elif unique and events.total():
                refused[row] = TWICE
                continue
            if self._adds[row]:
                events[int(self._ends[row])] += 1
        return refused


def _running(changes: Numbers, begins: Mask) -> Numbers:
    """Sums so far, each within what begins together."""
    sums = np.cumsum(changes)
    first = np.flatnonzero(begins)
    base = np.repeat(sums[first] - changes[first], np.diff(np.append(first, len(changes))))
    return sums - base


def _events(groups: Groups, numbers: Numbers, ends: Numbers, schema: pa.Schema) -> pa.Table:
    known = groups.keys.take(pa.array(numbers))
    time = schema.field(VE).type
    infinite = ends == END
    return known.append_column(VE, from_ticks(pa.array(np.where(infinite, 0, ends), mask=infinite), time))


def _first_arrivals(count: int, *tables: tuple[Numbers, pa.Table]) -> Numbers:
    """When the first tuple of every group arrived."""
    first = np.full(count, np.iinfo(np.int64).max)
    for groups, tuples in tables:
        np.minimum.at(first, groups, tuples.column(ARRIVED).to_numpy())
    return first
