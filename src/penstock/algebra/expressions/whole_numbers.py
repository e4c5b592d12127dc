"""What is asked of a whole number and a constant, which Arrow does ten times faster than the kernel is called.

Comparisons are exact, and NULL is not true, as in SQL. Arithmetic with a floating constant, such as `len / 1e3`, is one
operation of IEEE 754 on the same two numbers, and no result is infinite. Everything else is the kernel's, and so are
columns of floating numbers: Arrow and DuckDB do not order all of them alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.expression import Expression, evaluate, mask

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
_ARITHMETIC: Final = re.compile(r'"(?:[^"]|"")+" ([-+*/]) (\d{1,15}(?:\.\d{1,15})?(?:e\d{1,2})?)')
_OPERATIONS: Final[dict[str, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
}
_DIGITS: Final = 15
"""A decimal constant of so many digits is the same floating number whoever reads it."""
_MOST: Final = 1e22
"""A larger constant may be read differently; and of whole numbers and these, no result is infinite."""


def ports(predicates: Sequence[Expression], tuples: pa.Table, number: int) -> list[Truths]:
    """For each of the ports which tuples leave by it: that of the first predicate that is true of them, or the last."""
    if len(predicates) == 1 and (found := _compared(predicates[0], tuples)) is not None:
        return [found, ~found][:number]
    chosen = np.asarray(mask(predicates, tuples))
    return [chosen == port for port in range(number)]


def values(expressions: Sequence[tuple[str, Expression]], tuples: pa.Table) -> pa.Table:
    """One column per expression, in row order; bare columns pass through untouched."""
    quick = {name: found for name, bound in expressions if (found := _calculated(bound, tuples)) is not None}
    if not quick:
        return evaluate(expressions, tuples)
    others = [(name, bound) for name, bound in expressions if name not in quick]
    known = evaluate(others, tuples)
    names = [name for name, _ in expressions]
    return pa.table([quick[name] if name in quick else known.column(name) for name in names], names=names)


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


def _calculated(expression: Expression, tuples: pa.Table) -> pa.ChunkedArray | None:
    arithmetic = _ARITHMETIC.fullmatch(expression.sql) if pa.types.is_float64(expression.type) else None
    if arithmetic is None or sum(map(str.isdigit, arithmetic[2].partition("e")[0])) > _DIGITS:
        return None
    column, constant = tuples.column(expression.columns[0]), float(arithmetic[2])
    # Under NULLs the kernel leaves zeros.
    if not pa.types.is_integer(column.type) or column.null_count or not 0 < constant <= _MOST:
        return None
    return _OPERATIONS[arithmetic[1]](column.cast(pa.float64(), safe=False), pa.scalar(constant))
