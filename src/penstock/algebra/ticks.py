"""Ticks: the one integer scale on which progress is measured.

A progressing attribute is an integer, a date or a timestamp. All window, punctuation and low-water-mark arithmetic
is done on its *ticks*: the integer itself, days, or the timestamp's own unit since the epoch (always UTC).
"""

from __future__ import annotations

import datetime as dt
import re
from numbers import Integral
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import QueryError

BEGINNING: Final = -(2**63)
"""The low-water mark before anything is known."""
END: Final = 2**63 - 1
"""The low-water mark of a stream that has ended: nothing will follow."""
LONGEST: Final = 2**60
"""No window is longer, and no tick is nearer to BEGINNING or END: so the ends of a tick's windows are ticks, too.

Of nanoseconds these are 36 years, and the years from 1714 to 2225; of microseconds a thousand times as many.
"""

_UNIT_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NS: Final = 86_400 * 10**9
_WORDS_NS: Final = {
    "nanosecond": 1,
    "microsecond": 10**3,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3_600 * 10**9,
    "day": _DAY_NS,
    "week": 7 * _DAY_NS,
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "min": 60 * 10**9,
    "h": 3_600 * 10**9,
    "d": _DAY_NS,
}
_DURATION: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?)\s*)?([a-z]+)\s*,?", re.IGNORECASE)

Duration = int | str | dt.timedelta


def can_progress(kind: pa.DataType) -> bool:
    """Whether an attribute of this type can carry progress."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def tick_ns(kind: pa.DataType) -> int | None:
    """The length of one tick in nanoseconds; None for integers, whose ticks have no unit."""
    if pa.types.is_timestamp(kind):
        return _UNIT_NS[kind.unit]
    if pa.types.is_date(kind):
        return _DAY_NS if pa.types.is_date32(kind) else _UNIT_NS["ms"]
    return None


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration in words.

    >>> duration_ns("2 seconds"), duration_ns("1 minute 30 s"), duration_ns("minute")
    (2000000000, 90000000000, 60000000000)
    """
    total, at = 0.0, 0
    while at < len(text.rstrip()):
        found = _DURATION.match(text, at)
        word = found.group(2).lower() if found else ""
        unit = _WORDS_NS.get(word) or _WORDS_NS.get(word.removesuffix("s"))
        if found is None or unit is None:
            raise QueryError(
                f"cannot read the duration {text!r}",
                expected="numbers with units, such as '2 seconds', '1 minute 30 s' or '500 ms'",
            )
        total += float(found.group(1) or 1) * unit
        at = found.end()
    if at == 0:
        raise QueryError("a duration is empty", expected="for example '2 seconds'")
    return round(total)


def duration_ticks(value: Duration, kind: pa.DataType) -> int:
    """A length in ticks of an attribute of type `kind`.

    >>> duration_ticks("2 seconds", pa.timestamp("us")), duration_ticks(5, pa.int64())
    (2000000, 5)
    """
    unit = tick_ns(kind)
    if isinstance(value, dt.timedelta):
        value = f"{value // dt.timedelta(microseconds=1)} us"
    if unit is None:
        if isinstance(value, str):
            if not value.strip().lstrip("+-").isdigit():
                raise QueryError(
                    f"{value!r} is a duration, but the attribute is an integer",
                    expected="an integer",
                    found=f"{value!r} on an attribute of type {kind}",
                )
            value = int(value)
        return _whole(value, kind)
    if not isinstance(value, str):
        raise QueryError(
            f"{value!r} has no unit, but the attribute is a time",
            expected="a duration such as '10 seconds'",
            found=f"{value!r} on an attribute of type {kind}",
        )
    length = duration_ns(value)
    # A date64 counts milliseconds, but its values are days.
    smallest = _DAY_NS if pa.types.is_date(kind) else unit
    if length % smallest:
        raise QueryError(f"{value!r} is not a whole number of ticks of {kind}", expected="a multiple of its unit")
    return length // unit


