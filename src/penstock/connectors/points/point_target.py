"""A connection point (aurora.md 2.1, 4.2): an arc that remembers what has passed, in a Delta table.

It is an output of the network, so a batch is in it exactly once. Files hold the tuples of a batch in order of arrival,
with their QoS timestamps; commits carry the punctuation. Now and then, beside the run, old files leave and small ones
are merged: readers that follow the table see nothing of it.

```
 outlet:  commit of a batch ──> the table's log          every EVERY batches, in another thread:
                                   ^                      old files leave ─> small ones are merged ─> what nobody
                                   └───────────────────── can ask for any more is deleted
```
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from penstock.algebra.hidden import ARRIVED, SEQ, in_order
from penstock.algebra.ticks import duration_ticks
from penstock.connectors.delta.as_target import DeltaTarget
from penstock.connectors.delta.commit_marks import (
    MARKS_FOLDER,
    CommitMarks,
    GroupFiles,
    KeptMarks,
    convert_tick,
    is_group_file,
)
from penstock.connectors.delta.data_files import write_data_file
from penstock.connectors.delta.table_log import RETENTION, TableLog
from penstock.connectors.delta.types import as_stored, delta_type
from penstock.connectors.delta.upkeep import cut_log, sync_log
from penstock.connectors.points.clustering import GROUP_ROWS, GROUP_ROWS_BY_TIME, clustered, runs_to_merge
from penstock.connectors.points.group_files import GROUP_PART, read_group_files, write_group_file
from penstock.connectors.points.keeping import EVERYTHING, Keep
from penstock.connectors.points.kept_marks import (
    Index,
    kept_marks,
    needed_marks,
    newest_index,
    unlisted,
    write_index,
)
from penstock.connectors.points.retention import Horizon, leaving, time_horizon
from penstock.connectors.points.stored_files import (
    ARRIVAL_COLUMN,
    ARRIVED_COLUMN,
    BATCH_COLUMN,
    OWN_COLUMNS,
    OWN_FIELDS,
    StoredFile,
    by_batches,
    stored_files,
)
from penstock.connectors.targets.target import Mode, OpenPart, OutputProgress, Receipt, StagedFile, writer
from penstock.progress.idle import span_ns
from penstock.storage.folder import Folder

EVERY: Final = 32
"""Batches between two looks at what can leave and what can be merged."""
GRACE: Final = "1 day"
"""How long files stay that have left, or were merged: readers that are no further behind find them."""
NEWS: Final = 100
"""Commits that stay when a log is cut short for want of room: who follows the point is no further behind, as a rule."""
_SHORT: Final = re.compile(r"interval (\d+) seconds")
_BATCH: Final = re.compile(r"part-(\d{8})-[^/]*$")
_UNLISTED_HOURS: Final = 1
"""How long files stay that no version lists, whatever the grace, unless their batch is done: a batch that is under way
is about to list them."""
BESIDE: Final = deltalake.PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Old commits leave the log with the commits of the run alone: of two who delete the same file, one would fail."""
_NAMED_BYTES: Final = 1024
"""What a commit takes up for a file that it names, at most."""
_SHORTENED: Final = 100
"""Delta cuts its log short with every so many versions."""
_AHEAD: Final = 3
"""So many versions before and behind one of these, marks are written to the index: others may commit in between."""
_TRIES: Final = 20
"""How often a run may commit a batch just before the upkeep of its point would commit something."""


