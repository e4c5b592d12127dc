"""How a low-water mark goes through an expression that progresses; `monotone.py` says which do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.ticks import BEGINNING, END, LONGEST, from_ticks, out_of_range, to_ticks
from penstock.errors import QueryError


@dataclass(frozen=True)
class Progression:
    """How the low-water mark of an attribute becomes the low-water mark of an expression of it."""

    attribute: str
    source: pa.DataType
    """Type of the attribute."""
    result: pa.DataType
    """Type of the expression."""
    sql: str | None
    """The expression, or None where it is the attribute itself."""
    falls: bool = False
    """Whether the attribute decreases: its marks are of its negative."""
    turns: bool = False
    """Whether the expression goes down where the attribute goes up."""

    @property
    def result_falls(self) -> bool:
        """Whether the expression decreases: then its mark is of its negative, too."""
        return self.falls != self.turns

    @property
    def may_leave_range(self) -> bool:
        """Whether a tick of the attribute that is of use may give one that is out of range."""
        if self.sql is None:
            return False
        low, high = _range(self.source)
        ends = max(low, BEGINNING + LONGEST), min(high, END - LONGEST)
        found = pa.array([_value(self, tick) for tick in ends], pa.int64())
        return bool(pc.any(pc.fill_null(out_of_range(found, self.result), True)).as_py())

    def apply(self, tick: int) -> int:
        """The low-water mark of the expression, in its ticks, when that of the attribute is `tick`."""
        if self.sql is None or tick in (BEGINNING, END):
            return tick
        low, high = _range(self.source)
        tick = min(max(-tick if self.falls else tick, low), high)
        found = _value(self, tick)
        if found is not None:
            return -found if self.result_falls else found
        # Where a monotone function is defined is an interval, so one defined point says on which side the mark is.
        for known in (0, high, low):
            if _value(self, known) is not None:
                return min(_range(self.result)[1], END - 1) if (tick > known) != self.falls else BEGINNING
        return BEGINNING


def _range(kind: pa.DataType) -> tuple[int, int]:
    """The ticks that a column of this type can hold; DuckDB takes the outermost dates and times for infinities."""
    if pa.types.is_date32(kind):
        return -(2**31) + 2, 2**31 - 2
    if not pa.types.is_integer(kind):
        return BEGINNING + 2, END - 1
    if pa.types.is_unsigned_integer(kind):
        return 0, min(2**kind.bit_width - 1, END)
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


@lru_cache(maxsize=4096)
def _value(progression: Progression, tick: int) -> int | None:
    """The tick of the expression at one tick of the attribute, None where it has no value."""
    column = from_ticks(pa.array([tick], pa.int64()), progression.source)
    try:
        found = kernel.run(
            f"SELECT {progression.sql} AS value FROM {kernel.TUPLES}",
            **{kernel.TUPLES: pa.table({progression.attribute: column})},
        )
        value = to_ticks(found["value"].cast(progression.result))[0].as_py()
    except (QueryError, pa.ArrowInvalid):
        return None
    return None if value is None else min(max(int(value), BEGINNING), END - 1)
