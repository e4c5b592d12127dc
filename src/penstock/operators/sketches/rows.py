"""Tables with a sketch in each row: made of values, merged by their keys, and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions.aggregation import Held
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_numbers
from penstock.operators.sketches.hashes import hashes
from penstock.operators.sketches.registers import entries_of, estimates, merged, sketches_of


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
    """How rows of sketches become fewer."""
    return partial(merged_rows, keys=keys, held=held)


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
    groups = group_numbers(rows, keys)
    firsts = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    firsts[groups[::-1]] = np.arange(len(groups))[::-1]
    return groups, firsts


def _rows(table: pa.Table, keys: Sequence[str], firsts: Numbers, name: str, found: pa.Array) -> pa.Table:
    return table.select(list(keys)).take(pa.array(firsts)).append_column(name, found)
