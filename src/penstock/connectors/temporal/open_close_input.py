"""`pk.temporal(..., form="open-close")`: an input whose rows open and close events (lmerge.md III-A, example 3).

```
 kind    at  p            sync  kind   at  p
 open     2  B              2   open    2  B
 close    6  B      ──>     6   close   6  B     and behind the input: insert(B, 2, infinity), adjust(B, 2, infinity, 6)
 stable   4               punctuation: sync >= 4
```

Rows that are what a network has written bring `sync` along; then a close may have NULL as its time, and takes back that
the event ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import why_out_of_range
from penstock.algebra.temporal.elements import COLUMNS, KIND, SYNC
from penstock.algebra.temporal.open_close import AT, CLOSE, OPEN, open_close_schema
from penstock.algebra.ticks import out_of_range, to_ticks
from penstock.connectors.temporal.legal_rows import STABLE
from penstock.connectors.temporal.temporal_rows import Reading, TemporalRows

_KINDS: Final = (OPEN, CLOSE, STABLE)


@dataclass(frozen=True)
class OpenCloseInput(TemporalRows):
    """An input of opens and closes."""

    def shaped(self, found: pa.Schema) -> tuple[OpenCloseInput, pa.Schema]:
        given = replace(self, found=found)
        time = given.require({"start": self.names.start, "kind": self.names.kind}, (*COLUMNS, AT))
        given.require_type(SYNC, time)
        return given, open_close_schema((found.field(name) for name in given.payload), time)

    @property
    def payload(self) -> Sequence[str]:
        own = {SYNC, self.names.start, self.names.kind}
        return [name for name in self.found.names if name not in own]

    def describe(self) -> str:
        return f"opens and closes from {self.rows.describe()}"

    def taken_for(self, rows: pa.RecordBatch) -> Reading:
        at, kind = rows.column(self.names.start), rows.column(self.names.kind)
        sync = rows.column(SYNC) if SYNC in rows.schema.names else at
        stable = _is(kind, STABLE)
        found = [(mask, why) for mask, why in self._wrong(kind, at, sync, stable) if pc.any(mask).as_py()]
        nothing = pa.scalar(None, pa.string())
        told = [pc.if_else(mask, pa.scalar(why), nothing) for mask, why in found]
        return Reading({SYNC: sync, KIND: kind, AT: at}, reduce(pc.coalesce, told) if told else None, stable, at)

    def _wrong(self, kind: pa.Array, at: pa.Array, sync: pa.Array, stable: pa.Array) -> Iterator[tuple[pa.Array, str]]:
        """What can be wrong with rows: where it is, and what is said of it. The first reason counts."""
        name = self.names.start
        yield pc.invert(pc.is_in(kind, pa.array(_KINDS))), f"{self.names.kind} is none of {', '.join(_KINDS)}"
        reopens = pc.and_(_is(kind, CLOSE), pc.is_valid(sync))
        yield pc.and_not(pc.is_null(at), reopens), f"{name} is NULL: an open or a close has a time"
        yield pc.fill_null(out_of_range(to_ticks(at, wrap=True), at.type), False), why_out_of_range(name)
        opens, different = _is(kind, OPEN), pc.fill_null(pc.not_equal(sync, at), True)
        wrong = pc.or_(pc.and_(opens, different), pc.fill_null(pc.greater(sync, at), False))
        yield pc.and_not(wrong, stable), f"{SYNC} is not what follows from the other columns"


def _is(kind: pa.Array, wanted: str) -> pa.Array:
    return pc.fill_null(pc.equal(kind, wanted), False)
