"""Join with a static table (aurora.md 5.2.2.3): every tuple is looked up in the table as it is in this batch. No state.

The kernel's hash join sees only the columns of the predicate, and says which tuples and rows belong together; what
leaves is gathered from the train and the table as they are. It leaves in the order of the tuples, then of the rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.pairing import Pairing
from penstock.algebra.hidden import carried
from penstock.boxes.table_join.box import TableJoin
from penstock.operators.protocol import Departures

_NUMBER: Final = "#"
_NO_ROW: Final = -1
_GATHERED: Final = 1 << 20
"""Pairs gathered at a time, so that no column of text outgrows an Arrow array."""


class LookupOp:
    """Inner and left: pairs of a tuple and a row leave; with left, also a tuple that has found no row."""

    def __init__(self, box: TableJoin, needed: Collection[str], rows: pa.Table) -> None:
        self._left = box.how == "left"
        columns = [one for one in box.pairing.columns if one[0] in needed]
        self._columns = columns or [(box.name_of(c), 0, c) for c in sorted(*box.required([frozenset()]))[:1]]
        self._rows = rows
        self._match = _Match(box.pairing, rows, "t.{n} AS tuple, r.{n} AS row", "JOIN")

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        found = self._match.of(tuples)
        at, row = found.column("tuple").to_numpy(), found.column("row").to_numpy()
        row_of = np.full(tuples.num_rows, _NO_ROW)
        row_of[at] = row
        matched = row_of != _NO_ROW
        once = np.count_nonzero(matched) == len(at)
        if once and (self._left or matched.all()):
            yield 0, self._gathered(tuples, None, row_of)
        elif once and len(at):
            yield 0, self._gathered(tuples, np.flatnonzero(matched), row_of[matched])
        elif len(at):
            if self._left:
                alone = np.flatnonzero(~matched)
                at, row = np.append(at, alone), np.append(row, np.full(len(alone), _NO_ROW))
            order = np.lexsort((row, at))
            yield 0, self._gathered(tuples, at[order], row[order])

    def _gathered(self, tuples: pa.Table, at: Any, rows: Any) -> pa.Table:
        """The pairs of tuple `at[i]` and row `rows[i]`; all tuples in their order where `at` is None."""
        shown = [*self._columns, *((name, 0, name) for name in carried(tuples))]
        pieces = []
        for start in range(0, len(rows), _GATHERED):
            piece = slice(start, start + _GATHERED)
            row = pa.array(rows[piece], mask=rows[piece] == _NO_ROW)
            mine = tuples.slice(start, _GATHERED) if at is None else None
            tuple_at = None if at is None else pa.array(at[piece])
            columns = [
                self._rows.column(column).take(row)
                if side
                else (tuples.column(column).take(tuple_at) if mine is None else mine.column(column))
                for _, side, column in shown
            ]
            pieces.append(pa.table(columns, names=[name for name, _, _ in shown]))
        return pa.concat_tables(pieces)


class ExistsOp:
    """Semi and anti: the tuples leave for which there is a row, or for which there is none, as they came."""

    def __init__(self, box: TableJoin, rows: pa.Table) -> None:
        self._anti = box.how == "anti"
        # Without an equality DuckDB plans a semi join as a merge of ranges, which loses NULLs (2.0.0).
        hashed = bool(box.pairing.equalities)
        select, join = ("t.{n} AS tuple", "SEMI JOIN") if hashed else ("DISTINCT t.{n} AS tuple", "JOIN")
        self._match = _Match(box.pairing, rows, select, join)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        chosen = np.full(tuples.num_rows, self._anti)
        chosen[self._match.of(tuples).column("tuple").to_numpy()] = not self._anti
        if chosen.all():
            yield 0, tuples
        elif chosen.any():
            yield 0, tuples.filter(pa.array(chosen))


class _Match:
    """The kernel's part: numbers of tuples and rows for which the predicate holds."""

    def __init__(self, pairing: Pairing, rows: pa.Table, select: str, join: str) -> None:
        self._pairing = pairing
        self._rows = self._side(rows, 1)
        shown = select.format(n=kernel.quote(_NUMBER))
        predicate = pairing.predicate.sql if pairing.predicate is not None else "true"
        self._sql = f"SELECT {shown} FROM tuples AS t {join} known AS r ON ({predicate})"

    def of(self, tuples: pa.Table) -> pa.Table:
        return kernel.run(self._sql, tuples=self._side(tuples, 0), known=self._rows)

    def _side(self, table: pa.Table, side: int) -> pa.Table:
        """What the predicate sees of a side, under the names that it uses; and the numbers of the rows."""
        used = self._pairing.predicate.columns if self._pairing.predicate is not None else ()
        columns = {
            name: table.column(column) for name in used for of, column in [self._pairing.side_of(name)] if of == side
        }
        return pa.table({**columns, _NUMBER: np.arange(table.num_rows)})
