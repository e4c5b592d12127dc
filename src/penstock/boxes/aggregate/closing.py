"""What windows that close need to know of their tuples, as SQL: partial aggregates merged, held values, finals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.algebra.expressions.aggregation import Aggregation
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED

WINDOW = "#window"
PARTIAL = "partial"
"""The part of an aggregate's traffic and state that holds decomposed aggregates; held values go by their own names."""
TUPLES = "tuples"
"""The part of its traffic with tuples that were not worth reducing before they are together with all others."""
WHOLE = "whole"
"""The part with the tuples that Python functions are called with."""
TICK = "#tick"


def close_query(
    aggregation: Aggregation,
    keys: Sequence[str],
    rows: Callable[[str], str],
    arrived: int | None = None,
    only: int | None = None,
) -> str:
    """One row for every value of the keys: these, the outputs in SQL, and the smallest `ARRIVED`.

    `rows(part)` is SQL of the rows of a part, once for every closing window, which is the first of the keys. `arrived`
    is given where all rows arrived together, so that there is no smallest to look for; `only` where all are of one
    window, so that rows are grouped by the other keys and there is nothing to sort.
    """
    names = [quote(k) for k in keys]
    groups = names[1:] if only is not None and len(names) > 1 else names
    chosen = names if groups == names else [f"{only}::BIGINT AS {names[0]}", *groups]
    smallest = f"min({quote(ARRIVED)})" if arrived is None else f"{arrived}::BIGINT"
    merges = (*aggregation.counted_merges, (ARRIVED, smallest))
    select = ", ".join([*chosen, *(f"{sql} AS {quote(name)}" for name, sql in merges)])
    with_parts = [f"merged AS (SELECT {select} FROM ({rows(PARTIAL)}) GROUP BY {', '.join(groups)})"]
    joins = ""
    for values in aggregation.held:
        # Where equal values count once, the results say so themselves.
        results = ", ".join([*chosen, *(f"{sql} AS {quote(name)}" for name, sql in values.results)])
        source = rows(values.name)
        with_parts.append(f"{values.name} AS (SELECT {results} FROM ({source}) GROUP BY {', '.join(groups)})")
        match = " AND ".join(f"merged.{k} IS NOT DISTINCT FROM {values.name}.{k}" for k in names)
        joins += f" LEFT JOIN {values.name} ON {match}"
    out_keys = ", ".join(f"merged.{k} AS {k}" for k in names)
    finals = "".join(f", {sql} AS {quote(name)}" for name, sql in (*aggregation.finals, (ARRIVED, quote(ARRIVED))))
    order = f" ORDER BY merged.{names[0]}" if only is None else ""
    return f"WITH {', '.join(with_parts)} SELECT {out_keys}{finals} FROM merged{joins}{order}"


def all_rows(part: str) -> str:
    """SQL of the rows of a part, where they are those of windows already."""
    return f"SELECT * FROM {table_name(part)}"


def table_name(part: str) -> str:
    """What the rows of a part are called in SQL."""
    return f"part_{part}"
