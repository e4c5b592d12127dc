"""Groups numbered, and pairs of a group and a tick: coordinates in which windows of many groups are computed at once.

A window of a group is the pair (group, start); a row lies in it when its tick is in `[start, start + size)`. With pairs
sorted, the windows of a row are neighbours, and so are the rows of a window: both are found by searching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.operators.bubble import Mask, Numbers, group_numbers

_ROOM = 2**62
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Groups:
    """The groups that several tables speak of, numbered 0, 1, 2, ... ."""

    keys: pa.Table
    """The columns of a group, one row each; without columns there is one group."""
    count: int

    def columns(self, groups: Numbers) -> list[tuple[str, pa.ChunkedArray]]:
        """The columns of the groups with these numbers, by name."""
        if not self.keys.num_columns:
            return []
        taken = self.keys.take(pa.array(groups))
        return list(zip(taken.column_names, taken.columns, strict=True))

    def numbers(self, table: pa.Table) -> Numbers:
        """The groups of rows, which must all be known."""
        _, (own, found) = number([self.keys, table], self.keys.column_names)
        place = np.zeros(len(own), np.int64)
        place[own] = np.arange(len(own))
        return place[found] if len(own) else found


def number(tables: Sequence[pa.Table], by: Sequence[str]) -> tuple[Groups, list[Numbers]]:
    """Number the groups of several tables alike; for each table the group of every row.

    >>> found, (left, right) = number([pa.table({"k": ["x", "y"]}), pa.table({"k": ["y", "y"]})], ["k"])
    >>> found.count, left.tolist(), right.tolist(), found.keys["k"].to_pylist()
    (2, [0, 1], [1, 1], ['x', 'y'])
    """
    sizes = [table.num_rows for table in tables]
    cuts = np.cumsum(sizes)[:-1].tolist()
    if not by:
        return Groups(pa.table({}), 1), np.split(np.zeros(sum(sizes), np.int64), cuts)
    everything = pa.concat_tables([table.select(list(by)) for table in tables])
    # Codes are given in order of appearance.
    numbers = _codes(group_numbers(everything, by) if _bits_differ(everything) else _combined(everything))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))
    return Groups(everything.take(pa.array(first)), len(first)), np.split(numbers, cuts)


def _bits_differ(keys: pa.Table) -> bool:
    """Whether equal values can have several bit patterns, or no codes."""
    return any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in keys.schema.types)


def _combined(keys: pa.Table) -> Numbers:
    numbers = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        codes = _codes(column)
        span = int(codes.max()) + 1 if len(codes) else 1
        if int(numbers.max(initial=0)) >= _ROOM // span:
            numbers = _codes(numbers)
        numbers = numbers * span + codes
    return numbers


def _codes(values: pa.ChunkedArray | Numbers) -> Numbers:
    """A number from 0 on for every value, NULL among them, in order of appearance."""
    whole = pa.array(values) if isinstance(values, np.ndarray) else values.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    whole = whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole
    codes: Numbers = (
        whole.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return codes


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


def ranged(first: Numbers, behind: Numbers) -> tuple[Numbers, Numbers]:
    """Ranges spelled out: the place of the range, and a member of it.

    >>> [found.tolist() for found in ranged(np.array([3, 5]), np.array([5, 6]))]
    [[0, 0, 1], [3, 4, 5]]
    """
    lengths = np.maximum(behind - first, 0)
    ranges = np.repeat(np.arange(len(first)), lengths)
    begins = np.cumsum(lengths) - lengths
    return ranges, np.arange(len(ranges)) + np.repeat(first - begins, lengths)
