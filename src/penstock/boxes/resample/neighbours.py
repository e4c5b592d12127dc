"""Which tuples of one stream lie around which of another in time, found without comparing them in pairs.

Left tuples are sorted by time, right ones by group and time. The left tuples within `size` of a right one are then
neighbours, and both ends of their range only rise along a group. So every window that is not empty is met exactly
once: at its first right tuple, with those left tuples that the right tuple before does not reach; and once more at its
last one, with those that the next does not reach.

```
 left            1    2    3    4    5    6
 right  u0       [---------)                     u0 is the first of windows 1 2 and the last of window 1
        u1            [---------)                u1 is the first of window 3    and the last of windows 2 3
        u2                           [----)      u2 is the first of window 5    and the last of window 5
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.arrays import Numbers


def later(ticks: Numbers, size: int) -> Numbers:
    """`ticks + size`, but never beyond the last tick."""
    return np.minimum(ticks, END - size) + size


def earlier(ticks: Numbers, size: int) -> Numbers:
    """`ticks - size`, but never before the first tick."""
    return np.maximum(ticks, BEGINNING + size) - size


def horizon(ticks: Numbers, size: int) -> Numbers:
    """The last tick of the windows around these: complete when it is below a low-water mark, and always at `END`."""
    return np.minimum(ticks, END - 1 - size) + size


@dataclass(frozen=True)
class Windows:
    """Windows that are not empty, by group and then by left tuple."""

    left: Numbers
    """The left tuple that each is around."""
    first: Numbers
    """The first right tuple in it."""
    last: Numbers
    """The last right tuple in it."""


@dataclass(frozen=True)
class Reach:
    """For every right tuple, in the order of their groups, the left tuples `begin <= i < end` whose windows hold it."""

    begin: Numbers
    end: Numbers
    groups: Numbers

    def windows(self, low: int, high: int) -> Windows:
        """The windows around the left tuples `low <= i < high`.

        >>> reach = Reach(np.array([0, 1, 4]), np.array([2, 3, 5]), np.zeros(3, np.int64))
        >>> found = reach.windows(0, 6)
        >>> found.left.tolist(), found.first.tolist(), found.last.tolist()
        ([0, 1, 2, 4], [0, 0, 1, 2], [0, 1, 1, 2])
        """
        begin, end = np.clip(self.begin, low, high), np.clip(self.end, low, high)
        beside = self.groups[1:] == self.groups[:-1]
        start = begin.copy()
        start[1:] = np.maximum(begin[1:], np.where(beside, end[:-1], low))
        opened = np.maximum(end - start, 0)
        stop = end.copy()
        stop[:-1] = np.minimum(end[:-1], np.where(beside, begin[1:], high))
        closed = np.maximum(stop - begin, 0)
        right = np.arange(len(begin))
        places = np.cumsum(opened) - opened
        left = np.arange(int(opened.sum())) + np.repeat(start - places, opened)
        return Windows(left, np.repeat(right, opened), np.repeat(right, closed))

    def pieces(self, most: int) -> Iterator[tuple[int, int]]:
        """Ranges of left tuples, ascending, with about `most` windows around them each."""
        beside = self.groups[1:] == self.groups[:-1]
        start = self.begin.copy()
        start[1:] = np.maximum(start[1:], np.where(beside, self.end[:-1], 0))
        total = int(np.maximum(self.end - start, 0).sum())
        if total:
            low, high = int(self.begin.min()), int(self.end.max())
            cuts = np.linspace(low, high, -(-total // most) + 1).astype(np.int64).tolist()
            yield from ((a, b) for a, b in pairwise(cuts) if a < b)


def reach(left: Numbers, right: Numbers, groups: Numbers, size: int, since: Numbers, until: Numbers) -> Reach:
    """Which left ticks, ascending, lie within `size` of which right ones, ascending in each group.

    Only windows with `since <= horizon < until` of their group count.
    """
    ends = horizon(left, size)
    begin = np.searchsorted(left, earlier(right, size))
    end = np.searchsorted(left, later(right, size), side="right")
    begin = np.maximum(begin, np.searchsorted(ends, since)[groups])
    return Reach(begin, np.minimum(end, np.searchsorted(ends, until)[groups]), groups)
