"""Compatibility: whether the output of a merge can still follow whatever its inputs do (lmerge.md III-D).

```
                        Ve < Vc             fully frozen (FF): never changes again
 Vs < Vc and            Vc <= Ve            half frozen (HF): stays, its end may change, but not to before Vc
 otherwise                                  unfrozen (UF): may go away
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.temporal.database import tdb
from penstock.algebra.temporal.elements import INSERT, KIND, SYNC, VE, VOLD, VS, element_schema, payload_names
from penstock.algebra.ticks import BEGINNING, END, tick_of, tick_text, to_ticks
from penstock.errors import QueryError

MOST_VIOLATIONS: Final = 20
"""So many are told of each condition."""


@dataclass(frozen=True)
class Prefix:
    """What has been seen of a temporal stream: its elements, in order of arrival, and its last stable point."""

    elements: pa.Table
    stable: Any = None
    """A value of the time; None if there was no stable point yet, `math.inf` after the end."""

    @staticmethod
    def of_events(events: pa.Table, stable: Any = None) -> Prefix:
        """A prefix that stands for these events: the columns of the payload, `vs` and `ve`."""
        payload = [field for field in events.schema if field.name not in (VS, VE)]
        schema = element_schema(payload, events.schema.field(VS).type)
        rows = events.num_rows
        given = {
            SYNC: events.column(VS),
            KIND: pa.repeat(pa.scalar(INSERT), rows),
            VOLD: pa.nulls(rows, schema.field(VOLD).type),
        }
        columns = [given[name] if name in given else events.column(name) for name in schema.names]
        return Prefix(pa.table(columns, schema=schema), stable)

    @cached_property
    def events(self) -> pa.Table:
        """Its database."""
        return tdb(self.elements)

    @property
    def mark(self) -> int:
        """The stable point in ticks."""
        if self.stable is None:
            return BEGINNING
        if isinstance(self.stable, float) and math.isinf(self.stable):
            return END if self.stable > 0 else BEGINNING
        return tick_of(self.stable, self.elements.schema.field(VS).type)


@dataclass(frozen=True)
class Violation:
    """A condition that does not hold."""

    condition: str
    reason: str
    event: dict[str, Any] | None = None
    """The payload and the Vs for which it does not hold."""

    def __str__(self) -> str:
        of = "" if self.event is None else f" for {', '.join(f'{n}={v!r}' for n, v in self.event.items())}"
        return f"{self.condition}{of}: {self.reason}"


@dataclass(frozen=True)
class Compatibility:
    """True if no condition is violated."""

    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        return "compatible" if self else "; ".join(map(str, self.violations))


def compatible(output: Prefix, inputs: Sequence[Prefix]) -> Compatibility:
    """Whether an output can still follow its inputs, which are copies of one stream: conditions C1 to C3.

    Where an input has several events of one payload and Vs, these are compared with those of the input that is
    furthest: the same that are fully frozen at the output's stable point, and as many that are half frozen.

    Of an event that is half frozen in the output C2 asks for one that is half frozen in some input. It does not ask
    which of the two stable points is the larger: as printed it must be the output's, by its reason and by C3 the
    input's. An event that is half frozen anywhere stays for good, and C3 looks at its end.
    """
    if not inputs:
        raise QueryError("compatibility is asked of one input at least")
    leading = max(range(len(inputs)), key=lambda at: (inputs[at].mark, -at))
    furthest, mark = inputs[leading].mark, output.mark
    violations = []
    if mark > furthest:
        kind = output.elements.schema.field(VS).type
        reason = f"the output is stable up to {tick_text(mark, kind)}, its inputs to {tick_text(furthest, kind)}"
        violations.append(Violation("C1", reason))
    keyed, keys = _keyed([output, *inputs])
    several = "SELECT 1 AS n FROM events WHERE stream > 0 GROUP BY stream, key HAVING count(*) > 1 LIMIT 1"
    checks = _MANY if kernel.run(several, events=keyed).num_rows else _SINGLE
    for condition, reason, sql in checks:
        query = f"{_STREAMS.format(mark=mark, leading=leading + 1)} {sql} ORDER BY key LIMIT {MOST_VIOLATIONS}"
        for key in kernel.run(query, events=keyed).column("key").to_pylist():
            violations.append(Violation(condition, reason, keys.slice(key, 1).to_pylist()[0]))
    return Compatibility(tuple(violations))


def _keyed(prefixes: Sequence[Prefix]) -> tuple[pa.Table, pa.Table]:
    """All events as (stream, mark, key, vs, ve) in ticks, the output being stream 0; and what every key is."""
    payload = payload_names(prefixes[0].elements.column_names)
    databases = [prefix.events.select([*payload, VS, VE]) for prefix in prefixes]
    sizes = [each.num_rows for each in databases]
    whole = pa.concat_tables(databases)
    named = ", ".join(quote(name) for name in (VS, *payload))
    rows = whole.select([*payload, VS]).append_column("#row", pa.array(np.arange(whole.num_rows)))
    ranks = f'SELECT dense_rank() OVER (ORDER BY {named}) - 1 AS key FROM events ORDER BY "#row"'
    key = kernel.run(ranks, events=rows).column("key").to_numpy()
    _, first = np.unique(key, return_index=True)
    table = pa.table(
        {
            "stream": np.repeat(np.arange(len(prefixes)), sizes),
            "mark": np.repeat(np.array([prefix.mark for prefix in prefixes], np.int64), sizes),
            "key": key,
            "vs": to_ticks(whole.column(VS)),
            "ve": pc.fill_null(to_ticks(whole.column(VE)), END),
        }
    )
    return table, whole.select([*payload, VS]).take(pa.array(first))


_STREAMS: Final = """
WITH frozen AS (
  SELECT *, CASE WHEN ve < mark THEN 'FF' WHEN vs < mark THEN 'HF' ELSE 'UF' END AS state FROM events
), o AS (SELECT * FROM frozen WHERE stream = 0), i AS (SELECT * FROM frozen WHERE stream > 0),
l AS (SELECT CAST({mark} AS BIGINT) AS mark), leader AS (SELECT * FROM i WHERE stream = {leading})"""
"""`o` is the output, `i` all inputs, `l.mark` the output's stable point."""

