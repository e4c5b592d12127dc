"""Pairs of small numbers, each once: a number of 32 or 64 bits holds both, and sorting it is quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.operators.arrays import Mask, Numbers

PLACES_PER_PAIR: Final = 4
"""Where there are hardly more pairs than could be, each gets a place of its own instead of being sorted."""
FEW: Final = 16
"""Where one pair of so many is the first of its first number, these are looked for one by one."""
_HALF_WORD: Final = 32

Pieces = Sequence[tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]]
"""First and second numbers, none of them negative."""


@dataclass(frozen=True)
class DistinctPairs:
    """Pairs by their first and then their second number."""

    firsts: Numbers
    """The first numbers, each once."""
    counts: Numbers
    """How many pairs each has."""
    seconds: npt.NDArray[np.int32]

    @property
    def offsets(self) -> Numbers:
        """Where the pairs of each begin, and where the last ones end."""
        return np.append(0, np.cumsum(self.counts))


def distinct_pairs(pieces: Pieces, most: int, values: int) -> DistinctPairs:
    """Every pair once, of numbers below `most` and `values`.

    >>> found = distinct_pairs([(np.array([1, 0, 1, 1], np.uint32), np.array([5, 5, 4, 5], np.int32))], 2, 6)
    >>> found.firsts.tolist(), found.counts.tolist(), found.seconds.tolist()
    ([0, 1], [1, 2], [5, 4, 5])
    """
    packed, bits, fresh = _sorted(pieces, most, values)
    packed = packed if fresh is None else packed[fresh]
    firsts, begins = _begins(packed, bits, most)
    packed &= packed.dtype.type((1 << bits) - 1)
    return DistinctPairs(firsts, np.diff(begins, append=len(packed)), packed.astype(np.int32))


def distinct_counts(pieces: Pieces, most: int, values: int) -> tuple[Numbers, Numbers]:
    """Of each first number, how many different second ones it has.

    >>> firsts, counts = distinct_counts([(np.array([1, 0, 1, 1], np.uint32), np.array([5, 5, 4, 5], np.int32))], 2, 6)
    >>> firsts.tolist(), counts.tolist()
    ([0, 1], [1, 2])
    """
    packed, bits, fresh = _sorted(pieces, most, values)
    firsts, begins = _begins(packed, bits, most)
    if fresh is None or not len(begins):
        return firsts, np.diff(begins, append=len(packed))
    return firsts, np.add.reduceat(fresh, begins, dtype=np.int64)


def _sorted(pieces: Pieces, most: int, values: int) -> tuple[npt.NDArray[Any], int, Mask | None]:
    """Packed pairs, the bits of their second numbers, and which of them are the first of their kind; None if all."""
    bits = max(1, (values - 1).bit_length())
    kind: Any = np.uint32 if (most - 1).bit_length() + bits <= _HALF_WORD else np.uint64
    packed, at = np.empty(sum(len(firsts) for firsts, _ in pieces), kind), 0
    for firsts, seconds in pieces:
        own = packed[at : at + len(firsts)]
        np.left_shift(firsts, kind(bits), out=own, dtype=kind)
        own |= seconds.view(np.uint32)
        at += len(firsts)
    if most << bits <= PLACES_PER_PAIR * len(packed):
        there = np.zeros(most << bits, np.bool_)
        there[packed] = True
        return np.flatnonzero(there).astype(kind), bits, None
    packed.sort()
    fresh = np.ones(len(packed), np.bool_)
    np.not_equal(packed[1:], packed[:-1], out=fresh[1:])
    return packed, bits, fresh


def _begins(packed: npt.NDArray[Any], bits: int, most: int) -> tuple[Numbers, Numbers]:
    """The first numbers of sorted pairs, each once, and where it begins."""
    kind = packed.dtype.type
    if FEW * most <= len(packed):
        least = np.arange(most, dtype=np.uint64) << np.uint64(bits)
        begins = np.searchsorted(packed, least.astype(kind))
        firsts = np.flatnonzero(np.diff(begins, append=len(packed)))
        return firsts, begins[firsts].astype(np.int64)
    owners = packed >> kind(bits)
    begins = np.append(np.zeros(min(1, len(owners)), np.int64), np.flatnonzero(owners[1:] != owners[:-1]) + 1)
    return owners[begins].astype(np.int64), begins
