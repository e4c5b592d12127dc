"""Columns as numpy arrays: ticks, and what is computed of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import to_ticks

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def ticks_of(tuples: pa.Table, attribute: str) -> Numbers:
    return np.asarray(to_ticks(tuples.column(attribute)).to_numpy(), np.int64)


def shifted(ticks: Numbers, by: int) -> Numbers:
    """Ticks moved by some, but not over the ends of the scale.

    >>> shifted(np.array([0, 2**63 - 2]), 5).tolist() == [5, 2**63 - 1]
    True
    """
    if by == 0:
        return ticks
    ends = np.iinfo(np.int64)
    return (np.minimum(ticks, ends.max - by) if by > 0 else np.maximum(ticks, ends.min - by)) + np.int64(by)


def ranged(first: Numbers, behind: Numbers) -> tuple[Numbers, Numbers]:
    """Ranges spelled out: the place of the range, and a member of it.

    >>> [found.tolist() for found in ranged(np.array([3, 5]), np.array([5, 6]))]
    [[0, 0, 1], [3, 4, 5]]
    """
    lengths = np.maximum(behind - first, 0)
    ranges = np.repeat(np.arange(len(first)), lengths)
    begins = np.cumsum(lengths) - lengths
    return ranges, np.arange(len(ranges)) + np.repeat(first - begins, lengths)
