"""Sketches of sets: what is said of `approx_count_distinct` before any tuple comes.

A sketch has 2^precision registers. The first bits of a value's hash say which register it is about, and of all values
of a register it keeps the largest number of zeros at the other end: HyperLogLog. How it is kept and read is in
`operators/sketches`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

LEAST_PRECISION: Final = 4
"""With fewer registers no estimate is worth its name. Spark's has no fewer either."""
MOST_PRECISION: Final = 18
"""With more of them, values themselves take hardly more room than registers."""
DEVIATION: Final = 1.106
"""Over the root of the number of registers: the deviation by which Spark says how many registers a sketch has, so ours
have as many. In fact it is 1.04."""
DEFAULT_RSD: Final = 0.05
LARGEST_RSD: Final = 0.39
"""Spark's limit, too."""
LEAST_RSD: Final = 0.0022
"""That of the most registers."""


@dataclass(frozen=True)
class Sketch:
    """What is kept in the place of values that are to be counted once each."""

    precision: int
    """How many bits of a hash say the register."""
    kind: pa.DataType
    """Of the values, as the kernel gives them."""


def precision_of(rsd: float) -> int | None:
    """The precision that keeps a relative standard deviation; None if there is none.

    >>> [precision_of(rsd) for rsd in (0.39, 0.05, 0.01, 0.0022, 0.5, 0.002)]
    [4, 9, 14, 18, None, None]
    """
    if not rsd <= LARGEST_RSD:
        return None
    # Squares of one literal and a power of two: no logarithm, which other machines may round differently.
    enough = (p for p in range(LEAST_PRECISION, MOST_PRECISION + 1) if rsd * rsd * 2**p >= DEVIATION * DEVIATION)
    return next(enough, None) if rsd > 0 else None


def sketchable(kind: pa.DataType) -> bool:
    """Whether values of a type have a hash."""
    if pa.types.is_dictionary(kind):
        return sketchable(kind.value_type)
    known = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date)
    times = (pa.types.is_time, pa.types.is_timestamp)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    bytes_ = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(of(kind) for of in (*known, *times, *texts, *bytes_))
