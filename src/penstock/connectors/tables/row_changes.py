"""What has changed between two contents of a table: rows that came, and rows that left.

A table is a set with duplicates. A row that has another value in one column is another row.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel

_PLACE: Final = "place"


def rows_beyond(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows that `others` has not, or not as often, in their order.

    >>> rows_beyond(pa.table({"x": [1, 2, 2, None]}), pa.table({"x": [2, 1]}))["x"].to_pylist()
    [2, None]
    """
    names = [f"c{at}" for at in range(rows.num_columns)]
    alike = " AND ".join(f"mine.{name} IS NOT DISTINCT FROM theirs.{name}" for name in (*names, "copy"))
    # Equal rows are told apart by their number among their like: so each stands for one of the others.
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY {_PLACE}) AS copy FROM"
    found = kernel.run(
        f"WITH mine AS ({numbered} left_rows), theirs AS ({numbered} right_rows) "
        f"SELECT {_PLACE} FROM mine ANTI JOIN theirs ON {alike} ORDER BY {_PLACE}",
        left_rows=_placed(rows, names),
        right_rows=_placed(others, names),
    )
    return rows.take(found[_PLACE])


def _placed(rows: pa.Table, names: list[str]) -> pa.Table:
    return rows.rename_columns(names).append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
