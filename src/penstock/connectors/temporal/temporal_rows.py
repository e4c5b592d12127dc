"""Inputs around another one, whose rows become rows of a temporal stream: what all of them have in common.

```
 rows of the other input ──> elements, or opens and closes ──> the network
                         ├─> stable points, from rows that say so and from punctuation
                         └─> the error stream: rows that can be neither, whole
```
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table
from penstock.algebra.naming import did_you_mean
from penstock.algebra.temporal.elements import SYNC
from penstock.algebra.temporal.properties import Properties
from penstock.algebra.ticks import can_progress, to_ticks
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split
from penstock.connectors.temporal.legal_rows import Names
from penstock.errors import QueryError


@dataclass(frozen=True)
class Reading:
    """What rows are taken for."""

    columns: Mapping[str, pa.Array]
    """Those that are not payload."""
    why: pa.Array | None
    """Why each row is refused, NULL where it is not; None if none is."""
    stable: pa.Array
    """A mask of the rows that are stable points."""
    times: pa.Array
    """The time that a stable point states."""


@dataclass(frozen=True)
class TemporalRows(Connector):
    """An input of a temporal stream, in one of its forms."""

    rows: Connector
    """Where the rows come from."""
    names: Names = field(default_factory=Names)
    properties: Properties = field(default_factory=Properties)
    found: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns of the rows, known once the input is part of a network."""

    @abstractmethod
    def shaped(self, found: pa.Schema) -> tuple[Self, pa.Schema]:
        """The input, told which columns its rows have, and the columns that it brings."""

    @abstractmethod
    def taken_for(self, rows: pa.RecordBatch) -> Reading:
        """What rows are, with at least the columns that are not payload."""

    @property
    @abstractmethod
    def payload(self) -> Sequence[str]:
        """The columns of the rows that are payload."""

    def require(self, options: Mapping[str, str], reserved: Sequence[str]) -> pa.DataType:
        """Refuse rows that lack a column, by the option that names it, or whose payload has a name that is taken; the
        type of their times."""
        columns, start = self.found.names, self.names.start
        for option, name in options.items():
            if name not in columns:
                raise QueryError(
                    f"the rows have no column {name!r}, which is the {option}= of a temporal input",
                    expected=f"one of {', '.join(columns)}",
                    hint=did_you_mean(name, columns) or f"name another one with {option}=",
                )
        time = self.found.field(start).type
        if not can_progress(time):
            raise QueryError(
                f"'{start}' cannot be the time of an event",
                expected="an integer, date or timestamp",
                found=f"{start} {time}",
            )
        if self.names.kind in columns and not pa.types.is_string(self.found.field(self.names.kind).type):
            raise QueryError(f"'{self.names.kind}' is no text", expected=f"{self.names.kind} string")
        taken = [name for name in self.payload if name in reserved]
        if taken:
            raise QueryError(
                f"a column of the payload is called '{taken[0]}', as one of every temporal stream is",
                expected=f"other names than {', '.join(reserved)}",
                hint=f"name the columns of the lifetime with {'=, '.join(options)}=, or rename it before",
            )
        return time

    def require_type(self, name: str, time: pa.DataType) -> None:
        """Refuse a time that has another type than the others."""
        if name in self.found.names and self.found.field(name).type != time:
            raise QueryError(
                f"'{name}' has another type than '{self.names.start}'",
                expected=f"{name} {time}",
                found=f"{name} {self.found.field(name).type}",
                hint="the times of an event are of one type: give schema=",
            )

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

    def in_order_of(self, on: str, *, descending: bool) -> Self:
        rows = self.rows.in_order_of(self.names.start, descending=descending)
        return self if rows is self.rows else replace(self, rows=rows)

    def details(self) -> Sequence[str]:
        return (f"elements: {self.properties.words()}", *self.rows.details())

    def schema(self) -> pa.Schema | None:
        """The schema of the rows, which `shaped` takes."""
        return self.rows.schema()

    def shards(self) -> Sequence[str]:
        return self.rows.shards()

    def open(self, schema: pa.Schema, journal: Journal) -> Feed:
        return ElementFeed(self, self.rows.open(self.found, journal))

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        asked = self.columns_behind(columns)
        whole = _Whole(self.rows, split, self.found)
        for number, chunk in enumerate(self.rows.read(split, self.found, asked)):
            yield self._chunk(chunk, split, number, schema, columns, whole)

    def columns_behind(self, columns: Sequence[str]) -> list[str]:
        """The columns of the rows that these columns of the stream need. Which rows are refused must not depend on what
        is asked for, so all that are not payload are always among them."""
        spare = {*self.payload} - {*columns}
        return [name for name in self.found.names if name not in spare]

    def _chunk(
        self, chunk: Chunk, split: Split, number: int, schema: pa.Schema, columns: Sequence[str], whole: _Whole
    ) -> Chunk:
        rows, taken = chunk.tuples, self.taken_for(chunk.tuples)
        arrays = [taken.columns[name] if name in taken.columns else rows.column(name) for name in columns]
        made = pa.record_batch(arrays, schema=pa.schema([schema.field(name) for name in columns]))
        stated: dict[str, list[int]] = {}
        for name, ticks in chunk.stated.items():
            stated.setdefault(self._stating(name), []).extend(ticks)
        why, stable = taken.why, taken.stable
        if why is None and not pc.any(stable).as_py():
            return replace(chunk, tuples=made, stated=stated)
        legal = pc.is_null(why) if why is not None else pa.repeat(pa.scalar(True), rows.num_rows)
        told = to_ticks(taken.times.filter(pc.and_(legal, stable))).to_pylist()
        if told:
            stated.setdefault(SYNC, []).extend(told)
        keep = pc.and_not(legal, stable)
        rejects = chunk.rejects
        if why is not None:
            aside = pc.invert(legal)
            refused = pa.Table.from_batches([whole.chunk(number).tuples]).filter(aside)
            more = reject_table(refused, split.found_in or self.rows.describe(), why.filter(aside))
            rejects = _joined(rejects, more)
        return Chunk(
            made.filter(keep),
            rejects,
            stated,
            None if chunk.arrived is None else chunk.arrived.filter(keep),
            None if chunk.places is None else _places(chunk.places.filter(keep)),
        )

    def _stating(self, attribute: str) -> str:
        """What punctuation of a column of the rows states of the stream: that of the start is a stable point."""
        return SYNC if attribute == self.names.start else attribute


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

    connector: TemporalRows
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


def _joined(rejects: pa.RecordBatch | None, more: pa.Table) -> pa.RecordBatch:
    tables = [*([] if rejects is None else [pa.Table.from_batches([rejects])]), more]
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]


def _places(places: pa.Array) -> pa.Array:
    """Places in order of arrival, without those of rows that are gone."""
    _, ranks = np.unique(places.to_numpy(zero_copy_only=False), return_inverse=True)
    return pa.array(ranks.astype(np.int64))
