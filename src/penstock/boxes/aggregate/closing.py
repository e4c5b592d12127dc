"""What windows that close need to know of their tuples, as SQL: partial aggregates merged, held values, finals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED

WINDOW = "#window"
PARTIAL = "partial"
"""The part of an aggregate's traffic and state that holds decomposed aggregates; held values go by their own names."""
WHOLE = "whole"
"""The part with the tuples that Python functions are called with."""
TICK = "#tick"


def close_query(
    aggregation: Aggregation,
    keys: Sequence[str],
    rows: Callable[[str, bool], str],
    arrived: int | None = None,
    *,
    one_window: bool = False,
) -> str:
    """One row for every value of the keys: these, the outputs in SQL, and the smallest `ARRIVED`.

    `rows(part, distinct)` is SQL of the rows of a part, once for every closing window, which is the first of the keys.
    `arrived` is given where all rows arrived together, so that there is no smallest to look for. The rows of
    `one_window` need not be put in the order of windows.
    """
    names = [quote(k) for k in keys]
    smallest = f"min({quote(ARRIVED)})" if arrived is None else f"{arrived}::BIGINT"
    merges = (*aggregation.counted_merges, (ARRIVED, smallest))
    select = ", ".join([*names, *(f"{sql} AS {quote(name)}" for name, sql in merges)])
    with_parts = [f"merged AS (SELECT {select} FROM ({rows(PARTIAL, False)}) GROUP BY {', '.join(names)})"]
    joins = ""
    for values in aggregation.held:
        results = ", ".join([*names, *(f"{sql} AS {quote(name)}" for name, sql in values.results)])
        source = rows(values.name, values.distinct)
        with_parts.append(f"{values.name} AS (SELECT {results} FROM ({source}) GROUP BY {', '.join(names)})")
        match = " AND ".join(f"merged.{k} IS NOT DISTINCT FROM {values.name}.{k}" for k in names)
        joins += f" LEFT JOIN {values.name} ON {match}"
    out_keys = ", ".join(f"merged.{k} AS {k}" for k in names)
    finals = "".join(f", {sql} AS {quote(name)}" for name, sql in (*aggregation.finals, (ARRIVED, quote(ARRIVED))))
    order = "" if one_window else f" ORDER BY merged.{names[0]}"
    return f"WITH {', '.join(with_parts)} SELECT {out_keys}{finals} FROM merged{joins}{order}"


def table_name(part: str) -> str:
    """What the rows of a part are called in SQL."""
    return f"part_{part}"
