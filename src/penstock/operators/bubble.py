"""Bounded disorder, vectorised: n passes of a bubble sort over many groups at once (aurora.md 5.2.2).

A buffer of n + 1 tuples that gives up its smallest whenever it is full sorts like n passes of a bubble sort. One pass
carries the largest value seen so far and lets the smaller of it and the next tuple go: a running maximum and a minimum,
both vectorised. Groups lie behind each other and are numbered in ascending order, so one pass serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra import kernel
from penstock.algebra.hidden import SEQ, in_order
from penstock.algebra.kernel import quote

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NOTHING = -1
"""Below all keys of rows."""
CHECK_PASSES = 4
"""Passes after which to look whether more of them would change anything: looking costs about half a pass."""
GROUP_SLOTS = 64
"""Slots that the groups of a box share out among them: a batch that meets few groups rewrites the state of few."""


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
    sorted_rows = np.lexsort((values, groups))
    # Ranks of half the width take half the time to move.
    rank = np.empty(len(groups), np.int32 if len(groups) < 2**31 else np.int64)
    rank[sorted_rows] = np.arange(len(groups))
    passing = _passes(rank[arrival], min(slack, len(groups)))
    place, size = places(groups[arrival])
    leaves = place < size - slack
    ahead = np.flatnonzero(leaves) + slack
    return Bubbled(sorted_rows[passing], leaves, arrival[ahead])


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


def in_arrival_order(tables: Sequence[pa.Table]) -> pa.Table:
    """The tuples of one batch in order of arrival; most often the tables only have to be put in order."""
    filled = [t for t in tables if t.num_rows] or list(tables[:1])
    tuples = pa.concat_tables(sorted(filled, key=lambda t: t.column(SEQ)[0].as_py()) if len(filled) > 1 else filled)
    seq = tuples.column(SEQ).to_numpy()
    return tuples if bool(np.all(seq[1:] > seq[:-1])) else in_order(tuples)


def group_numbers(tuples: pa.Table, by: Sequence[str]) -> Numbers:
    """A number for every group of `by`, the same for all its rows; NULLs are equal, as in GROUP BY.

    >>> group_numbers(pa.table({"k": ["x", None, "x", None]}), ["k"]).tolist()
    [0, 1, 0, 1]
    """
    if not by or not tuples.num_rows:
        return np.zeros(tuples.num_rows, np.int64)
    if any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in tuples.select(by).schema.types):
        # Several bit patterns can be one floating point value, and nested values have no codes.
        numbered = tuples.select(by).append_column("#row", pa.array(np.arange(tuples.num_rows)))
        keys = ", ".join(quote(k) for k in by)
        ranks = f"SELECT dense_rank() OVER (ORDER BY {keys}) - 1 AS number FROM tuples ORDER BY {quote('#row')}"
        ranked: Numbers = kernel.run(ranks, tuples=numbered).column("number").to_numpy()
        return ranked
    numbers, span = np.zeros(tuples.num_rows, np.int64), 1
    for name in by:
        coded = tuples.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = numbers * len(coded.dictionary) + codes
        span *= len(coded.dictionary)
        if span > tuples.num_rows:
            # Products of group numbers and ranks must stay within 64 bits.
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
            span = int(numbers.max()) + 1
    return numbers


def group_slots(tuples: pa.Table, by: Sequence[str]) -> Numbers:
    """The slot in which a box keeps the group of each row."""
    if not by:
        return np.zeros(tuples.num_rows, np.int64)
    # Buckets take the low bits of the same hash.
    sql = f"SELECT CAST((hash({', '.join(quote(k) for k in by)}) >> 32) % {GROUP_SLOTS} AS BIGINT) AS slot FROM tuples"
    found: Numbers = kernel.run(sql, tuples=tuples.select(by)).column("slot").to_numpy()
    return found


def parted(tuples: pa.Table, slots: Numbers) -> list[tuple[int, pa.Table]]:
    """The rows of each slot, slots ascending, rows in their order."""
    if not len(slots):
        return []
    if bool(np.all(slots == slots[0])):
        return [(int(slots[0]), tuples.combine_chunks())]
    order = np.argsort(slots, kind="stable")
    tuples, slots = tuples.take(pa.array(order)).combine_chunks(), slots[order]
    cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    return [(int(slots[a]), tuples.slice(a, b - a)) for a, b in pairwise(cuts)]
