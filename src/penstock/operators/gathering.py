"""Tuples that an entry gathers, and reduces to those that can still matter, so that its memory is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from penstock.operators.arrival_order import in_arrival_order

REDUCE_ROWS: Final = 4_194_304
"""Tuples that are gathered before they are reduced."""


class Gathering:
    """Tuples in order of arrival; `reduce` keeps those of them that others do not make useless."""

    def __init__(self, reduce: Callable[[pa.Table], pa.Table]) -> None:
        self._reduce = reduce
        self._tables: list[pa.Table] = []
        self._rows, self._enough = 0, REDUCE_ROWS

    def add(self, tuples: pa.Table) -> None:
        self._tables.append(tuples)
        self._rows += tuples.num_rows
        if self._rows >= self._enough:
            self._tables = [self._reduce(in_arrival_order(self._tables))]
            self._rows = self._tables[0].num_rows
            # Where most of them matter, looking for others again and again would take ever longer.
            self._enough = max(REDUCE_ROWS, 2 * self._rows)

    def take(self) -> pa.Table | None:
        """What matters of all tuples that were added since the last time."""
        tables, self._tables, self._rows = self._tables, [], 0
        return self._reduce(in_arrival_order(tables)) if tables else None
