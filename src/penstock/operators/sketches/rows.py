"""Tables with a sketch in each row: made of values, merged by their keys, and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.aggregation import Held
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_numbers, repeats
from penstock.operators.sketches.hashes import hashes
from penstock.operators.sketches.registers import entries_of, estimates, merged, sketches_of

SPREAD: Final = 4
"""Places for each row, at most, where groups are numbered by a table of all whole numbers between them."""


def sketched(values: pa.Table, keys: Sequence[str], held: Held) -> pa.Table:
    """A sketch of the values of a column, none of them NULL, for each value of the keys, under the same name."""
    name, precision = _column(held)
    groups, firsts = _grouped(values, keys)
    entries = entries_of(groups, hashes(values.column(name)), precision)
    return _rows(values, keys, firsts, name, sketches_of(entries, len(firsts), precision))


def merged_rows(rows: pa.Table, keys: Sequence[str], held: Held) -> pa.Table:
    """Sketches of the same keys merged."""
    name, precision = _column(held)
    groups, firsts = _grouped(rows, keys)
    found = merged(rows.column(name), groups, len(firsts), precision)
    return _rows(rows, keys, firsts, name, found).select(rows.column_names)


def merging(held: Held, keys: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
    """How rows of sketches become fewer; unless hardly any would: then merging would be work for nothing."""

    def fewer(rows: pa.Table) -> pa.Table:
        return merged_rows(rows, keys, held) if repeats(rows, keys) else rows

    return fewer


def estimated(rows: pa.Table, keys: Sequence[str], held: Held) -> pa.Table:
    """How many different values the sketches of each value of the keys have seen."""
    name, precision = _column(held)
    whole = merged_rows(rows, keys, held)
    found = pa.array(estimates(whole.column(name), precision))
    return whole.set_column(whole.column_names.index(name), name, found)


def _column(held: Held) -> tuple[str, int]:
    """The name of the sketches, or of the values that they are made of; and the precision."""
    assert held.sketch is not None
    (name,) = held.schema.names
    return name, held.sketch.precision


def _grouped(rows: pa.Table, keys: Sequence[str]) -> tuple[Numbers, Numbers]:
    """The group of each row, and the first row of each group."""
    # Most often all rows are of one window or pane.
    groups = _numbers(rows, [key for key in keys if not _constant(rows.column(key))])
    firsts = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    firsts[groups[::-1]] = np.arange(len(groups))[::-1]
    return groups, firsts


def _numbers(rows: pa.Table, keys: Sequence[str]) -> Numbers:
    """A number for each group; where one whole number tells them apart, that is less by the least, without gaps."""
    if len(keys) == 1 and _whole(rows.column(keys[0])):
        column = rows.column(keys[0])
        least, most = (bound.as_py() for bound in pc.min_max(column).values())
        if most - least < SPREAD * rows.num_rows:
            places = column.to_numpy().astype(np.int64) - least
            there = np.zeros(most - least + 1, np.bool_)
            there[places] = True
            found: Numbers = (np.cumsum(there) - 1)[places]
            return found
    return group_numbers(rows, keys)


def _constant(column: pa.ChunkedArray) -> bool:
    if not len(column) or not _whole(column):
        return False
    bounds = pc.min_max(column)
    return bool(bounds["min"] == bounds["max"])


def _whole(column: pa.ChunkedArray) -> bool:
    """Whether all values are whole numbers of 64 bits, none NULL."""
    return pa.types.is_integer(column.type) and column.type != pa.uint64() and not column.null_count and len(column) > 0


def _rows(table: pa.Table, keys: Sequence[str], firsts: Numbers, name: str, found: pa.Array) -> pa.Table:
    return table.select(list(keys)).take(pa.array(firsts)).append_column(name, found)
