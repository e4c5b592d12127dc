"""Groups numbered, and pairs of a group and a tick: coordinates in which windows of many groups are computed at once.

A window of a group is the pair (group, start); a row lies in it when its tick is in `[start, start + size)`. With pairs
sorted, the windows of a row are neighbours, and so are the rows of a window: both are found by searching.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.operators.arrays import Mask, Numbers

_ROOM = 2**62
_NONE = np.zeros(0, np.int64)


def places(groups: Numbers, before: Numbers) -> Numbers:
    """The place of every row among those of its group, counted from `before` of the group on.

    >>> places(np.array([0, 1, 0, 0]), np.array([5, 0])).tolist()
    [5, 0, 6, 7]
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=len(before))
    begins = np.cumsum(sizes) - sizes
    place = np.empty(len(groups), np.int64)
    place[order] = np.arange(len(groups)) - np.repeat(begins - before, sizes)
    return place


def keyed(*pairs: tuple[Numbers, Numbers]) -> list[Numbers]:
    """For arrays of (group, tick): numbers that sort like the pairs, and are equal where they are.

    >>> [found.tolist() for found in keyed((np.array([0, 1]), np.array([7, -2])), (np.array([1]), np.array([-2])))]
    [[9, 10], [10]]
    """
    filled = [(g, t) for g, t in pairs if len(g)]
    if not filled:
        return [_NONE for _ in pairs]
    low, high = min(int(t.min()) for _, t in filled), max(int(t.max()) for _, t in filled)
    span, most = high - low + 1, max(int(g.max()) for g, _ in filled) + 1
    if span * most < _ROOM and low > -_ROOM:
        return [g * span + (t - low) for g, t in pairs]
    levels, dense = np.unique(np.concatenate([t for _, t in pairs]), return_inverse=True)
    cuts = np.cumsum([len(t) for _, t in pairs])[:-1].tolist()
    return [g * len(levels) + d for (g, _), d in zip(pairs, np.split(dense.astype(np.int64), cuts), strict=True)]


@dataclass(frozen=True)
class Windows:
    """Windows of groups: each pair once, groups ascending, starts ascending in a group."""

    groups: Numbers
    starts: Numbers

    def __len__(self) -> int:
        return len(self.groups)

    @staticmethod
    def of(groups: Numbers, starts: Numbers) -> Windows:
        """The windows among pairs that may repeat, in any order."""
        (keys,) = keyed((groups, starts))
        first = np.unique(keys, return_index=True)[1]
        return Windows(groups[first], starts[first])

    def only(self, chosen: Mask) -> Windows:
        return Windows(self.groups[chosen], self.starts[chosen])

    def plus(self, other: Windows) -> Windows:
        if not len(other):
            return self
        return Windows.of(np.append(self.groups, other.groups), np.append(self.starts, other.starts))

    def minus(self, other: Windows) -> Windows:
        if not len(other) or not len(self):
            return self
        mine, theirs = keyed((self.groups, self.starts), (other.groups, other.starts))
        return self.only(~np.isin(mine, theirs))

    def around(self, groups: Numbers, ticks: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """For every row the windows that it lies in, as a range of places here: first, and one behind the last."""
        if not len(self):
            nowhere = np.zeros(len(groups), np.int64)
            return nowhere, nowhere
        # The smallest start of a window that a row can lie in.
        least = np.where(ticks > ticks.dtype.type(-_ROOM), ticks - (size - 1), ticks)
        mine, low, high = keyed((self.groups, self.starts), (groups, least), (groups, ticks))
        return np.searchsorted(mine, low, side="left"), np.searchsorted(mine, high, side="right")

    def holding(self, groups: Numbers, ticks: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """For every window the rows that lie in it, as a range of places among rows sorted by group and tick."""
        if not len(self):
            return _NONE, _NONE
        rows, low, high = keyed((groups, ticks), (self.groups, self.starts), (self.groups, self.starts + (size - 1)))
        return np.searchsorted(rows, low, side="left"), np.searchsorted(rows, high, side="right")


NO_WINDOWS = Windows(_NONE, _NONE)
