"""`pk.temporal`: any other input, whose rows are elements of a temporal stream (lmerge.md III-C, example 5).

```
 kind    vs  ve    vold  p            sync  kind    vs  ve    vold  p
 insert   6  20          A              6   insert   6  20          A
 adjust   6  30    20    A      ──>    20   adjust   6  30    20    A
 stable  12                           punctuation: sync >= 12
```

The columns of the lifetime get the names that they have in every temporal stream, and `sync` is computed. All other
columns are the payload. Rows that cannot be elements go to the error stream of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.temporal.elements import COLUMNS, INSERT, KIND, SYNC, VE, VOLD, VS, element_schema
from penstock.algebra.temporal.open_close import AT
from penstock.algebra.temporal.properties import Properties
from penstock.connectors.connector import Connector
from penstock.connectors.temporal.legal_rows import STABLE, Lifetimes, Names, reasons
from penstock.connectors.temporal.open_close_input import OpenCloseInput
from penstock.connectors.temporal.temporal_rows import Reading, TemporalRows
from penstock.errors import QueryError

_WRONG_SYNC: Final = "sync is not what follows from the other columns"
FORMS: Final = ("elements", "open-close")


@dataclass(frozen=True)
class TemporalInput(TemporalRows):
    """An input of elements."""

    def shaped(self, found: pa.Schema) -> tuple[TemporalInput, pa.Schema]:
        given, names = replace(self, found=found), self.names
        options = {"start": names.start, "end": names.end}
        if not self.properties.insert_only:
            options |= {"old": names.old, "kind": names.kind}
        time = given.require(options, COLUMNS)
        for name in (names.end, names.old, SYNC):
            given.require_type(name, time)
        return given, element_schema((found.field(name) for name in given.payload), time)

    @property
    def payload(self) -> Sequence[str]:
        own = {SYNC, self.names.start, self.names.end, self.names.old, self.names.kind}
        return [name for name in self.found.names if name not in own]

    def describe(self) -> str:
        return f"elements from {self.rows.describe()}"

    def taken_for(self, rows: pa.RecordBatch) -> Reading:
        lives = self._lifetimes(rows)
        stable = lives.of_kind(STABLE)
        why = reasons(lives, self.names, insert_only=self.properties.insert_only)
        if SYNC in rows.schema.names:
            why = _with_sync(why, rows.column(SYNC), lives.sync, stable)
        columns = {SYNC: lives.sync, KIND: lives.kind, VS: lives.start, VE: lives.end, VOLD: lives.old}
        return Reading(columns, why, stable, lives.start)

    def _lifetimes(self, rows: pa.RecordBatch) -> Lifetimes:
        names, given, start = self.names, rows.schema.names, rows.column(self.names.start)
        kind = rows.column(names.kind) if names.kind in given else pa.repeat(pa.scalar(INSERT), rows.num_rows)
        old = rows.column(names.old) if names.old in given else pa.nulls(rows.num_rows, start.type)
        return Lifetimes(kind, start, rows.column(names.end), old)


def _with_sync(why: pa.Array | None, given: pa.Array, sync: pa.Array, stable: pa.Array) -> pa.Array | None:
    """The reasons, and that of rows whose `sync` says something else than their other columns."""
    wrong = pc.and_not(pc.fill_null(pc.not_equal(given, sync), True), stable)
    if not pc.any(wrong).as_py():
        return why
    more = pc.if_else(wrong, pa.scalar(_WRONG_SYNC), pa.scalar(None, pa.string()))
    return more if why is None else pc.coalesce(why, more)


def temporal(
    connector: Connector,
    *,
    form: str = "elements",
    start: str | None = None,
    end: str = VE,
    old: str = VOLD,
    kind: str = KIND,
    insert_only: bool = False,
    ordered: bool = False,
    strict: bool = False,
    unique: bool = False,
    deterministic: bool = False,
) -> TemporalRows:
    """An input whose rows are elements of a temporal stream: they insert events, and adjust their ends.

    `kind` names the column that says what a row does: "insert" adds an event that is valid from `start` ("vs") until
    before `end`; "adjust" moves the end of an event from `old` to `end`, and removes it if that is its `start`;
    "stable" says that everything before its `start` is stable. NULL is an end that nobody knows yet. All other columns
    are the payload. `net.source(...)` makes progress on `sync`; punctuation on the start column is a stable point.

    With `form="open-close"` the `kind` of a row is "open" or "close" (or "stable"), and `start` ("at") its one time: an
    open begins an event, a close ends the latest of its payload, and one more close moves that end.

    The rest are promises: `insert_only`, no row adjusts another (then `kind` and `old` may be missing); `ordered`, the
    start never falls; `strict`, it rises with every element; `unique`, no two events at a time have the same start and
    payload; `deterministic`, elements of one start come in the same order in every copy of the stream.
    """
    if not isinstance(connector, Connector):
        raise QueryError(f"{connector!r} is no input", expected="pk.files(...), pk.memory(...), pk.delta(...), ...")
    if connector.planned_elsewhere:
        raise QueryError(
            "a DataFrame cannot be read as elements",
            found=connector.describe(),
            hint="write it to a Delta table, and read that: pk.temporal(pk.delta(path))",
        )
    if connector.tells:
        raise QueryError(
            "elements may be revised, so none of them is of no use",
            found="feedback=True",
            hint="leave feedback= out, or merge ordinary streams",
        )
    if form not in FORMS:
        raise QueryError(f"form={form!r} is unknown", expected=f"one of {', '.join(FORMS)}")
    if form == "open-close":
        return _open_close(connector, start or AT, kind, (end, old, insert_only, ordered, strict, deterministic))
    start = start or VS
    given = [start, end, old, kind]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise QueryError(f"the column '{twice[0]}' is named twice", found=f"{start=}, {end=}, {old=}, {kind=}")
    # Of inserts that have a start of their own each, no two are alike, and there is only one order.
    alone = strict and insert_only
    promised = Properties(insert_only, ordered or strict, strict, unique or alone, deterministic or alone)
    return TemporalInput(connector, Names(start, end, old, kind), promised)


def _open_close(connector: Connector, at: str, kind: str, others: tuple[object, ...]) -> OpenCloseInput:
    """An input of opens and closes, of which nothing but this can be said."""
    if others != (VE, VOLD, False, False, False, False):
        raise QueryError(
            'form="open-close" goes with start= and kind= alone',
            hint="opens and closes have one time, and which promises hold of what they become is known",
        )
    # There is one event of a payload at a time, so no two have the same start.
    return OpenCloseInput(connector, Names(start=at, kind=kind), Properties(unique=True))
