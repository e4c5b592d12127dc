"""Which rows can be elements of a temporal stream, whatever came before them, and why others cannot.

What depends on other elements, such as an adjust of an event that does not exist, is found behind the input
(`penstock.boxes.legal`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import why_out_of_range
from penstock.algebra.temporal.elements import ADJUST, INSERT
from penstock.algebra.ticks import out_of_range, to_ticks

STABLE: Final = "stable"
"""The kind of a row that is no element of an event: it states that everything before its start is stable."""
_KINDS: Final = (INSERT, ADJUST, STABLE)


@dataclass(frozen=True)
class Lifetimes:
    """The columns of rows that are not payload."""

    kind: pa.Array
    start: pa.Array
    end: pa.Array
    old: pa.Array

    @property
    def sync(self) -> pa.Array:
        """The time that stable points are measured by."""
        # NULL is infinity, so the other one is smaller.
        ends_first = pc.coalesce(pc.less(self.end, self.old), pc.is_null(self.old))
        return pc.if_else(self.of_kind(ADJUST), pc.if_else(ends_first, self.end, self.old), self.start)

    def of_kind(self, kind: str) -> pa.Array:
        """A mask of the rows of a kind."""
        return pc.fill_null(pc.equal(self.kind, kind), False)


@dataclass(frozen=True)
class Names:
    """What the columns of rows are called."""

    start: str = "vs"
    end: str = "ve"
    old: str = "vold"
    kind: str = "kind"


def reasons(rows: Lifetimes, names: Names, *, insert_only: bool) -> pa.Array | None:
    """Why each row is no element, NULL where it is one; None if all are."""
    found = [(mask, why) for mask, why in _wrong(rows, names, insert_only) if pc.any(mask).as_py()]
    if not found:
        return None
    nothing = pa.scalar(None, pa.string())
    return reduce(pc.coalesce, (pc.if_else(mask, pa.scalar(why), nothing) for mask, why in found))


def _wrong(rows: Lifetimes, names: Names, insert_only: bool) -> Iterator[tuple[pa.Array, str]]:
    """What can be wrong with rows: where it is, and what is said of it. The first reason counts."""
    known = pc.is_in(rows.kind, pa.array(_KINDS))
    yield pc.invert(known), f"{names.kind} is none of {', '.join(_KINDS)}"
    yield pc.is_null(rows.start), f"{names.start} is NULL: every event has a start"
    for name, times in ((names.start, rows.start), (names.end, rows.end), (names.old, rows.old)):
        far = out_of_range(to_ticks(times, wrap=True), times.type)
        hint = "" if name == names.start else "; an event without an end has NULL there"
        yield pc.fill_null(far, False), why_out_of_range(name) + hint
    inserts, adjusts = rows.of_kind(INSERT), rows.of_kind(ADJUST)
    if insert_only:
        yield adjusts, "adjusts an event, but the input was declared with insert_only=True"
    yield _both(inserts, pc.is_valid(rows.old)), f"{names.old} is given, but an insert has no old end"
    yield _both(inserts, pc.less_equal(rows.end, rows.start)), f"{names.end} is not after {names.start}"
    yield _both(adjusts, pc.less(rows.end, rows.start)), f"{names.end} is before {names.start}"
    yield _both(adjusts, pc.less_equal(rows.old, rows.start)), f"{names.old} is not after {names.start}"
    same = pc.or_kleene(pc.equal(rows.old, rows.end), pc.and_(pc.is_null(rows.old), pc.is_null(rows.end)))
    yield _both(adjusts, same), f"{names.end} is {names.old}: an adjust must change the end"


def _both(mask: pa.Array, wrong: pa.Array) -> pa.Array:
    """Rows of a mask of which something is wrong; what is unknown of infinity is not."""
    return pc.and_(mask, pc.fill_null(wrong, False))
