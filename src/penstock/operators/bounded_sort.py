"""Bounded disorder, vectorised: n passes of a bubble sort over many groups at once (aurora.md 5.2.2).

A buffer of n + 1 tuples that gives up its smallest whenever it is full sorts like n passes of a bubble sort. One pass
carries the largest value seen so far and lets the smaller of it and the next tuple go: a running maximum and a minimum,
both vectorised. Groups lie behind each other and are numbered in ascending order, so one pass serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.operators.arrays import Mask, Numbers

NOTHING = -1
"""Below all keys of rows."""
CHECK_PASSES = 4
"""Passes after which to look whether more of them would change anything: looking costs about half a pass."""


@dataclass(frozen=True)
class SortedRows:
    """Rows, group by group, in the order in which the buffer gives them up; the last `slack` of a group stay in it."""

    rows: Numbers
    """Row numbers, groups ascending: in a group those that leave in their order, then those that stay, ascending."""
    leaves: Mask
    """Which of `rows` leave."""
    triggers: Numbers
    """For each of `rows` that leaves: the row whose arrival made it leave."""


def bounded_sort(groups: Numbers, values: Numbers, slack: int) -> SortedRows:
    """Push rows, given in order of arrival, through a buffer of `slack` + 1 for each group. Ties leave as they came.

    >>> zeros = np.zeros(10, np.int64)
    >>> found = bounded_sort(zeros, np.array([1, 3, 1, 2, 4, 4, 8, 3, 4, 4]), 2)   # aurora.md, Fig. 8
    >>> np.array([1, 3, 1, 2, 4, 4, 8, 3, 4, 4])[found.rows[found.leaves]].tolist()
    [1, 1, 2, 3, 4, 3, 4, 4]
    """
    arrival = np.argsort(groups, kind="stable")
    sorted_rows = np.lexsort((values, groups))
    # Ranks of half the width take half the time to move.
    rank = np.empty(len(groups), np.int32 if len(groups) < 2**31 else np.int64)
    rank[sorted_rows] = np.arange(len(groups))
    passing = _passes(rank[arrival], min(slack, len(groups)))
    place, size = places(groups[arrival])
    leaves = place < size - slack
    ahead = np.flatnonzero(leaves) + slack
    return SortedRows(sorted_rows[passing], leaves, arrival[ahead])


def _passes(ranks: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Ranks after so many passes of a bubble sort."""
    largest, after = np.empty_like(ranks), np.empty_like(ranks)
    for number in range(count):
        np.maximum.accumulate(ranks, out=largest)
        np.minimum(largest[:-1], ranks[1:], out=after[:-1])
        after[-1:] = largest[-1:]
        # What is sorted stays as it is.
        if number % CHECK_PASSES == 0 and np.array_equal(after, ranks):
            break
        ranks, after = after, ranks
    return ranks


def late(groups: Numbers, values: Numbers, slack: int) -> Mask:
    """Which rows, given in order of arrival, are out of order by more than `slack` in their group.

    That is, more than `slack` earlier ones have a larger value: then one of those has left the buffer before.

    >>> late(np.zeros(6, np.int64), np.array([1, 5, 4, 6, 3, 6]), 1).tolist()
    [False, False, False, False, True, False]
    """
    out = np.zeros(len(groups), bool)
    if slack >= len(groups):
        return out
    arrival = np.argsort(groups, kind="stable")
    key, first = _keys(groups[arrival], values[arrival])
    above, passing = np.empty_like(key), key.copy()
    judged = np.zeros(len(key), bool)
    for number in range(slack + 1):
        # After n rounds `above` is the (n + 1)-th largest so far: each round leaves behind what is not the largest.
        np.maximum.accumulate(passing, out=above)
        if number == slack or number % CHECK_PASSES == 0:
            # Groups ascend, so a group's own keys are those that are not below its first.
            judged[1:] = (key[1:] < above[:-1]) & (above[:-1] >= first[1:])
            if not judged.any():
                return out
        np.minimum(above[:-1], passing[1:], out=passing[1:])
        passing[0] = NOTHING
    out[arrival[judged]] = True
    return out


def _keys(groups: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """For rows whose groups ascend: numbers that sort as (group, value), and the smallest of each row's group."""
    low, last = int(values.min()), int(groups[-1])
    span = int(values.max()) - low + 1
    if (last + 1) * span >= 2**63:
        values = np.unique(values, return_inverse=True)[1].astype(np.int64)
        low, span = 0, int(values.max()) + 1
    first = groups * span
    return first + (values - low), first


def largest(groups: Numbers, values: Numbers, keep: int) -> Numbers:
    """The rows with the `keep` largest values of each group: groups ascending, values ascending in a group.

    >>> largest(np.array([0, 0, 1, 0]), np.array([5, 7, 1, 6]), 2).tolist()
    [3, 1, 2]
    """
    order = np.lexsort((values, groups))
    place, size = places(groups[order])
    return order[place >= size - keep]


def places(groups: Numbers) -> tuple[Numbers, Numbers]:
    """Of rows whose groups lie together: the place of each in its group, and the size of the group."""
    if not len(groups):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    sizes = np.diff(np.append(starts, len(groups)))
    return np.arange(len(groups)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)
