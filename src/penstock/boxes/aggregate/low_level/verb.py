"""Workload smoothing, as the Python language builds it: an aggregate whose low level has a table of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.low_level.box import AtOnce, Flush, InOrder, Lazy, LowLevel, Slow, rolled_up
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream

FLUSHES: Final = {policy.name: policy for policy in (AtOnce, Slow, Lazy, InOrder)}
TABLE: Final = 65_536
"""Entries of the table, where the user does not say: a few megabytes in every bucket."""
LARGEST_TABLE: Final = 2**31
"""Places are drawn from the upper half of a 64-bit hash."""


def smoothing(flush: str | None, table: int | None, every: int | None, delay: int | None) -> tuple[Flush, int] | None:
    """The flush policy and the size of the table, checked; None where the aggregate is not to be smoothed."""
    given = {"table": table, "every": every, "delay": delay}
    for name, value in given.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise QueryError(f"{name}= is no whole number", found=repr(value))
        if value is not None and flush is None:
            raise QueryError(
                f"{name}= says how the low level is flushed, but flush= is not given",
                expected=f"flush= one of {', '.join(FLUSHES)}",
                hint=f"add flush='slow', or leave {name}= out",
            )
    if flush is None:
        return None
    if flush not in FLUSHES:
        raise QueryError(f"flush={flush!r} is unknown", expected=f"one of {', '.join(FLUSHES)}")
    for name, value, least in (("table", table, 1), ("every", every, 1), ("delay", delay, 0)):
        if value is not None and value < least:
            raise QueryError(f"{name}={value} is too small", expected=f"{least} or more")
    if table is not None and table > LARGEST_TABLE:
        raise QueryError(f"table={table} is too large", expected=f"{LARGEST_TABLE} entries or fewer")
    return _policy(flush, every, delay), TABLE if table is None else table


def smoothed(stream: Stream, box: Aggregate, flush: Flush, table: int) -> Stream:
    """The aggregate as two boxes: the low level with its table, and the high level over what leaves it."""
    aggregation = box.aggregation
    if kept := _kept_whole(box):
        raise QueryError(
            f"flush= needs aggregates that can be taken apart, and {', '.join(kept)} cannot",
            expected="aggregates with partial results, such as count, sum, avg, min, max, first, last",
            found=", ".join(text for _, text in box.outputs),
            hint="leave flush= out: values and tuples that must be kept whole have no place in a fixed table",
        )
    low = LowLevel(f"{box.name}.low", box.inputs, aggregation, box.on, box.window, box.by, table, flush)
    behind = stream._builder._add(low)
    return stream._builder._add(replace(box, inputs=(behind._port,), aggregation=rolled_up(aggregation)))


def _policy(flush: str, every: int | None, delay: int | None) -> Flush:
    chosen = FLUSHES[flush]
    given = {name: value for name, value in (("every", every), ("delay", delay)) if value is not None}
    known = {"at-once": (), "lazy": ("delay",), "slow": ("every", "delay"), "in-order": ("every",)}[flush]
    for name in given:
        if name not in known:
            raise QueryError(
                f"{name}= says nothing of flush={flush!r}",
                expected=f"one of {', '.join(f'{k}=' for k in known)}" if known else "table= alone",
                hint=f"leave {name}= out",
            )
    return chosen(**given)


def _kept_whole(box: Aggregate) -> list[str]:
    """The outputs that are no function of partial aggregates: of values that are held, or of whole tuples."""
    aggregation = box.aggregation
    results = {name for held in aggregation.held for name, _ in held.results}
    held = {name for name, sql in aggregation.finals if not results.isdisjoint(re.findall(r"\w+", sql))}
    called = {name for call in aggregation.called for name in call.outputs}
    return [name for name in aggregation.output_schema.names if name in held | called]
