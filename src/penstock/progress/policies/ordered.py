"""`pk.ordered`: values never decrease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle
from penstock.progress.policies.options import check_options, names, stated, with_options
from penstock.progress.policy import Policy


@dataclass(frozen=True)
class Ordered(Policy):
    """The last value read (ties may follow)."""

    idle: Idle | None = None
    groups: tuple[str, ...] = ()
    descending: bool = False

    @property
    def in_order(self) -> bool:
        return True

    def check(self, kind: pa.DataType) -> None:
        check_options(self, kind)

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        return stated(seen, BEGINNING if self.groups else seen.largest)

    def bound(self, kind: pa.DataType) -> int:
        return 0

    def describe(self) -> str:
        return with_options("ordered", self)


def ordered(*, by: Sequence[str] | str = (), idle: Idle | None = None, descending: bool = False) -> Ordered:
    """The input arrives in order of its progressing attribute; equal values may follow.

    With `by`, every group of these attributes arrives in order, and makes progress of its own. `idle` says what the
    input states when it is silent: `heartbeat(...)` or `on_demand(...)`. `descending=True` is for a number that
    decreases, such as a countdown.
    """
    return Ordered(idle, names(by), descending)
