"""Comparisons of a whole number with a constant, which Arrow does ten times faster than the kernel is called.

They are exact, and NULL is not true, as in SQL. Everything else is the kernel's, and so are floating numbers: Arrow and
DuckDB do not order all of them alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.expression import Expression, mask

Truths = npt.NDArray[np.bool_]

_COMPARISON: Final = re.compile(r'"(?:[^"]|"")+" (=|<>|<=|>=|<|>) (\d{1,18})')
_KERNELS: Final[dict[str, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def ports(predicates: Sequence[Expression], tuples: pa.Table) -> npt.NDArray[np.int32]:
    """For every tuple the index of the first predicate that is true of it, or their number."""
    if len(predicates) == 1 and (found := _compared(predicates[0], tuples)) is not None:
        return np.where(found, np.int32(0), np.int32(1))
    return np.asarray(mask(predicates, tuples))


def truths(predicate: Expression, tuples: pa.Table) -> Truths:
    """Of which tuples a predicate is true."""
    found = _compared(predicate, tuples)
    return found if found is not None else np.asarray(mask([predicate], tuples)) == 0


def _compared(predicate: Expression, tuples: pa.Table) -> Truths | None:
    comparison = _COMPARISON.fullmatch(predicate.sql)
    if comparison is None:
        return None
    column = tuples.column(predicate.columns[0])
    if not pa.types.is_integer(column.type):
        return None
    try:
        constant = pa.scalar(int(comparison[2]), column.type)
    except (pa.ArrowInvalid, OverflowError):
        return None
    found = _KERNELS[comparison[1]](column, constant)
    return np.asarray(found.fill_null(False) if found.null_count else found)
