"""Join with a static table (aurora.md 5.2.2.3): every tuple is looked up in the table as it is in this batch. No state.

Which tuples and rows belong together, `partners.py` says; what leaves is gathered from the train and the table as they
are. It leaves in the order of the tuples, then of the rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.algebra.hidden import carried
from penstock.boxes.table_join.box import TableJoin
from penstock.boxes.table_join.known_rows import KnownRows
from penstock.boxes.table_join.partners import partners
from penstock.operators.key_index import NONE
from penstock.operators.protocol import Departures

_GATHERED: Final = 1 << 20
"""Pairs gathered at a time, so that no column of text outgrows an Arrow array."""


class LookupOp:
    """Inner and left: pairs of a tuple and a row leave; with left, also a tuple that has found no row."""

    def __init__(self, box: TableJoin, needed: Collection[str], known: KnownRows, coded: Collection[str]) -> None:
        self._left = box.how == "left"
        columns = [one for one in box.pairing.columns if one[0] in needed]
        self._columns = columns or [(box.name_of(c), 0, c) for c in sorted(*box.required([frozenset()]))[:1]]
        self._of_rows = {
            column: known.coded(column) if name in coded and _is_text(known, column) else known.rows.column(column)
            for name, side, column in self._columns
            if side
        }
        self._partners = partners(box.pairing, known)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        found = self._partners.pairs(tuples)
        matched = found.row_of != NONE
        if found.several is not None:
            at, row = found.several
            if self._left:
                alone = np.flatnonzero(~matched)
                at, row = np.append(at, alone), np.append(row, np.full(len(alone), NONE))
            order = np.lexsort((row, at))
            yield 0, self._gathered(tuples, at[order], row[order])
        elif self._left or matched.all():
            yield 0, self._gathered(tuples, None, found.row_of)
        elif matched.any():
            yield 0, self._gathered(tuples, np.flatnonzero(matched), found.row_of[matched])

    def _gathered(self, tuples: pa.Table, at: Any, rows: Any) -> pa.Table:
        """The pairs of tuple `at[i]` and row `rows[i]`; all tuples in their order where `at` is None."""
        shown = [*self._columns, *((name, 0, name) for name in carried(tuples))]
        pieces = []
        for start in range(0, len(rows), _GATHERED):
            piece = slice(start, start + _GATHERED)
            missing = rows[piece] == NONE
            row = pa.array(rows[piece], mask=missing if missing.any() else None)
            mine = tuples.slice(start, _GATHERED) if at is None else None
            tuple_at = None if at is None else pa.array(at[piece])
            columns = [
                self._of_rows[column].take(row)
                if side
                else (tuples.column(column).take(tuple_at) if mine is None else mine.column(column))
                for _, side, column in shown
            ]
            pieces.append(pa.table(columns, names=[name for name, _, _ in shown]))
        return pa.concat_tables(pieces)


class ExistsOp:
    """Semi and anti: the tuples leave for which there is a row, or for which there is none, as they came."""

    def __init__(self, box: TableJoin, known: KnownRows) -> None:
        self._anti = box.how == "anti"
        self._partners = partners(box.pairing, known)

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        found = self._partners.found(tuples)
        chosen = ~found if self._anti else found
        if chosen.all():
            yield 0, tuples
        elif chosen.any():
            yield 0, tuples.filter(pa.array(chosen))


def _is_text(known: KnownRows, column: str) -> bool:
    return bool(pa.types.is_string(known.rows.schema.field(column).type))
