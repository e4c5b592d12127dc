"""Columns as numpy arrays: ticks, and what is computed of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END, to_ticks

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


def bounds(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest tick that an attribute can say."""
    if pa.types.is_unsigned_integer(kind):
        return 0, min(2**kind.bit_width - 1, END)
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return BEGINNING, END