_SINGLE: Final = (
    ("C2", "the output has more than one event", "SELECT key FROM o GROUP BY key HAVING count(*) > 1"),
    (
        "C2",
        "it is half frozen in the output, but in no input that can still be followed",
        """SELECT DISTINCT o.key FROM o, l WHERE o.state = 'HF' AND NOT EXISTS (SELECT 1 FROM i WHERE i.key = o.key
        AND (i.state = 'HF' OR (i.state = 'FF' AND l.mark <= i.ve)))""",
    ),
    (
        "C2",
        "it is fully frozen in the output, but in no input with that end",
        """SELECT DISTINCT o.key FROM o WHERE o.state = 'FF' AND NOT EXISTS (
        SELECT 1 FROM i WHERE i.key = o.key AND i.ve = o.ve AND i.state = 'FF')""",
    ),
    (
        "C3",
        "it is fully frozen in an input, and the output can no longer have it",
        """SELECT DISTINCT i.key FROM i, l WHERE i.state = 'FF' AND l.mark > i.vs
        AND NOT (l.mark <= i.ve AND EXISTS (SELECT 1 FROM o WHERE o.key = i.key AND o.state = 'HF'))
        AND NOT (i.ve < l.mark AND EXISTS (SELECT 1 FROM o WHERE o.key = i.key AND o.ve = i.ve))""",
    ),
    (
        "C3",
        "it is half frozen in an input, and the output cannot follow it",
        """SELECT i.key FROM i, l GROUP BY i.key, i.vs, l.mark
        HAVING count(*) FILTER (i.state = 'FF') = 0 AND count(*) FILTER (i.state = 'HF') > 0 AND l.mark > i.vs
        AND NOT (l.mark <= max(i.mark) FILTER (i.state = 'HF')
                 AND EXISTS (SELECT 1 FROM o WHERE o.key = i.key AND o.state = 'HF'))""",
    ),
)
"""The conditions where a payload and a Vs have one event: the keys for which each does not hold."""

_MANY: Final = (
    (
        "R4",
        "the events that are fully frozen in the output are not those of the input",
        """SELECT key FROM (SELECT key, ve, 1 AS n FROM o, l WHERE ve < l.mark
        UNION ALL SELECT key, ve, -1 FROM leader, l WHERE ve < l.mark) GROUP BY key, ve HAVING sum(n) <> 0""",
    ),
    (
        "R4",
        "the output does not have as many half frozen events as the input",
        """SELECT key FROM (SELECT key, 1 AS n FROM o, l WHERE vs < l.mark AND l.mark <= ve
        UNION ALL SELECT key, -1 FROM leader, l WHERE vs < l.mark AND l.mark <= ve) GROUP BY key HAVING sum(n) <> 0""",
    ),
)
"""The same where they may have several, as at the end of III-D."""
