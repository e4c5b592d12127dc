"""`pk.delayed`: tuples are at most so far behind the largest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, Duration, duration_ticks
from penstock.errors import QueryError
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle
from penstock.progress.policies.options import check_options, names, stated, with_options
from penstock.progress.policy import Policy


@dataclass(frozen=True)
class Delayed(Policy):
    """The largest value read, minus the bound: tuples are at most `by` behind the newest.

    >>> Delayed(5).low_water_mark(Extremes(largest=12), pa.int64())
    7
    """

    by: Duration
    idle: Idle | None = None
    groups: tuple[str, ...] = ()
    descending: bool = False

    def check(self, kind: pa.DataType) -> None:
        check_options(self, kind)
        if duration_ticks(self.by, kind) < 0:
            raise QueryError("a delay cannot be negative", found=repr(self.by))

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        deduced = BEGINNING if self.groups else seen.largest
        if deduced != BEGINNING:
            deduced = max(BEGINNING, deduced - self.bound(kind))
        return stated(seen, deduced)

    def bound(self, kind: pa.DataType) -> int:
        return duration_ticks(self.by, kind)

    def describe(self) -> str:
        return with_options(f"delayed by {self.by}", self)


def delayed(
    behind: Duration, *, by: Sequence[str] | str = (), idle: Idle | None = None, descending: bool = False
) -> Delayed:
    """Tuples arrive at most so far `behind` the largest value read so far (the smallest, for one that decreases).

    `by`, `idle` and `descending` are as for `ordered`.
    """
    return Delayed(behind, idle, names(by), descending)
