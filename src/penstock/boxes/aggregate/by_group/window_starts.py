"""Where the windows of rows start, for many groups at once.

A row is a group and a tick on the axis of its windows: a value of the window attribute, or a tuple number. A window is
closed when its start is not above the *limit* of its group, and open otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.aggregate.group_windows import NO_WINDOWS, Windows
from penstock.operators.arrays import Numbers, ranged


class Starts(ABC):
    """The windows of all groups."""

    size: int

    @abstractmethod
    def closed(self, groups: Numbers, ticks: Numbers, before: Numbers, limit: Numbers) -> Windows:
        """The windows that rows lie in, and that were open at the limit `before`; limits are by group."""

    @abstractmethod
    def open(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Windows:
        """The open windows that rows lie in."""

    @abstractmethod
    def count(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Numbers:
        """In how many open windows each row lies."""

    @abstractmethod
    def lowest(self, groups: Numbers, ticks: Numbers, limit: Numbers, without: Windows) -> Numbers:
        """The start of the first open window that each row lies in, of those that are not `without`; or `END`."""

    @abstractmethod
    def number(self, groups: Numbers, ticks: Numbers, limit: Numbers, of: Numbers, slots: int) -> Numbers:
        """How many open windows hold rows, for each slot; `of` is the slot of each row."""

    def aligned(self, groups: Numbers, ticks: Numbers) -> Numbers:
        """One tick for all that lie in the same windows."""
        return ticks


class PeriodicStarts(Starts):
    """Windows every `advance` ticks from the origin of the group; `bounded`: none of them before it."""

    def __init__(self, window: Window, origins: Numbers, *, bounded: bool) -> None:
        self.size = window.size
        self._advance = window.advance
        self._pane = window.pane
        self._origins = origins
        self._bounded = bounded

    def closed(self, groups: Numbers, ticks: Numbers, before: Numbers, limit: Numbers) -> Windows:
        first, last = self._open_span(groups, ticks, before)
        return self._spelled(groups, first, np.minimum(last, self._step(groups, limit, first, last)))

    def open(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Windows:
        return self._spelled(groups, *self._open_span(groups, ticks, limit))

    def count(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Numbers:
        first, last = self._open_span(groups, ticks, limit)
        number: Numbers = np.maximum((last - first) // self._advance + 1, 0)
        return number

    def lowest(self, groups: Numbers, ticks: Numbers, limit: Numbers, without: Windows) -> Numbers:
        first, last = self._open_span(groups, ticks, limit)
        while len(without):
            place, behind = without.around(groups, first, 1)
            gone = (behind > place) & (first <= last)
            if not gone.any():
                break
            first = np.where(gone, first + self._advance, first)
        return np.where(first <= last, first, END)

    def number(self, groups: Numbers, ticks: Numbers, limit: Numbers, of: Numbers, slots: int) -> Numbers:
        first, last = self._open_span(groups, ticks, limit)
        some = first <= last
        groups, first, last, of = groups[some], first[some], last[some], of[some]
        order = np.lexsort((last, first, groups))
        groups, first, last, of = groups[order], first[order], last[order], of[order]
        # In order of their first window, rows of a group add those behind the last one of the rows before.
        fresh = last - first + self._advance
        if len(groups):
            same = groups[1:] == groups[:-1]
            fresh[1:] = np.where(same, np.minimum(fresh[1:], last[1:] - last[:-1]), fresh[1:])
        return np.bincount(of, weights=np.maximum(fresh, 0) // self._advance, minlength=slots).astype(np.int64)

    def aligned(self, groups: Numbers, ticks: Numbers) -> Numbers:
        return ticks - (ticks - self._origins[groups]) % self._pane

    def _span(self, groups: Numbers, ticks: Numbers) -> tuple[Numbers, Numbers]:
        """The first and the last start of the windows of each row; there are none where the first is larger."""
        origins = self._origins[groups]
        away = ticks - origins
        first = (away - self.size) // self._advance + 1
        first = np.maximum(first, 0) if self._bounded else first
        return origins + first * self._advance, origins + away // self._advance * self._advance

    def _open_span(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> tuple[Numbers, Numbers]:
        first, last = self._span(groups, ticks)
        return np.maximum(first, self._step(groups, limit, first, last) + self._advance), last

    def _step(self, groups: Numbers, limit: Numbers, first: Numbers, last: Numbers) -> Numbers:
        """The last start that is not above the limit. Limits may be infinite: near the rows is enough."""
        if not len(groups):
            return groups
        near = np.clip(limit[groups], int(first.min()) - self._advance, int(last.max()))
        origins = self._origins[groups]
        return origins + (near - origins) // self._advance * self._advance

    def _spelled(self, groups: Numbers, first: Numbers, last: Numbers) -> Windows:
        rows, steps = ranged(np.zeros(len(groups), np.int64), (last - first) // self._advance + 1)
        return Windows.of(groups[rows], first[rows] + steps * self._advance)


class OpenedStarts(Starts):
    """Windows that were opened one by one."""

    def __init__(self, size: int, opened: Windows) -> None:
        self.size = size
        self._opened = opened

    def closed(self, groups: Numbers, ticks: Numbers, before: Numbers, limit: Numbers) -> Windows:
        # Every window holds the tuple that has opened it.
        return self._opened.only(self._opened.starts <= limit[self._opened.groups])

    def open(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Windows:
        alive = self._alive(limit)
        _, places = ranged(*alive.around(groups, ticks, self.size))
        return Windows(alive.groups[places := np.unique(places)], alive.starts[places])

    def count(self, groups: Numbers, ticks: Numbers, limit: Numbers) -> Numbers:
        first, behind = self._alive(limit).around(groups, ticks, self.size)
        return behind - first

    def lowest(self, groups: Numbers, ticks: Numbers, limit: Numbers, without: Windows) -> Numbers:
        alive = self._alive(limit).minus(without)
        first, behind = alive.around(groups, ticks, self.size)
        starts = np.append(alive.starts, END)
        return np.where(behind > first, starts[first], END)

    def number(self, groups: Numbers, ticks: Numbers, limit: Numbers, of: Numbers, slots: int) -> Numbers:
        found = self.open(groups, ticks, limit)
        slot_of = np.zeros(len(limit), np.int64)
        slot_of[groups] = of
        return np.bincount(slot_of[found.groups], minlength=slots).astype(np.int64)

    def _alive(self, limit: Numbers) -> Windows:
        return self._opened.only(self._opened.starts > limit[self._opened.groups]) if len(self._opened) else NO_WINDOWS


def limits(reached: Numbers, size: int) -> Numbers:
    """The last start that is closed when every group has reached a tick: infinities stay what they are.

    >>> limits(np.array([10, BEGINNING, END]), 3).tolist() == [7, BEGINNING, END]
    True
    """
    moved = np.where(reached > BEGINNING + size, reached - size, BEGINNING)
    return np.where(reached == END, END, moved)