def _whole(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Integral) or value != int(value):
        raise QueryError(
            f"{value!r} is no length", expected="an integer", found=f"{value!r} on an attribute of type {kind}"
        )
    return int(value)


def out_of_range(ticks: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A mask of the ticks that are too near to the ends to add a length to them.

    >>> out_of_range(to_ticks(pa.array([7, 2**64 - 1], pa.uint64()), wrap=True), pa.uint64()).to_pylist()
    [False, True]
    """
    # What is beyond int64 has been wrapped round, and is negative.
    least = 0 if pa.types.is_uint64(kind) else BEGINNING + LONGEST
    return pc.or_(pc.less(ticks, least), pc.greater(ticks, END - LONGEST))


def unfit(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A mask of the values that no window can be computed on, NULL or out of range; None if there are none."""
    ticks = to_ticks(column, wrap=True)
    extremes = pc.min_max(ticks)
    ends = pa.array([extremes["min"].as_py(), extremes["max"].as_py()], pa.int64())
    if not column.null_count and not pc.any(out_of_range(ends, column.type)).as_py():
        return None
    return pc.fill_null(out_of_range(ticks, column.type), True)


def tick_of(value: Any, kind: pa.DataType) -> int:
    """The tick of one Python value of a progressing attribute.

    >>> tick_of(7, pa.int64()), tick_of("1970-01-01 00:00:01", pa.timestamp("ms"))
    (7, 1000)
    """
    if isinstance(value, str) and not pa.types.is_integer(kind):
        value = pa.scalar(value).cast(kind)
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, type=kind)
    return int(to_ticks(pa.array([scalar.as_py()], type=kind))[0].as_py())


def to_ticks(column: pa.Array | pa.ChunkedArray, *, wrap: bool = False) -> pa.Array | pa.ChunkedArray:
    """The ticks of a whole column, as int64 and without copying where the type allows.

    A value that int64 does not have is an error, or `wrap`ped round, for `out_of_range` to find.
    """
    kind = column.type
    if pa.types.is_date32(kind):
        return (
            column.view(pa.int32()).cast(pa.int64())
            if isinstance(column, pa.Array)
            else column.cast(pa.int32()).cast(pa.int64())
        )
    return column.cast(pa.int64(), safe=not wrap)


def from_ticks(ticks: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Ticks back to values of the attribute's own type."""
    if pa.types.is_date32(kind):
        return ticks.cast(pa.int32()).cast(kind)
    return ticks.cast(kind)


def span_text(ticks: int, kind: pa.DataType) -> str:
    """A length in ticks as people read it.

    >>> span_text(90_000_000, pa.timestamp("us")), span_text(7, pa.int64())
    ('90 s', '7')
    """
    unit = tick_ns(kind)
    if unit is None:
        return str(ticks)
    length = ticks * unit
    for word in ("d", "h", "min", "s", "ms", "us"):
        whole = _WORDS_NS[word]
        if length % whole == 0 and (length >= 2 * whole or word == "us"):
            return f"{length // whole} {word}"
    return f"{length} ns"


def tick_text(tick: int, kind: pa.DataType) -> str:
    """A tick as people read it, infinities included."""
    if tick == END:
        return "end of input"
    if tick == BEGINNING:
        return "nothing yet"
    if pa.types.is_integer(kind):
        return str(tick)
    return str(from_ticks(pa.array([tick], pa.int64()), kind).cast(pa.string())[0].as_py())


def bounds(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest tick that an attribute can say."""
    if pa.types.is_unsigned_integer(kind):
        return 0, min(2**kind.bit_width - 1, END)
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return BEGINNING, END


def within(mark: int, kind: pa.DataType) -> int:
    """A mark as a narrow attribute can say it: below its smallest value it says nothing.

    >>> within(-3, pa.uint8()) == BEGINNING, within(300, pa.uint8()), within(7, pa.uint8())
    (True, 255, 7)
    """
    if mark in (BEGINNING, END):
        return mark
    low, high = bounds(kind)
    return BEGINNING if mark < low else min(mark, high)
