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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table
from penstock.algebra.naming import did_you_mean
from penstock.algebra.temporal.elements import COLUMNS, INSERT, KIND, SYNC, VE, VOLD, VS, element_schema
from penstock.algebra.temporal.properties import Properties
from penstock.algebra.ticks import can_progress, to_ticks
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split
from penstock.connectors.temporal.legal_rows import STABLE, Lifetimes, Names, reasons
from penstock.errors import QueryError

_WRONG_SYNC: Final = "sync is not what follows from the other columns"


@dataclass(frozen=True)
class TemporalInput(Connector):
    """An input of elements."""

    rows: Connector
    """Where the rows come from."""
    names: Names = field(default_factory=Names)
    properties: Properties = field(default_factory=Properties)
    found: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns of the rows, known once the input is part of a network."""

    def shaped(self, found: pa.Schema) -> tuple[TemporalInput, pa.Schema]:
        """The input, told which columns its rows have, and the columns of its elements."""
        given = replace(self, found=found)
        given._check()
        time = found.field(self.names.start).type
        return given, element_schema((found.field(name) for name in given._payload), time)

    def _check(self) -> None:
        names, columns = self.names, self.found.names
        optional = (names.kind, names.old) if self.properties.insert_only else ()
        for name, option in ((names.start, "start"), (names.end, "end"), (names.old, "old"), (names.kind, "kind")):
            if name not in columns and name not in optional:
                raise QueryError(
                    f"the rows have no column {name!r}, which is the {option}= of a temporal input",
                    expected=f"one of {', '.join(columns)}",
                    hint=did_you_mean(name, columns) or f"name another one with {option}=",
                )
        time = self.found.field(names.start).type
        if not can_progress(time):
            raise QueryError(
                f"'{names.start}' cannot be the start of events",
                expected="an integer, date or timestamp",
                found=f"{names.start} {time}",
            )
        for name in (names.end, names.old, SYNC):
            if name in columns and self.found.field(name).type != time:
                raise QueryError(
                    f"'{name}' has another type than '{names.start}'",
                    expected=f"{name} {time}",
                    found=f"{name} {self.found.field(name).type}",
                    hint="the times of an event are of one type: give schema=",
                )
        if names.kind in columns and not pa.types.is_string(self.found.field(names.kind).type):
            raise QueryError(f"'{names.kind}' is no text", expected=f"{names.kind} string")
        taken = [name for name in self._payload if name in COLUMNS]
        if taken:
            raise QueryError(
                f"a column of the payload is called '{taken[0]}', as one of every temporal stream is",
                expected=f"other names than {', '.join(COLUMNS)}",
                hint="name the columns of the lifetime with start=, end=, old= and kind=, or rename it before",
            )

    @property
    def _payload(self) -> list[str]:
        own = {SYNC, self.names.start, self.names.end, self.names.old, self.names.kind}
        return [name for name in self.found.names if name not in own]

    @property
    def bounded(self) -> bool:
        return self.rows.bounded

    @property
    def in_sequence(self) -> bool:
        return self.rows.in_sequence

    @property
    def more_shards(self) -> bool:
        return self.rows.more_shards

    @property
    def brings_arrival(self) -> bool:
        return self.rows.brings_arrival

    @property
    def catches_up(self) -> bool:
        return self.rows.catches_up

    @property
    def share(self) -> float:
        return self.rows.share

    @property
    def states(self) -> Sequence[str]:
        # A table that a network has written may speak of other columns, too.
        said = [self._stating(name) for name in self.rows.states]
        return tuple(dict.fromkeys(name for name in said if name == SYNC or not self.rows.punctuated))

    @property
    def punctuated(self) -> bool:
        return self.rows.punctuated and SYNC in self.states

    def in_order_of(self, on: str, *, descending: bool) -> TemporalInput:
        rows = self.rows.in_order_of(self.names.start, descending=descending)
        return self if rows is self.rows else replace(self, rows=rows)

    def details(self) -> Sequence[str]:
        return (f"elements: {self.properties.words()}", *self.rows.details())

    def schema(self) -> pa.Schema | None:
        """The schema of the rows, which `shaped` takes."""
        return self.rows.schema()

    def describe(self) -> str:
        return f"elements from {self.rows.describe()}"

    def shards(self) -> Sequence[str]:
        return self.rows.shards()

    def open(self, schema: pa.Schema, journal: Journal) -> Feed:
        return ElementFeed(self, self.rows.open(self.found, journal))

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        asked = self.columns_behind(columns)
        whole = _Whole(self.rows, split, self.found)
        for number, chunk in enumerate(self.rows.read(split, self.found, asked)):
            yield self._elements(chunk, split, number, schema, columns, whole)

    def columns_behind(self, columns: Sequence[str]) -> list[str]:
        """The columns of the rows that these columns of elements need. Which rows are refused must not depend on what
        is asked for, so all that are not payload are always among them."""
        spare = {*self._payload} - {*columns}
        return [name for name in self.found.names if name not in spare]

    def _elements(
        self, chunk: Chunk, split: Split, number: int, schema: pa.Schema, columns: Sequence[str], whole: _Whole
    ) -> Chunk:
        rows, kind = chunk.tuples, schema.field(VS).type
        lives = self._lifetimes(rows, kind)
        sync = lives.sync
        why = reasons(lives, self.names, insert_only=self.properties.insert_only)
        if SYNC in rows.schema.names:
            why = _with_sync(why, rows.column(SYNC), sync, lives.of_kind(STABLE))
        known = {SYNC: sync, KIND: lives.kind, VS: lives.start, VE: lives.end, VOLD: lives.old}
        arrays = [known[name] if name in known else rows.column(name) for name in columns]
        made = pa.record_batch(arrays, schema=pa.schema([schema.field(name) for name in columns]))
        stated = {self._stating(name): list(ticks) for name, ticks in chunk.stated.items()}
        stable = lives.of_kind(STABLE)
        if why is None and not pc.any(stable).as_py():
            return replace(chunk, tuples=made, stated=stated)
        legal = pc.is_null(why) if why is not None else pa.repeat(pa.scalar(True), len(sync))
        told = to_ticks(lives.start.filter(pc.and_(legal, stable))).to_pylist()
        if told:
            stated = {**stated, SYNC: [*stated.get(SYNC, ()), *told]}
        keep = pc.and_not(legal, stable)
        rejects = chunk.rejects
        if why is not None:
            aside = pc.invert(legal)
            refused = pa.Table.from_batches([whole.chunk(number).tuples]).filter(aside)
            more = reject_table(refused, split.found_in or self.rows.describe(), why.filter(aside))
            rejects = more.combine_chunks().to_batches()[0] if rejects is None else _joined(rejects, more)
        return Chunk(
            made.filter(keep),
            rejects,
            stated,
            None if chunk.arrived is None else chunk.arrived.filter(keep),
            None if chunk.places is None else _places(chunk.places.filter(keep)),
        )

    def _lifetimes(self, rows: pa.RecordBatch, time: pa.DataType) -> Lifetimes:
        names, given = self.names, rows.schema.names
        kind = rows.column(names.kind) if names.kind in given else pa.repeat(pa.scalar(INSERT), rows.num_rows)
        old = rows.column(names.old) if names.old in given else pa.nulls(rows.num_rows, time)
        return Lifetimes(kind, rows.column(names.start), rows.column(names.end), old)

    def _stating(self, attribute: str) -> str:
        """What punctuation of a column of the rows states of the elements: that of the start is a stable point."""
        names = self.names
        return {names.start: SYNC, names.end: VE, names.old: VOLD}.get(attribute, attribute)


class _Whole:
    """The chunks of a split with all their columns, for rows that are refused; asked for one after the other."""

    def __init__(self, rows: Connector, split: Split, found: pa.Schema) -> None:
        self._read = rows.read(split, found, found.names)
        self._next = 0

    def chunk(self, number: int) -> Chunk:
        found = next(islice(self._read, number - self._next, None))
        self._next = number + 1
        return found


@dataclass(frozen=True)
class ElementFeed(Feed):
    """The feed of the rows; it is asked in their own columns."""

    connector: TemporalInput
    rows: Feed

    def start(self) -> Position:
        return self.rows.start()

    def advance(self, position: Position, limit: Limit) -> Advance:
        columns = None if limit.columns is None else tuple(self.connector.columns_behind(limit.columns))
        return self.rows.advance(position, replace(limit, columns=columns))

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        return self.rows.splits(start, end)

    def close(self) -> None:
        self.rows.close()


def _with_sync(why: pa.Array | None, given: pa.Array, sync: pa.Array, stable: pa.Array) -> pa.Array | None:
    """The reasons, and that of rows whose `sync` says something else than their other columns."""
    wrong = pc.and_not(pc.fill_null(pc.not_equal(given, sync), True), stable)
    if not pc.any(wrong).as_py():
        return why
    more = pc.if_else(wrong, pa.scalar(_WRONG_SYNC), pa.scalar(None, pa.string()))
    return more if why is None else pc.coalesce(why, more)


def _joined(rejects: pa.RecordBatch, more: pa.Table) -> pa.RecordBatch:
    whole = pa.concat_tables([pa.Table.from_batches([rejects]), more]).combine_chunks()
    return whole.to_batches()[0]


def _places(places: pa.Array) -> pa.Array:
    """Places in order of arrival, without those of rows that are gone."""
    _, ranks = np.unique(places.to_numpy(zero_copy_only=False), return_inverse=True)
    return pa.array(ranks.astype(np.int64))


def temporal(
    connector: Connector,
    *,
    start: str = VS,
    end: str = VE,
    old: str = VOLD,
    kind: str = KIND,
    insert_only: bool = False,
    ordered: bool = False,
    strict: bool = False,
    unique: bool = False,
    deterministic: bool = False,
) -> TemporalInput:
    """An input whose rows are elements of a temporal stream: they insert events, and adjust their ends.

    `kind` names the column that says what a row does: "insert" adds an event that is valid from `start` until before
    `end`; "adjust" moves the end of an event from `old` to `end`, and removes it if that is its `start`; "stable" says
    that everything before its `start` is stable. NULL is an end that nobody knows yet. All other columns are the
    payload. `net.source(...)` makes progress on `sync`; punctuation on the start column is a stable point.

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
    given = [start, end, old, kind]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise QueryError(f"the column '{twice[0]}' is named twice", found=f"{start=}, {end=}, {old=}, {kind=}")
    # Of inserts that have a start of their own each, no two are alike, and there is only one order.
    alone = strict and insert_only
    promised = Properties(insert_only, ordered or strict, strict, unique or alone, deterministic or alone)
    return TemporalInput(connector, Names(start, end, old, kind), promised)
