"""Sketches in the low-level half of an aggregate: of tuples that are counted directly, and of those that are hashed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Held
from penstock.boxes.aggregate.sketches.dense_registers import DenseRegisters
from penstock.operators.sketches.rows import sketched

Registers = tuple[tuple[str, DenseRegisters], ...]
"""By the name of the held values that they stand for."""


def of_own_column(held: Held, schema: pa.Schema) -> bool:
    """Whether the values of a sketch are a column of tuples as it is: the kernel would hash the same values."""
    columns, _ = held.bare
    return held.sketch is not None and columns is not None and schema.field(columns[0]).type == held.sketch.kind


def dense_registers(held: Sequence[Held]) -> Registers:
    """What makes sketches of tuples whose cells are known, all of columns as they are."""
    found = []
    for values in held:
        columns, _ = values.bare
        if values.sketch is not None and columns is not None:
            found.append((values.name, DenseRegisters(columns[0], values.sketch.precision)))
    return tuple(found)


def sketches_of(held: Held, tuples: pa.Table, keys: Sequence[str], query: str, *, own: bool) -> pa.Table:
    """A sketch for each value of the keys. `query` gives the values; who has `own` values need not ask it."""
    ((name, _),) = held.values
    columns, present = held.bare
    if own and columns is not None:
        found = pa.table([tuples.column(each) for each in (*keys, *columns)], names=[*keys, name])
        if present is not None and found.column(name).null_count:
            found = found.filter(pc.is_valid(found.column(name)))
    else:
        found = kernel.run(query, tuples=tuples)
    return sketched(found, keys, held)
