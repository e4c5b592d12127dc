"""Lulls: stretches of time in which a link of the generator delivers nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import duration_ticks
from penstock.errors import QueryError

_US = pa.timestamp("us")


@dataclass(frozen=True)
class Lulls:
    """Silences `[start, start + length)` in microseconds after the input's start; or one at the end of each period."""

    silences: tuple[tuple[int, int], ...] = ()
    every: int | None = None
    length: int = 0

    def delay(self, active: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Wall times of moments counted in active time alone: silences put off all that is due after them."""
        if self.every is not None:
            talk = self.every - self.length
            return active + active // talk * self.length
        moved = active.copy() if self.silences else active
        for start, length in self.silences:
            # In order of start, so earlier silences have already put off what this one meets.
            moved[moved >= start] += length
        return moved

    def active(self, elapsed: int) -> int:
        """How much of the first `elapsed` microseconds was no silence."""
        if self.every is not None:
            whole, rest = divmod(elapsed, self.every)
            return whole * (self.every - self.length) + min(rest, self.every - self.length)
        return elapsed - sum(max(0, min(elapsed - start, length)) for start, length in self.silences)


def lulls_of(spec: Sequence[Any] | None) -> Lulls:
    """Lulls as the user gave them: a list of (start, length), or one periodic (every, length)."""
    if spec is None:
        return Lulls()
    periodic = len(spec) == 2 and not isinstance(spec[0], (tuple, list))
    pairs = [tuple(duration_ticks(value, _US) for value in pair) for pair in ([spec] if periodic else spec)]
    if any(len(pair) != 2 or pair[0] < 0 or pair[1] <= 0 for pair in pairs):
        raise QueryError(
            "a lull cannot be read",
            expected='a list of (start, length) such as [("5 seconds", "1 second")], or (every, length)',
            found=repr(spec),
        )
    if periodic:
        every, length = pairs[0]
        if length >= every:
            raise QueryError("a periodic lull must be shorter than its period", found=repr(spec))
        return Lulls((), every, length)
    pairs.sort()
    if any(start + length > after for (start, length), (after, _) in itertools.pairwise(pairs)):
        raise QueryError("lulls of a link overlap", found=repr(spec))
    return Lulls(tuple((start, length) for start, length in pairs))
