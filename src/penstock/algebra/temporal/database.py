"""Temporal databases: the events that elements stand for (lmerge.md III-A).

```
 insert(A, 6, 20)  adjust(A, 6, 20, 30)  adjust(A, 6, 30, 25)   ──tdb──>   <A, 6, 25>
```

Any prefix of a stream can be turned into its database. Streams are equivalent if their databases are equal, whatever
their elements look like.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.temporal.elements import ADJUST, COLUMNS, INSERT, KIND, VE, VOLD, VS, payload_names
from penstock.errors import QueryError

LIFETIME: Final = (KIND, VS, VE, VOLD)
"""The columns by which elements make a database; `sync` follows from them."""


def tdb(elements: pa.Table) -> pa.Table:
    """The events that elements, in order of arrival, stand for: the columns of the payload, `vs` and `ve`.

    Equal events stay as many as there are. The order of the rows says nothing, and is always the same.

    >>> from penstock.algebra.temporal.elements import element_schema
    >>> schema = element_schema([pa.field("p", pa.string())], pa.int64())
    >>> rows = [(6, "insert", 6, 20, None, "A"), (20, "adjust", 6, 30, 20, "A"), (25, "adjust", 6, 25, 30, "A")]
    >>> tdb(pa.Table.from_pylist([dict(zip(schema.names, row)) for row in rows], schema)).to_pylist()
    [{'p': 'A', 'vs': 6, 've': 25}]
    """
    _refuse_unshaped(elements)
    payload = payload_names(elements.column_names)
    if not elements.num_rows:
        return elements.select([*payload, VS, VE])
    numbered = elements.select([*payload, *LIFETIME]).append_column("#row", pa.array(np.arange(elements.num_rows)))
    _refuse_impossible(numbered)
    _refuse_missing(numbered, payload)
    keys = _quoted([*payload, VS])
    counted = (
        f'SELECT any_value("#row") FILTER ("#n" > 0) AS "#row", CAST(sum("#n") AS BIGINT) AS "#n" '
        f'FROM ({_changes(payload)}) GROUP BY {keys}, "#end" HAVING sum("#n") > 0 '
        f'ORDER BY {_quoted([VS, *payload])}, "#end" NULLS LAST'
    )
    found = kernel.run(counted, elements=numbered)
    rows = np.repeat(found.column("#row").to_numpy(), found.column("#n").to_numpy())
    return elements.select([*payload, VS, VE]).take(pa.array(rows, pa.int64()))


def equivalent(a: pa.Table, b: pa.Table) -> bool:
    """Whether the elements of two prefixes stand for the same database."""
    one, other = tdb(a), tdb(b)
    names = one.column_names
    if set(names) != set(other.column_names):
        raise QueryError(
            "elements of different payloads cannot be compared",
            expected=", ".join(names),
            found=", ".join(other.column_names),
        )
    return same_events(one, other.select(names))


def same_events(one: pa.Table, other: pa.Table) -> bool:
    """Whether two databases have the same events, each as often. NULLs are equal, as keys of groups are."""
    if one.num_rows != other.num_rows:
        return False
    beyond = "SELECT count(*) AS n FROM (SELECT * FROM one EXCEPT ALL SELECT * FROM other)"
    return bool(kernel.run(beyond, one=one, other=other).column("n")[0].as_py() == 0)


def _changes(payload: list[str]) -> str:
    """Every element as what it takes away and what it adds, in this order."""
    keys = _quoted([*payload, VS])
    took = f'SELECT {keys}, vold AS "#end", -1 AS "#n", 2 * "#row" AS "#place", "#row" FROM elements'
    added = f'SELECT {keys}, ve AS "#end", 1 AS "#n", 2 * "#row" + 1 AS "#place", "#row" FROM elements'
    return f"{took} WHERE kind = '{ADJUST}' UNION ALL {added} WHERE ve IS DISTINCT FROM vs"


def _refuse_unshaped(elements: pa.Table) -> None:
    missing = [name for name in LIFETIME if name not in elements.column_names]
    if missing:
        raise QueryError(
            f"elements need a column '{missing[0]}'",
            expected=f"{', '.join(COLUMNS)} and the payload; sync may be left out",
            found=", ".join(elements.column_names),
        )


def _refuse_impossible(elements: pa.Table) -> None:
    """Refuse elements that no stream can have."""
    why = (
        f"CASE WHEN kind IS NULL OR kind NOT IN ('{INSERT}', '{ADJUST}') "
        f"THEN 'is neither {INSERT} nor {ADJUST}' "
        "WHEN vs IS NULL THEN 'does not say when its event begins' "
        f"WHEN kind = '{INSERT}' AND ve <= vs THEN 'inserts an event that does not end after it begins' "
        "WHEN ve < vs THEN 'ends its event before it begins' END"
    )
    sql = f'SELECT "#row", {why} AS why FROM elements WHERE {why} IS NOT NULL ORDER BY "#row" LIMIT 1'
    _refuse_first(elements, kernel.run(sql, elements=elements))


def _refuse_missing(elements: pa.Table, payload: list[str]) -> None:
    """Refuse an adjust of an event that is not there when it comes."""
    if ADJUST not in elements.column(KIND).unique().to_pylist():
        return
    left = f'sum("#n") OVER (PARTITION BY {_quoted([*payload, VS])}, "#end" ORDER BY "#place")'
    sql = (
        f"SELECT \"#row\", 'adjusts an event that is not there' AS why "
        f'FROM (SELECT "#row", {left} AS "#left" FROM ({_changes(payload)})) '
        f'WHERE "#left" < 0 ORDER BY "#row" LIMIT 1'
    )
    _refuse_first(elements, kernel.run(sql, elements=elements))


def _refuse_first(elements: pa.Table, found: pa.Table) -> None:
    for row, why in zip(found.column("#row").to_pylist(), found.column("why").to_pylist(), strict=True):
        element = elements.drop_columns(["#row"]).slice(row, 1).to_pylist()[0]
        raise QueryError(f"element {row + 1} {why}", found=", ".join(f"{n}={v!r}" for n, v in element.items()))


def _quoted(names: list[str]) -> str:
    return ", ".join(quote(name) for name in names)
