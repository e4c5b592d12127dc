"""Which rows of a table belong to which tuples: by an index, where the predicate equates columns; or by the kernel.

The kernel's hash join sees only the columns of the predicate. It makes its hash table anew for every train; the index
is made once for each version of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.pairing import Pairing
from penstock.boxes.table_join.known_rows import KnownRows
from penstock.operators.arrays import Mask, Numbers, ranged
from penstock.operators.key_index import NONE, KeyIndex

_NUMBER: Final = "#"


@dataclass(frozen=True)
class Pairs:
    """Pairs of the tuples of a train and rows of the table, by their numbers."""

    row_of: Numbers
    """For each tuple a row that it has found, or `NONE`."""
    several: tuple[Numbers, Numbers] | None = None
    """All pairs, as (tuples, rows) in any order, where a tuple has found more than one row."""


class Partners(Protocol):
    """Finds the rows of tuples."""

    def pairs(self, tuples: pa.Table) -> Pairs: ...

    def found(self, tuples: pa.Table) -> Mask:
        """Which tuples have found a row."""


def partners(pairing: Pairing, known: KnownRows) -> Partners:
    """Who finds the rows of tuples."""
    if pairing.only_equal:
        index = known.index(tuple(right for _, right in pairing.equalities))
        if index is not None:
            return Indexed(index, [left for left, _ in pairing.equalities])
    return Compared(pairing, known.rows)


class Indexed:
    """By an index."""

    def __init__(self, index: KeyIndex, columns: list[str]) -> None:
        self._index = index
        self._columns = columns

    def pairs(self, tuples: pa.Table) -> Pairs:
        keys, index = self._keys(tuples), self._index
        known = keys != NONE
        if index.first is None:
            return Pairs(index.rows.take(keys) if known.all() else np.where(known, index.rows.take(keys), NONE))
        first = np.where(known, index.first[keys], 0)
        behind = np.where(known, index.first[keys + 1], 0)
        row_of = np.where(known, index.rows[np.minimum(first, len(index.rows) - 1)], NONE)
        if not (behind > first + 1).any():
            return Pairs(row_of)
        at, places = ranged(first, behind)
        return Pairs(row_of, (at, index.rows[places]))

    def found(self, tuples: pa.Table) -> Mask:
        mask: Mask = self._keys(tuples) != NONE
        return mask

    def _keys(self, tuples: pa.Table) -> Numbers:
        pieces = [self._index.find(batch.columns) for batch in tuples.select(self._columns).to_batches()]
        return np.concatenate(pieces).astype(np.int64) if pieces else np.zeros(0, np.int64)


class Compared:
    """By the kernel."""

    def __init__(self, pairing: Pairing, rows: pa.Table) -> None:
        self._pairing = pairing
        self._rows = self._side(rows, 1)
        predicate = pairing.predicate.sql if pairing.predicate is not None else "true"
        number = kernel.quote(_NUMBER)
        self._pairs = f"SELECT t.{number} AS tuple, r.{number} AS row FROM tuples AS t JOIN known AS r ON ({predicate})"
        # Without an equality DuckDB plans a semi join as a merge of ranges, which loses NULLs (2.0.0).
        distinct, join = ("", "SEMI JOIN") if pairing.equalities else ("DISTINCT ", "JOIN")
        self._found = f"SELECT {distinct}t.{number} AS tuple FROM tuples AS t {join} known AS r ON ({predicate})"

    def pairs(self, tuples: pa.Table) -> Pairs:
        found = kernel.run(self._pairs, tuples=self._side(tuples, 0), known=self._rows)
        at, row = found.column("tuple").to_numpy(), found.column("row").to_numpy()
        row_of = np.full(tuples.num_rows, NONE)
        row_of[at] = row
        once = np.count_nonzero(row_of != NONE) == len(at)
        return Pairs(row_of, None if once else (at, row))

    def found(self, tuples: pa.Table) -> Mask:
        mask = np.zeros(tuples.num_rows, bool)
        at = kernel.run(self._found, tuples=self._side(tuples, 0), known=self._rows).column("tuple")
        mask[at.to_numpy()] = True
        return mask

    def _side(self, table: pa.Table, side: int) -> pa.Table:
        """What the predicate sees of a side, under the names that it uses; and the numbers of the rows."""
        used = self._pairing.predicate.columns if self._pairing.predicate is not None else ()
        columns = {
            name: table.column(column) for name in used for of, column in [self._pairing.side_of(name)] if of == side
        }
        return pa.table({**columns, _NUMBER: np.arange(table.num_rows)})
