"""Sketches of the groups of `dense_groups.py`: a byte for each register of each pane and group.

Values are hashed as they come, codes once for each entry of their dictionary. A tuple is one access to the table then,
in which the largest rank stays.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.boxes.aggregate.dense_measures import Moved, Numbers
from penstock.operators.sketches.hashes import hashes
from penstock.operators.sketches.registers import dense_sketches, ranks, registers

_BYTES: Final = 8
"""Registers that take as much room as a number of another measure."""
_BLOCK: Final = 65_536
"""Tuples whose places are computed at once, so that they stay in the caches."""


class DenseRegisters:
    """Sketches of a column, for cells of tuples."""

    def __init__(self, column: str, precision: int) -> None:
        self._column, self._precision = column, precision
        self._table = np.zeros(0, np.uint8)
        self.arrays = max(1, (1 << precision) // _BYTES)

    def move(self, moved: Moved) -> None:
        before = self._table.reshape(-1, 1 << self._precision)
        places = moved(np.arange(len(before)), -1)
        known = places >= 0
        table = np.zeros((len(places), 1 << self._precision), np.uint8)
        table[known] = before[places[known]]
        self._table = table.reshape(-1)

    def takes(self, tuples: pa.RecordBatch) -> bool:
        return True

    def add(self, cells: Numbers, tuples: pa.RecordBatch) -> None:
        column = tuples.column(self._column)
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            column = column.cast(column.type.value_type)  # a NULL may hide behind a code
        hashed = hashes(column)
        if column.null_count:
            valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
            cells, hashed = cells[valid], hashed[valid]
        for at in range(0, len(cells), _BLOCK):
            part = hashed[at : at + _BLOCK]
            places = cells[at : at + _BLOCK] << self._precision
            places |= registers(part, self._precision)
            np.maximum.at(self._table, places, ranks(part))

    def sketches(self, cells: Numbers) -> pa.LargeBinaryArray:
        """What the values of some cells have come to."""
        return dense_sketches(self._table.reshape(-1, 1 << self._precision)[cells])
