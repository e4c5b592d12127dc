"""What an aggregate box computes, taken apart; `decomposition.py` does that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from penstock.algebra.expressions.python_functions import WindowFunction
from penstock.algebra.expressions.sketches import Sketch

COUNT: Final = "count(*)"


@dataclass(frozen=True)
class Held:
    """Values that are kept as they are until their window closes: one table per argument list."""

    name: str
    values: tuple[tuple[str, str], ...]
    """Column and scalar SQL over tuples, to keep per tuple."""
    where: str | None
    """Which tuples to keep."""
    distinct: bool
    """Only distinct rows of values need be kept."""
    schema: pa.Schema
    """Of the value columns."""
    results: tuple[tuple[str, str], ...]
    """Column and aggregate SQL over kept values."""
    bare: tuple[tuple[str, ...] | None, str | None] = (None, None)
    """The columns that the values are, if they are nothing but columns; and the one that must not be NULL, if there is
    no other condition. No columns if there is."""
    sketch: Sketch | None = None
    """What is kept in the place of the values of each group, in one row of bytes: then `schema` is about that, and the
    results are SQL over what it says of the values, a number in each row."""

    @property
    def counted(self) -> str | None:
        """The column of a stream of which distinct values are counted, where nothing else is asked of them."""
        columns, present = self.bare
        if not self.distinct or columns is None or present is None or len(self.results) != 1:
            return None
        ((value, _),), ((_, result),) = self.values, self.results
        return present if result == f"count(DISTINCT {value})" else None


@dataclass(frozen=True)
class Measure:
    """What a partial is, where it is so simple that no SQL is needed for it: one of bare columns, without FILTER."""

    kind: Literal["count", "sum", "min", "max", "edge", "value"]
    """`edge` is the least or the greatest `by`, and `value` the smallest value of `column` there."""
    column: str | None = None
    """None for `count(*)`."""
    by: str | None = None
    lowest: bool = True
    passes_null: bool = True
    """Whether tuples are passed over where `column` is NULL."""


@dataclass(frozen=True)
class Called:
    """A Python function that is called with the tuples of each window and group."""

    function: WindowFunction
    outputs: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Aggregation:
    """What an aggregate box computes, part by part; every part is (column, SQL)."""

    partials: tuple[tuple[str, str], ...]
    """Aggregate SQL over tuples."""
    merges: tuple[tuple[str, str], ...]
    """Aggregate SQL over partial rows, with the same columns and types: merging can be repeated."""
    partial_schema: pa.Schema
    held: tuple[Held, ...]
    finals: tuple[tuple[str, str], ...]
    """Scalar SQL over merged columns and results of held values; those of a group without held values are NULL."""
    output_schema: pa.Schema
    columns: tuple[str, ...]
    """The input columns that partials, held values and functions need."""
    called: tuple[Called, ...] = ()
    measures: tuple[Measure | None, ...] = ()
    """What the partials are; None for those that need SQL."""
    hashed: frozenset[str] = frozenset()
    """The columns that nothing but sketches needs, and these as they are: their values are hashed, and not seen."""

    @property
    def counted_measures(self) -> tuple[Measure | None, ...]:
        """What the partials of `counted` are."""
        return self.measures if self.tuple_count in dict(self.partials) else (*self.measures, Measure("count"))

    @property
    def sketched(self) -> tuple[Held, ...]:
        """The held values in whose place sketches are kept."""
        return tuple(held for held in self.held if held.sketch is not None)

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns that are kept of every tuple, for functions in Python."""
        return tuple(dict.fromkeys(name for call in self.called for name in call.columns))

    @property
    def tuple_count(self) -> str:
        """The partial that counts tuples: the account that shows that none was lost. Added if no output needs it."""
        return next((name for name, sql in self.partials if sql == COUNT), "#tuples")

    @property
    def counted(self) -> tuple[tuple[str, str], ...]:
        """The partials, with one that counts tuples among them."""
        known, count = self.partials, self.tuple_count
        return known if count in dict(known) else (*known, (count, COUNT))

    @property
    def counted_merges(self) -> tuple[tuple[str, str], ...]:
        """The merges, with the columns and types of `counted`."""
        known, count = self.merges, self.tuple_count
        return known if count in dict(known) else (*known, (count, f'CAST(sum("{count}") AS BIGINT)'))
