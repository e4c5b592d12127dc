"""A static table as an input: its rows as a stream that ends, or that goes on with the rows that are added.

```
 driver:  table, read whole ──> rows that are new ──> version 3 of the input: an Arrow file in its folder ──> journal
 worker:  split ──> some rows of a version
```

A stored set may change under whoever reads it, and most stores keep no versions. So what was read is kept beside the
checkpoint before a position refers to it: a batch that is done again finds the same rows. Rows come in the order of the
attribute on which the input makes progress; without one, in that of the store.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from penstock.connectors.connector import (
    Advance,
    Chunk,
    Connector,
    Feed,
    Journal,
    Limit,
    Position,
    Split,
    fixed_width,
    row_bytes,
)
from penstock.connectors.tables.row_changes import rows_beyond
from penstock.connectors.tables.static_table import StaticTable
from penstock.connectors.tables.store import Stamp
from penstock.errors import InternalError, WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import checksum, damaged

SHARD: Final = "0"
KEPT_VERSIONS: Final = 32
"""Versions that were read and stay: a batch takes two at most, and a run goes back by a few batches."""
_SPLIT_ROWS: Final = 1 << 19
_CHUNK_ROWS: Final = 1 << 17


@dataclass(frozen=True)
class TableSplit(Split):
    """Rows `[start, stop)` of a version."""

    folder: Folder
    file: str
    sum: int
    """The checksum of the file."""
    start: int
    stop: int


@dataclass(frozen=True)
class PushedTable(Connector):
    """A static table as an input."""

    table: StaticTable
    on: str | None = None
    """The attribute in whose order rows come."""
    descending: bool = False

    @property
    def bounded(self) -> bool:
        return not self.table.follow

    def in_order_of(self, on: str, *, descending: bool) -> PushedTable:
        return replace(self, on=on, descending=descending)

    def schema(self) -> pa.Schema:
        return self.table.schema()

    def describe(self) -> str:
        return f"the rows of {self.table.describe()}{', followed' if self.table.follow else ''}"

    def shards(self) -> Sequence[str]:
        return (SHARD,)

    def open(self, schema: pa.Schema, journal: Journal) -> TableFeed:
        return TableFeed(self, schema, journal)

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, TableSplit):
            raise InternalError("a split of another connector was given to a table", found=repr(split))
        rows = _load(split.folder, split.file, split.sum).select(list(columns))
        for first in range(split.start, split.stop, _CHUNK_ROWS):
            some = rows.slice(first, min(_CHUNK_ROWS, split.stop - first))
            yield Chunk(some.combine_chunks().to_batches()[0])


@dataclass(frozen=True)
class _Version:
    """What a change has brought, as the journal tells it."""

    rows: int
    sum: int
    content: int | None = None
    """The checksum of all that the table held, where that is not what the change has brought."""


class TableFeed(Feed):
    """Positions are `{"version": the next version, "row": its next row}`."""

    def __init__(self, connector: PushedTable, schema: pa.Schema, journal: Journal) -> None:
        self._connector = connector
        self._table = connector.table
        self._schema = schema
        self._journal = journal
        self._folder = journal.folder
        self._versions = [_Version(*entry["version"]) for entry in journal.entries()]
        self._stamp: Stamp | None = None
        self._looked: float | None = None
        if not self._versions:
            self._stamp = self._table.stamp()
            self._keep(self._table.read(schema), None)

    def start(self) -> Position:
        return {"version": 0, "row": 0}

    def advance(self, position: Position, limit: Limit) -> Advance:
        version, row = position["version"], position["row"]
        if version == len(self._versions) and self._table.follow and self._is_due():
            self._look(version)
        if version == len(self._versions):
            return Advance(position, ended=self._connector.bounded)
        rest, width = self._versions[version].rows - row, row_bytes(self._schema, limit.columns, self._texts)
        taken = min(rest, limit.rows, max(1, int(limit.bytes / width)))
        end = {"version": version, "row": row + taken} if taken < rest else {"version": version + 1, "row": 0}
        ended = self._connector.bounded and end["version"] == len(self._versions)
        return Advance(end, ended, rows=taken, bytes=int(taken * width))

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        found: list[Split] = []
        before = [0, *accumulate(version.rows for version in self._versions)]
        for number in range(start["version"], end["version"] + (end["row"] > 0)):
            version = self._versions[number]
            first = start["row"] if number == start["version"] else 0
            last = end["row"] if number == end["version"] else version.rows
            for low in range(first, last, _SPLIT_ROWS):
                high = min(last, low + _SPLIT_ROWS)
                place = (self._folder, _rows_name(number), version.sum, low, high)
                found.append(TableSplit(SHARD, before[number] + low, high - low, *place))
        return found

    def _is_due(self) -> bool:
        """Whether it is time to look at the table again."""
        now, interval = time.monotonic(), self._table.interval
        if self._looked is not None and interval is not None and now - self._looked < interval / 1e6:
            return False
        self._looked = now
        return True

    def _look(self, read: int) -> None:
        """Make a version of what has changed, if anything has; versions before `read` have been read."""
        stamp = self._table.stamp()
        if stamp is not None and stamp.settled and stamp == self._stamp:
            return
        rows, held = self._table.read(self._schema), self._held()
        new, gone = rows_beyond(rows, held), rows_beyond(held, rows).num_rows
        if gone and self._table.changes == "error":
            raise self._changed(gone, new.num_rows)
        if gone or new.num_rows:
            self._keep(new, rows)
            outdated = {_content_name(read - 1), _rows_name(read - KEPT_VERSIONS)}
            for name in outdated & {*self._folder.names()}:
                self._folder.delete(name)
        self._stamp = stamp

    def _keep(self, new: pa.Table, content: pa.Table | None) -> None:
        """Make rows a version; `content` is all that the table holds, where that is more."""
        on, number = self._connector.on, len(self._versions)
        if on is not None:
            new = new.sort_by([(on, "descending" if self._connector.descending else "ascending")])
        rows = _to_ipc(new)
        self._folder.make()
        self._folder.write(_rows_name(number), rows)
        whole = None
        if content is not None:
            held = _to_ipc(content)
            self._folder.write(_content_name(number), held)
            whole = checksum(held)
        told: list[Any] = [new.num_rows, checksum(rows), whole]
        self._journal.append([{"version": told}])
        self._versions.append(_Version(*told))

    def _held(self) -> pa.Table:
        """All that the table held when it was last read."""
        last, number = self._versions[-1], len(self._versions) - 1
        if last.content is None:
            return _load(self._folder, _rows_name(number), last.sum)
        return _load(self._folder, _content_name(number), last.content)

    @functools.cached_property
    def _texts(self) -> dict[str, float]:
        """What texts take up, by what the table held first."""
        names = [field.name for field in self._schema if fixed_width(field.type) is None]
        held = self._held() if names else None
        return {name: held[name].nbytes / held.num_rows for name in names} if held is not None and held.num_rows else {}

    def _changed(self, gone: int, new: int) -> WorldError:
        return WorldError(
            f"{gone} row{'s' if gone > 1 else ''} of {self._table.describe()} left, or became other rows",
            expected="a followed table to which rows are only added",
            found=f"{gone} gone, {new} new",
            hint="changes='append' sends what rows became as new rows, and says nothing of those that are gone",
        )


def _rows_name(version: int) -> str:
    return f"rows-{version}.arrow"


def _content_name(version: int) -> str:
    return f"content-{version}.arrow"


@functools.lru_cache(maxsize=2)
def _load(folder: Folder, file: str, expected: int) -> pa.Table:
    """The rows of a file, mapped; kept, because the next split is likely to be of the same."""
    if not folder.exists(file):
        raise damaged(f"{folder.path}/{file}", "no such file")
    content = folder.read(file)
    if checksum(content) != expected:
        raise damaged(f"{folder.path}/{file}", "another checksum")
    return pa.ipc.open_file(content).read_all()


def _to_ipc(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows.combine_chunks())
    return sink.getvalue()
