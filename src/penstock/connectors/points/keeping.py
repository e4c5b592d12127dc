"""How much of its history a connection point keeps: a length of time, rows, or bytes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.algebra.ticks import Duration, duration_ticks, tick_ns
from penstock.errors import QueryError
from penstock.progress.idle import Span, span_ns
from penstock.storage.sizes import bytes_of

EXPECTED: Final = "a time such as '2 hours', a number of rows, bytes such as '10 GB', or pk.keep(...)"


@dataclass(frozen=True)
class Keep:
    """What is kept. Without any bound, everything; with several, what is beyond one of them leaves."""

    time: Duration | None = None
    """How far behind the low-water mark of the stream a tuple may be."""
    wall: Span | None = None
    """How long ago, by the clock, a tuple may have arrived."""
    rows: int | None = None
    """So many of the newest tuples stay, at least."""
    bytes: int | None = None
    """So many bytes of the newest tuples stay, at most; the newest file stays in any case."""

    def check(self, on: str | None, kind: pa.DataType | None) -> None:
        """Refuse a length of time that does not fit the attribute on which the stream makes progress."""
        if self.time is None:
            return
        if on is None or kind is None:
            raise QueryError(
                f"keep={self.time!r} is a time, and the stream makes no progress on any attribute",
                hint="keep by the time of arrival: keep=pk.keep(wall='2 hours')",
            )
        if isinstance(self.time, str | dt.timedelta) and tick_ns(kind) is None:
            raise QueryError(
                f"{self.time!r} is no length on '{on}', which is an integer",
                found=f"{on} {kind}",
                hint="say it in the attribute's own unit, such as keep=pk.keep(time=7200), or keep by the time of "
                "arrival: keep=pk.keep(wall='2 hours')",
            )
        if duration_ticks(self.time, kind) < 1:
            raise QueryError("the time that is kept must be positive", found=repr(self.time))

    def describe(self) -> str:
        """What is kept, in words.

        >>> Keep(time="2 hours", bytes=10_000_000).describe()
        '2 hours and at most 10,000,000 bytes'
        """
        found = [
            str(self.time) if self.time is not None else "",
            f"{self.wall} by the clock" if self.wall is not None else "",
            f"{self.rows:,} rows" if self.rows is not None else "",
            f"at most {self.bytes:,} bytes" if self.bytes is not None else "",
        ]
        return " and ".join(filter(None, found)) or "everything"


EVERYTHING: Final = Keep()


def keep(
    *, time: Duration | None = None, wall: Span | None = None, rows: int | None = None, bytes: int | str | None = None
) -> Keep:
    """How much history a connection point keeps; what is beyond any of the bounds leaves, whole files at a time.

    `time` is counted back from the low-water mark of the stream, in its progressing attribute; `wall` from the clock,
    by the time of arrival. `rows` is how many of the newest tuples stay at least; `bytes` how many bytes stay at most,
    a number or a text such as "10 GB".
    """
    if wall is not None and span_ns(wall) < 1000:
        raise QueryError("the time that is kept must be positive", found=f"wall={wall!r}")
    size = bytes_of(bytes) if isinstance(bytes, str) else bytes
    if isinstance(bytes, str) and size is None:
        raise QueryError(f"bytes={bytes!r} is no size", expected="a number, or a text such as '10 GB'")
    for name, given in (("rows", rows), ("bytes", size)):
        if given is not None and (isinstance(given, bool) or given < 1):
            raise QueryError("what is kept must be positive", found=f"{name}={given!r}")
    return Keep(time, wall, rows, size)


def keep_of(given: Keep | Duration | None) -> Keep:
    """What is meant by `keep=` of a connection point.

    >>> keep_of("2 hours"), keep_of(1_000_000).rows, keep_of("10 GB").bytes, keep_of("1 MiB").bytes
    (Keep(time='2 hours', wall=None, rows=None, bytes=None), 1000000, 10000000000, 1048576)
    """
    if given is None or isinstance(given, Keep):
        return given or EVERYTHING
    if isinstance(given, bool) or not isinstance(given, int | str | dt.timedelta):
        raise QueryError(f"keep={given!r} says nothing of how much is kept", expected=EXPECTED)
    if isinstance(given, int):
        return keep(rows=given)
    size = bytes_of(given) if isinstance(given, str) else None
    return keep(bytes=size) if size is not None else keep(time=given)
