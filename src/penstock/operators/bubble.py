"""Bounded disorder, vectorised: n passes of a bubble sort over many groups at once (aurora.md 5.2.2).

A buffer of n + 1 tuples that gives up its smallest whenever it is full sorts like n passes of a bubble sort. One pass
carries the largest value seen so far and lets the smaller of it and the next tuple go: a running maximum and a minimum,
both vectorised. Groups lie behind each other and are numbered in ascending order, so one pass serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bubbled:
    """Rows, group by group, in the order in which the buffer gives them up; the last `slack` of a group stay in it."""

    rows: Numbers
    """Row numbers, groups ascending: in a group those that leave in their order, then those that stay, ascending."""
    leaves: Mask
    """Which of `rows` leave."""
    triggers: Numbers
    """For each of `rows` that leaves: the row whose arrival made it leave."""


def bubble(groups: Numbers, values: Numbers, slack: int) -> Bubbled:
    """Push rows, given in order of arrival, through a buffer of `slack` + 1 for each group. Ties leave as they came.

    >>> zeros = np.zeros(10, np.int64)
    >>> found = bubble(zeros, np.array([1, 3, 1, 2, 4, 4, 8, 3, 4, 4]), 2)   # aurora.md, Fig. 8
    >>> np.array([1, 3, 1, 2, 4, 4, 8, 3, 4, 4])[found.rows[found.leaves]].tolist()
    [1, 1, 2, 3, 4, 3, 4, 4]
    """
    arrival = np.argsort(groups, kind="stable")
    sorted_rows = np.lexsort((np.arange(len(groups)), values, groups))
    rank = np.empty(len(groups), np.int64)
    rank[sorted_rows] = np.arange(len(groups))
    passing = rank[arrival]
    for _ in range(min(slack, len(groups))):
        largest = np.maximum.accumulate(passing)
        after = np.append(np.minimum(largest[:-1], passing[1:]), largest[-1:])
        if np.array_equal(after, passing):
            break
        passing = after
    place, size = _places(groups[arrival])
    leaves = place < size - slack
    ahead = np.flatnonzero(leaves) + slack
    return Bubbled(sorted_rows[passing], leaves, arrival[ahead])


def late(groups: Numbers, values: Numbers, slack: int) -> Mask:
    """Which rows, given in order of arrival, are out of order by more than `slack` in their group.

    That is, more than `slack` earlier ones have a larger value: then one of those has left the buffer before.

    >>> late(np.zeros(6, np.int64), np.array([1, 5, 4, 6, 3, 6]), 1).tolist()
    [False, False, False, False, True, False]
    """
    found = bubble(groups, values, slack)
    out = np.zeros(len(groups), bool)
    if not found.leaves.any():
        return out
    gone = found.rows[found.leaves]
    # Groups ascend, so a running maximum of (group, value) never mixes them.
    dense = np.unique(values, return_inverse=True)[1].astype(np.int64)
    span = int(dense.max()) + 1
    largest = np.maximum.accumulate(groups[gone] * span + dense[gone])
    arrival = np.argsort(groups, kind="stable")
    place, _ = _places(groups[arrival])
    # What had left when a row arrived was made to leave by the row before it at the latest.
    position = np.empty(len(groups), np.int64)
    position[arrival] = np.arange(len(groups))
    before = np.full(len(groups), -1, np.int64)
    after_trigger = position[found.triggers] + 1
    inside = after_trigger < len(groups)
    before[after_trigger[inside]] = largest[inside]
    own = groups[arrival] * span + dense[arrival]
    judged = (place > 0) & (before >= groups[arrival] * span) & (own < before)
    out[arrival[judged]] = True
    return out


def largest(groups: Numbers, values: Numbers, keep: int) -> Numbers:
    """The rows with the `keep` largest values of each group: groups ascending, values ascending in a group.

    >>> largest(np.array([0, 0, 1, 0]), np.array([5, 7, 1, 6]), 2).tolist()
    [3, 1, 2]
    """
    order = np.lexsort((np.arange(len(groups)), values, groups))
    place, size = _places(groups[order])
    return order[place >= size - keep]


def _places(groups: Numbers) -> tuple[Numbers, Numbers]:
    """Of rows whose groups lie together: the place of each in its group, and the size of the group."""
    if not len(groups):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    sizes = np.diff(np.append(starts, len(groups)))
    return np.arange(len(groups)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)
