"""What an input states when it is silent: heartbeats on a timer, or timestamps on demand (heartbeat.md, ets.md).

A silent shard says nothing, so somebody must speak for it. Both policies here know the wall clock and a *skew*: how far
behind the clock its tuples may be. Whoever then brings an older tuple after all finds it among the late ones.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END, duration_ns, tick_ns
from penstock.errors import QueryError
from penstock.progress.extremes import Extremes
from penstock.progress.policy import Policy

_UNITS_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

Span = str | dt.timedelta
"""A length of wall-clock time."""


def span_ns(span: Span) -> int:
    """Nanoseconds of wall-clock time.

    >>> span_ns("2 seconds"), span_ns(dt.timedelta(milliseconds=3))
    (2000000000, 3000000)
    """
    if isinstance(span, dt.timedelta):
        return span // dt.timedelta(microseconds=1) * 1000
    if not isinstance(span, str):
        raise QueryError(f"{span!r} is no length of time", expected="for example '2 seconds'")
    return duration_ns(span)


@dataclass(frozen=True)
class Idle(Policy):
    """What is common to both: the skew, and how the clock is read in ticks of the attribute."""

    skew: Span = "0 seconds"
    unit: str | None = None
    """What a tick of an integer attribute counts since the epoch: 's', 'ms', 'us' or 'ns'."""

    def check(self, kind: pa.DataType) -> None:
        """Refuse parameters that do not fit the type of the progressing attribute."""
        if self.unit is not None and self.unit not in _UNITS_NS:
            raise QueryError(f"unit={self.unit!r} is unknown", expected=f"one of {', '.join(_UNITS_NS)}")
        if span_ns(self.skew) < 0:
            raise QueryError("a skew cannot be negative", found=repr(self.skew))
        if tick_ns(kind) is None and self.unit is None:
            raise QueryError(
                "the wall clock cannot be compared with an integer attribute",
                found=f"an attribute of type {kind}",
                hint="say what it counts since the epoch: unit='s', 'ms', 'us' or 'ns'",
            )

    @property
    def idle(self) -> Idle:
        """As a policy of its own, it is that of an ordered input which falls silent."""
        return self

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        return END if seen.ended else max(seen.largest, seen.stated)

    def bound(self, kind: pa.DataType) -> int:
        return 0

    def statement(self, seen: Extremes, now: int, kind: pa.DataType) -> int:
        """What a silent shard may state at a clock reading."""
        return self.clock(now, kind) - self.span(self.skew, kind)

    def describe(self) -> str:
        """One phrase, for explain and status."""
        return f"skew {self.skew}"

    def clock(self, now: int, kind: pa.DataType) -> int:
        """The tick at a clock reading in microseconds since the epoch."""
        return now * 1000 // self._tick(kind)

    def span(self, span: Span, kind: pa.DataType) -> int:
        """The ticks of a length of time, rounded up: a promise is only ever weakened by rounding."""
        return -(-span_ns(span) // self._tick(kind))

    def _tick(self, kind: pa.DataType) -> int:
        return tick_ns(kind) or _UNITS_NS[self.unit or "s"]


@dataclass(frozen=True)
class Heartbeat(Idle):
    """In a lull, every so often: the wall clock minus the skew."""

    every: Span = "1 second"

    def check(self, kind: pa.DataType) -> None:
        super().check(kind)
        if span_ns(self.every) <= 0:
            raise QueryError("the interval of heartbeats must be positive", found=repr(self.every))

    def due(self, seen: Extremes, last: int, now: int) -> bool:
        """Whether a shard has been silent, since its last tuple and its last heartbeat, for a whole interval."""
        return not seen.ended and now - max(seen.at, last) >= span_ns(self.every) // 1000

    def describe(self) -> str:
        return f"in a lull a heartbeat every {self.every}, skew {self.skew}"


@dataclass(frozen=True)
class OnDemand(Idle):
    """When an operator waits: the last value, plus the time that has passed since it came, minus the skew.

    A shard that has not delivered anything yet states the wall clock minus the skew.
    """

    def statement(self, seen: Extremes, now: int, kind: pa.DataType) -> int:
        if seen.largest in (BEGINNING, END):
            return super().statement(seen, now, kind)
        return seen.largest + self.clock(now, kind) - self.clock(seen.at, kind) - self.span(self.skew, kind)

    def describe(self) -> str:
        return f"on demand, skew {self.skew}"


def heartbeat(every: Span = "1 second", skew: Span = "0 seconds", *, unit: str | None = None) -> Heartbeat:
    """In a lull, on a timer: the input states the wall clock minus `skew`; older tuples that come later are late.

    By itself it is the policy of an ordered input; others take it as `idle=`.
    """
    return Heartbeat(skew, unit, every)


def on_demand(skew: Span = "0 seconds", *, unit: str | None = None) -> OnDemand:
    """No timer: when an operator waits for this input and it is silent, the input states how far it must have come.

    That is the last value, plus the time since it came, minus `skew`; older tuples that come later are late. By itself
    it is the policy of an ordered input; others take it as `idle=`.
    """
    return OnDemand(skew, unit)