@dataclass(frozen=True)
class ConnectionPoint(DeltaTarget):
    """A Delta table that holds what has passed along an arc."""

    mode: Mode = "new"
    """Batches of another run would have the numbers of this one's."""
    compact: int = 0
    """Files are not merged while a batch waits."""
    keep: Keep = EVERYTHING
    key: tuple[str, ...] = ()
    on: str | None = None
    """The attribute by which time is kept, if the stream makes progress."""
    marked: tuple[str, ...] = ()
    """All attributes on which the stream makes progress."""
    pairs: bool = False
    """Whether the stream may state joint marks."""
    groups: tuple[str, tuple[str, ...]] | None = None
    """The attribute and the groups of which the stream states marks, as a plan has found out."""
    grace: str = GRACE
    beside: bool = False
    """Whether it lies in the checkpoint; then the folder is known when the run is."""
    every: int = EVERY

    @property
    def hidden(self) -> tuple[str, ...]:
        return SEQ, ARRIVED

    @property
    def keeps_groups(self) -> bool:
        return True

    def keeping_groups(self, on: str, groups: tuple[str, ...]) -> ConnectionPoint:
        return replace(self, groups=(on, groups))

    def placed(self, inside: Folder) -> ConnectionPoint:
        return replace(self, folder=Folder(inside.path)) if self.beside else self

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        super().check(name, pa.schema([f for f in schema if f.name not in self.hidden] + [*OWN_FIELDS]), scratch)

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        rows = in_order(table)
        names = {SEQ: ARRIVAL_COLUMN, ARRIVED: ARRIVED_COLUMN}
        rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
        rows = rows.append_column(BATCH_COLUMN, pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows))
        # A file that is large already is never merged, so it must be of use as it is.
        return super().stage(batch, part, clustered(rows, self.key, self.on) if self.key else rows, scratch)

    def opened(self, batch: int, part: int, scratch: Folder) -> OpenPart | None:
        return None  # tuples lie in the order of their arrival, or of their keys

    def stage_groups(self, batch: int, part: int, marks: pa.Table, scratch: Folder) -> Sequence[StagedFile]:
        assert self.groups is not None
        on, by = self.groups
        # A mark that an expression has no value for says nothing.
        rows = as_stored(marks.filter(pc.is_valid(marks.column(on))).select([*by, on]))
        if not rows.num_rows:
            return ()
        begin = f"part-{batch:08d}-{part:04d}-{GROUP_PART}-{writer(scratch).token}"
        path, size = write_group_file(self.folder.as_lasting_as(scratch), begin, rows)
        return (StagedFile(path, 0, size),)

    def _said(self, progress: OutputProgress, token: str, receipts: Sequence[Receipt]) -> CommitMarks:
        said = super()._said(progress, token, receipts)
        if self.groups is None:
            return said
        files = [file for receipt in receipts for file in receipt.files if is_group_file(file.name)]
        return replace(said, groups=GroupFiles(*self.groups, tuple((file.name, file.bytes) for file in files)))

    def _write(self, rows: pa.Table, begin: str, scratch: Folder) -> tuple[str, int, str]:
        group_rows = GROUP_ROWS if self.key else GROUP_ROWS_BY_TIME
        return write_data_file(self.folder.as_lasting_as(scratch), begin, rows, self._told, group_rows)

    def upkeep(self, batch: int, scratch: Folder, progress: OutputProgress) -> Callable[[int | None], None] | None:
        if (batch + 1) % self.every:
            return None
        horizon = self._horizon(progress)
        return lambda room: self.tend(batch, scratch, horizon, room)

    def tend(self, batch: int, scratch: Folder, horizon: Horizon, room: int | None = None) -> None:
        """Let old files go, merge small ones, and delete what nobody can ask for any more. It may be done again, and
        be cut short anywhere: what was written and is not in the log is deleted with the rest. Files are merged only
        as long as the new ones have room, in bytes: the old ones stay for the time of their grace."""
        table = deltalake.DeltaTable(self.folder.path)
        before = table.version()
        now = time.time_ns() // 1_000_000  # the log's record of when files left; nothing is computed from it
        gone = leaving(stored_files(table, [self.on] if self.on is not None else []), horizon)
        alone = not gone or self._replace(table, gone, None, scratch, now)
        while alone and (runs := runs_to_merge(stored_files(table))):
            if room is not None and (room := room - _cost(runs[0])) < 0:
                break
            alone = self._replace(table, runs[0], self._merged(runs[0], batch, scratch, now), scratch, now)
        self._keep_marks(table, scratch, span_ns(self.grace))
        self._delete_old(table, batch)
        if scratch.lasting:
            table.update_incremental()
            sync_log(self.folder, before, table.version())

    def _keep_marks(self, table: deltalake.DeltaTable, scratch: Folder, grace: int) -> None:
        """Keep marks of the past that neither files tell, nor commits that have left the log. Files of groups of which
        nobody hears any more, for as many nanoseconds as the grace has, are deleted."""
        if not self.pairs and not self.groups:
            return
        marks = kept_marks(TableLog(self.folder, own=True), table.version())
        units = by_batches(stored_files(table), lambda file: (file.first, file.last))
        needed = needed_marks(marks, [min(file.first for file in unit) for unit in units])
        needed = [self._merged_groups(kept, scratch) for kept in needed]
        now, known = time.time_ns() // 1_000_000, newest_index(self.folder, table.version()).left
        left = {name: known.get(name, now) for name in unlisted(self.folder, needed)}
        gone = {name for name, since in left.items() if since <= now - grace // 1_000_000}
        stay = {name: since for name, since in left.items() if name not in gone}
        write_index(self.folder.as_lasting_as(scratch), Index(table.version(), tuple(needed), stay))
        for name in gone:
            self.folder.child(MARKS_FOLDER).delete(name)

    def _actions(
        self, table: deltalake.DeltaTable, batch: int, receipts: Sequence[Receipt], scratch: Folder
    ) -> list[AddAction | RemoveAction]:
        if (self.pairs or self.groups) and (table.version() + _AHEAD) % _SHORTENED < 2 * _AHEAD:
            # Delta is about to cut its log short, by itself: commits leave that the upkeep has not seen yet.
            version = table.version()
            marks = kept_marks(TableLog(self.folder, own=True), version)
            left = newest_index(self.folder, version).left
            write_index(self.folder.as_lasting_as(scratch), Index(version, tuple(marks), left))
        return super()._actions(table, batch, receipts, scratch)

    def _merged_groups(self, kept: KeptMarks, scratch: Folder) -> KeptMarks:
        """What is kept, with all marks of groups in one file."""
        if self.groups is None or len(kept.files) < 2:
            return kept
        on, by = self.groups
        marks = read_group_files(self.folder, kept.files, [*by, on])
        if marks is None:
            return replace(kept, files=())
        begin = f"part-{kept.batch:08d}-{GROUP_PART}-merged-{writer(scratch).token}"
        return replace(kept, files=(write_group_file(self.folder.as_lasting_as(scratch), begin, marks),))

    def let_go(self, files: Sequence[StoredFile], scratch: Folder) -> None:
        """Let old files go because the disk is full; then `sweep` deletes them."""
        table = deltalake.DeltaTable(self.folder.path)
        self._replace(table, files, None, scratch, time.time_ns() // 1_000_000)

    def sweep(self, scratch: Folder) -> None:
        """Delete what only waits for the end of its grace, because the disk is full: files that have left or were
        merged, and old commits of the log. Who still reads them is told."""
        table = deltalake.DeltaTable(self.folder.path)
        before = table.version()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, post_commithook_properties=BESIDE)
        table.update_incremental()
        self._keep_marks(table, scratch, 0)
        if scratch.lasting:
            sync_log(self.folder, before, table.version())
        cut_log(self.folder, table, NEWS, lasting=scratch.lasting)

    def _delete_old(self, table: deltalake.DeltaTable, batch: int) -> None:
        """Delete files whose grace is over: those that have left, and those that no version lists, of a batch that
        was begun anew or of a merge that was cut short."""
        grace = _SHORT.fullmatch(table.metadata().configuration.get("delta.deletedFileRetentionDuration") or "")
        if grace is None or int(grace.group(1)) >= _UNLISTED_HOURS * 3600:
            table.vacuum(dry_run=False, full=True, post_commithook_properties=BESIDE)
            return
        for path in table.vacuum(dry_run=True, full=True):
            found = _BATCH.search(path)
            if found is not None and int(found.group(1)) <= batch:
                self.folder.delete(path.rpartition("/")[2])
        table.vacuum(_UNLISTED_HOURS, dry_run=False, full=True, post_commithook_properties=BESIDE)

    def _merged(self, run: Sequence[StoredFile], batch: int, scratch: Folder, now: int) -> AddAction:
        tables = [pq.read_table(pa.BufferReader(self.folder.read(file.path))) for file in run]
        rows = clustered(pa.concat_tables(tables), self.key, self.on)
        begin = f"part-{batch:08d}-merged-{writer(scratch).token}"
        name, size, stats = self._write(rows, begin, scratch)
        return AddAction(name, size, {}, now, False, stats)

    def _replace(
        self,
        table: deltalake.DeltaTable,
        files: Sequence[StoredFile],
        merged: AddAction | None,
        scratch: Folder,
        now: int,
    ) -> bool:
        """Put a merged file in the place of others, or let them go; False if somebody else has taken some of them.

        Delta settles appends that come in between, but does not notice two who remove the same file. So each try
        looks at the newest version, and fails if another comes first.
        """
        lets_go = merged is None
        actions = [RemoveAction(file.path, lets_go, now, file.size, {}) for file in files]
        told = deltalake.CommitProperties(
            custom_metadata={RETENTION: "true"} if lets_go else None, max_commit_retries=0
        )
        for _ in range(_TRIES):
            version = table.version()
            if {file.path for file in files} - {file.path for file in stored_files(table)}:
                return False
            try:
                table.create_write_transaction(
                    [*([merged] if merged is not None else []), *actions],
                    "append",
                    table.schema(),
                    [],
                    commit_properties=told,
                    post_commithook_properties=BESIDE,
                )
            except CommitFailedError:
                table.update_incremental()
                continue
            table.update_incremental()
            if scratch.lasting:
                # Before the next one: the run syncs what it finds, but no more than one version of somebody else.
                sync_log(self.folder, version + 1, table.version())
            return True
        return False

    def _horizon(self, progress: OutputProgress) -> Horizon:
        """What a batch leaves of the history: by its low-water mark and its clock, whenever this is looked at."""
        on, keep, least = self.on, self.keep, None
        if on is not None and keep.time is not None:
            kind = progress.schema.field(on).type
            least = time_horizon(progress.after.of(on), duration_ticks(keep.time, kind))
            least = None if least is None else convert_tick(least, kind, delta_type(kind))
        arrived = None if keep.wall is None else progress.now - span_ns(keep.wall) // 1000
        return Horizon(on or "", least, arrived, keep.rows, keep.bytes)

    @property
    def _properties(self) -> dict[str, str | None]:
        grace = f"interval {-(-span_ns(self.grace) // 10**9)} seconds"
        return {"delta.deletedFileRetentionDuration": grace, "delta.logRetentionDuration": grace}

    @property
    def _told(self) -> Sequence[str]:
        return (*OWN_COLUMNS, *self.key, *self.marked)

    def describe(self) -> str:
        place = "in the checkpoint" if self.beside else f"at {self.folder.path}"
        by = f", by {', '.join(self.key)}" if self.key else ""
        return f"connection point {place}, keeps {self.keep.describe()}{by}"


def _cost(run: Sequence[StoredFile]) -> int:
    """The bytes that merging files adds at most: a file no larger than all of them, and a commit that names each."""
    return sum(file.size for file in run) + _NAMED_BYTES * (len(run) + 4)
