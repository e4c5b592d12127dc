"""The current state of a temporal stream as a Delta table: one row for each event, with its start and end as they are.

```
 worker:  elements of a batch ──> a file in the checkpoint ──> receipt ─┐
 driver:  what they come to: events that come, events that go <─────────┘
          files with events that go ──> rewritten without them ┐
          events that come ────────────────────────────────────┴──> one transaction, with (writer, batch)
```

A batch that the log already has is a replay, and is left alone. Files hold events of one stretch of time, so that an
adjust rewrites few of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from penstock.algebra.temporal.elements import COLUMNS, VS
from penstock.connectors.delta.as_target import DeltaTarget
from penstock.connectors.delta.types import as_stored
from penstock.connectors.targets.target import (
    SILENT,
    OpenPart,
    OutputProgress,
    Receipt,
    read_staged,
    stage_arrow,
    writer,
)
from penstock.connectors.temporal.event_netting import change_of, event_schema, taken_away
from penstock.errors import QueryError, WorldError
from penstock.storage.folder import Folder

if TYPE_CHECKING:
    import deltalake

FILE_EVENTS: Final = 65_536
"""Events of a file at most: an adjust of one of them writes all of them again."""


@dataclass(frozen=True)
class CurrentTable(DeltaTarget):
    """A Delta table that shows the events of a temporal stream as they are after each batch."""

    @property
    def revises(self) -> bool:
        return True

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        if any(column not in schema.names for column in COLUMNS):
            raise QueryError("the current state is that of a temporal stream", box=name, found=", ".join(schema.names))
        super().check(name, event_schema(schema), scratch)

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def opened(self, batch: int, part: int, scratch: Folder) -> OpenPart | None:
        return None  # what is staged is no data file

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        super().commit(batch, receipts, scratch, progress)
        for receipt in receipts:
            for file in receipt.files:
                scratch.delete(file.name)

    def describe(self) -> str:
        return f"the current state in {super().describe()}"

    @property
    def _retries(self) -> int:
        # Delta does not notice two who remove the same file: who is defeated must look at the table again.
        return 0

    def _actions(
        self, table: deltalake.DeltaTable, batch: int, receipts: Sequence[Receipt], scratch: Folder
    ) -> list[AddAction | RemoveAction]:
        files = [file for receipt in sorted(receipts, key=lambda r: r.part) for file in receipt.files]
        if not files:
            return []
        staged = [read_staged(scratch, file.name, file.bytes, file.crc) for file in files]
        change = change_of(as_stored(pa.concat_tables(staged)))
        now, gone = time.time_ns() // 1_000_000, change.gone
        kept, actions = [change.added], list[AddAction | RemoveAction]()
        for name, size in self._files_with(table, gone):
            # Files that others have rewritten may have other layouts of the same values.
            read = pq.read_table(pa.BufferReader(self.folder.read(name))).select(gone.column_names)
            events = read.cast(gone.schema)
            stay, gone_elsewhere = taken_away(events, gone)
            if gone_elsewhere.num_rows < gone.num_rows:
                actions.append(RemoveAction(name, True, now, size, {}))
                kept.append(events.filter(stay))
            gone = gone_elsewhere
        if gone.num_rows:
            raise self._missing(gone)
        for index, rows in enumerate(_stretches(pa.concat_tables(kept))):
            begin = f"part-{batch:08d}-{index:04d}-{writer(scratch).token}"
            name, size, stats = self._write(rows, begin, scratch)
            actions.append(AddAction(name, size, {}, now, True, stats))
        return actions

    def _files_with(self, table: deltalake.DeltaTable, gone: pa.Table) -> Iterator[tuple[str, int]]:
        """The files of the table that may hold some of these events, by what the log says of their starts."""
        if not gone.num_rows:
            return
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise WorldError(
                f"the Delta table {self.folder.path} has deletion vectors, which say that some rows do not count",
                hint="let nobody else write to the table, or write to another one",
            )
        starts = np.sort(_numbers(gone.column(VS)))
        known = pa.table(table.get_add_actions(flatten=True)).sort_by("path")
        near = np.ones(known.num_rows, bool)
        low, high = (known[name] if name in known.column_names else None for name in (f"min.{VS}", f"max.{VS}"))
        if low is not None and high is not None and not low.null_count + high.null_count:
            first, behind = np.searchsorted(starts, _numbers(low)), np.searchsorted(starts, _numbers(high), "right")
            near = behind > first
        for at in np.flatnonzero(near).tolist():
            yield known["path"][at].as_py(), known["size_bytes"][at].as_py()

    def _missing(self, gone: pa.Table) -> WorldError:
        return WorldError(
            f"the Delta table {self.folder.path} lacks {gone.num_rows:,} events that a batch adjusts or removes",
            found=str(gone.slice(0, 1).to_pylist()[0]),
            hint="let nobody else write to the table; restore it, or start with another table and checkpoint",
        )


def _stretches(events: pa.Table) -> Iterator[pa.Table]:
    """Events in order of their starts, in pieces of a file each."""
    if not events.num_rows:
        return
    ordered = events.take(pa.array(np.argsort(_numbers(events.column(VS)), kind="stable"))).combine_chunks()
    for first in range(0, ordered.num_rows, FILE_EVENTS):
        yield ordered.slice(first, FILE_EVENTS)


def _numbers(times: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Times as numbers of their own unit."""
    whole = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    kind = pa.int32() if pa.types.is_date32(whole.type) else pa.int64()
    return np.asarray(whole.cast(kind), np.int64)
