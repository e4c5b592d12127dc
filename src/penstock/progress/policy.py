"""Input progress policies: from what a shard has delivered to the low-water mark it states.

A policy is frozen and pure; what it needs to remember is in the shard's `Extremes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END, Duration, duration_ticks
from penstock.errors import QueryError
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle


class Policy(Protocol):
    """States the low-water mark of one shard of an input. One that has `descending` set sees negative ticks."""

    def check(self, kind: pa.DataType) -> None:
        """Refuse parameters that do not fit the type of the progressing attribute."""

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        """The strongest punctuation that `seen` justifies, in ticks."""

    def describe(self) -> str:
        """One phrase, for explain and status."""


def _stated(seen: Extremes, deduced: int) -> int:
    return END if seen.ended else max(deduced, seen.stated)


@dataclass(frozen=True)
class Ordered:
    """The last value read (ties may follow)."""

    idle: Idle | None = None
    """What the input states when it is silent."""
    groups: tuple[str, ...] = ()
    """Where each value of these attributes makes progress of its own, tuples state nothing of the input as a whole."""
    descending: bool = False
    """Whether values decrease."""

    def check(self, kind: pa.DataType) -> None:
        _check_idle(self.idle, kind)
        _check_descending(self, kind)

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        return _stated(seen, BEGINNING if self.groups else seen.largest)

    def describe(self) -> str:
        down = ", descending" if self.descending else ""
        return _with_idle(f"ordered{_in_groups(self.groups)}{down}", self.idle)


@dataclass(frozen=True)
class Delayed:
    """The largest value read, minus the bound: tuples are at most `by` behind the newest.

    >>> Delayed(5).low_water_mark(Extremes(largest=12), pa.int64())
    7
    """

    by: Duration
    idle: Idle | None = None
    groups: tuple[str, ...] = ()
    descending: bool = False

    def check(self, kind: pa.DataType) -> None:
        _check_idle(self.idle, kind)
        _check_descending(self, kind)
        if duration_ticks(self.by, kind) < 0:
            raise QueryError("a delay cannot be negative", found=repr(self.by))

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        deduced = BEGINNING if self.groups else seen.largest
        if deduced != BEGINNING:
            deduced = max(BEGINNING, deduced - duration_ticks(self.by, kind))
        return _stated(seen, deduced)

    def describe(self) -> str:
        down = ", descending" if self.descending else ""
        return _with_idle(f"delayed by {self.by}{_in_groups(self.groups)}{down}", self.idle)


@dataclass(frozen=True)
class Punctuated:
    """What the source itself says: punctuation elements, or records marked as punctuation by `where`.

    A record for which the SQL predicate `where` holds is no tuple: it states that every later record of its shard
    has at least its value of the progressing attribute.
    """

    where: str | None = None
    idle: Idle | None = None

    def check(self, kind: pa.DataType) -> None:
        _check_idle(self.idle, kind)

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        return _stated(seen, BEGINNING)

    def describe(self) -> str:
        return _with_idle(f"punctuated where {self.where}" if self.where else "punctuated", self.idle)


def _check_idle(idle: Idle | None, kind: pa.DataType) -> None:
    if idle is not None and not isinstance(idle, Idle):
        raise QueryError(f"idle={idle!r} is no policy for silence", expected="pk.heartbeat(...) or pk.on_demand(...)")
    if idle is not None:
        idle.check(kind)


def _check_descending(policy: Ordered | Delayed, kind: pa.DataType) -> None:
    if not policy.descending:
        return
    if not pa.types.is_signed_integer(kind):
        raise QueryError(
            "an attribute that decreases must be a signed integer",
            found=f"an attribute of type {kind}",
            hint="for times, declare progress on a number that counts down, such as the seconds that are left",
        )
    if policy.idle is not None or policy.groups:
        given = "idle=" if policy.idle is not None else "by="
        raise QueryError(f"{given} does not go with descending=True", expected="one of the two")


def _names(by: Sequence[str] | str) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _in_groups(groups: tuple[str, ...]) -> str:
    return f" in each group of {', '.join(groups)}" if groups else ""


def _with_idle(text: str, idle: Idle | None) -> str:
    return text if idle is None else f"{text}; {idle.describe()}"


def ordered(*, by: Sequence[str] | str = (), idle: Idle | None = None, descending: bool = False) -> Ordered:
    """The input arrives in order of its progressing attribute; equal values may follow.

    With `by`, every group of these attributes arrives in order, and makes progress of its own. `idle` says what the
    input states when it is silent: `heartbeat(...)` or `on_demand(...)`. `descending=True` is for a number that
    decreases, such as a countdown.
    """
    return Ordered(idle, _names(by), descending)


def delayed(
    behind: Duration, *, by: Sequence[str] | str = (), idle: Idle | None = None, descending: bool = False
) -> Delayed:
    """Tuples arrive at most so far `behind` the largest value read so far (the smallest, for one that decreases).

    `by`, `idle` and `descending` are as for `ordered`.
    """
    return Delayed(behind, idle, _names(by), descending)


def punctuated(where: str | None = None, *, idle: Idle | None = None) -> Punctuated:
    """The source states its own progress, in punctuation elements or in records for which `where` holds.

    `idle` as for `ordered`.
    """
    return Punctuated(where, idle)
