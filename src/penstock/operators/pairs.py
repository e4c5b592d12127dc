"""Pairs of small numbers, each once: a number of 32 or 64 bits holds both, and sorting it is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.operators.arrays import Numbers

PLACES_PER_PAIR: Final = 4
"""Where there are no more pairs that could be, each gets a place of its own instead of being sorted."""
_HALF_WORD: Final = 32


@dataclass(frozen=True)
class DistinctPairs:
    """Pairs by their first and then their second number."""

    firsts: Numbers
    """The first numbers, each once."""
    offsets: Numbers
    """Where the pairs of each begin, and where the last ones end."""
    seconds: npt.NDArray[np.int32]

    @property
    def counts(self) -> Numbers:
        return np.diff(self.offsets)


def distinct_pairs(firsts: npt.NDArray[Any], seconds: npt.NDArray[np.int32], most: int, values: int) -> DistinctPairs:
    """Every pair once, of numbers below `most` and `values`.

    >>> found = distinct_pairs(np.array([1, 0, 1, 1]), np.array([5, 5, 4, 5], np.int32), 2, 6)
    >>> found.firsts.tolist(), found.counts.tolist(), found.seconds.tolist()
    ([0, 1], [1, 2], [5, 4, 5])
    """
    bits = max(1, (values - 1).bit_length())
    kind: Any = np.uint32 if (most - 1).bit_length() + bits <= _HALF_WORD else np.uint64
    packed = firsts.astype(kind)
    packed <<= kind(bits)
    packed |= seconds.astype(kind)
    if most << bits <= PLACES_PER_PAIR * len(packed):
        there = np.zeros(most << bits, np.bool_)
        there[packed] = True
        packed = np.flatnonzero(there).view(np.uint64)
        kind = np.uint64
    else:
        packed.sort()
        fresh = packed[1:] != packed[:-1]
        if not fresh.all():
            packed = np.concatenate([packed[:1], packed[1:][fresh]])
    owners = (packed >> kind(bits)).astype(np.int64)
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    packed &= kind((1 << bits) - 1)
    return DistinctPairs(owners[begins], np.append(begins, len(packed)), packed.astype(np.int32))
