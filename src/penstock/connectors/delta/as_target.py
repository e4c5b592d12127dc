"""A Delta table as the target of an output: a batch appears at once, exactly once.

Workers write Parquet files into the table's folder, where nobody sees them before the table's log lists them. The
driver lists all files of a batch in one transaction, which also records (writer, batch) as an application transaction.
A batch that the log already has is a replay, and is left alone. The transaction carries the punctuation of the batch,
for networks that read the table; an empty batch makes one only if it moves a low-water mark. A data file
carries a digest of its content in its name: staged again with the same bytes it is the same file, and a file that a
committed transaction lists is never overwritten with others.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from penstock.algebra.floors import Floors
from penstock.algebra.ticks import Duration
from penstock.connectors.delta.commit_marks import KEY, CommitMarks, is_group_file, passes
from penstock.connectors.delta.data_files import put_data_file, write_data_file
from penstock.connectors.delta.reader_needs import heard
from penstock.connectors.delta.table_log import APPLICATION
from penstock.connectors.delta.types import as_stored, delta_schema
from penstock.connectors.delta.upkeep import COMPACT_EVERY, merge_small_files, partition_text, sync_log
from penstock.connectors.growing_parquet import GrowingParquet
from penstock.connectors.targets.target import (
    SILENT,
    Mode,
    OpenPart,
    OutputProgress,
    Receipt,
    StagedFile,
    Target,
    check_fit,
    check_writable,
    enrol,
    is_enrolled,
    writer,
)
from penstock.errors import PenstockError, QueryError, WorldError
from penstock.storage.folder import Folder

if TYPE_CHECKING:
    from deltalake.transaction import RemoveAction

_ATTEMPTS: Final = 5
"""Tries of a transaction that others' changes of the table defeat (their appends do not: Delta settles those)."""
SHORT_LOG: Final = deltalake.PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=True)
"""Delta cuts its log short by itself: a checkpoint every 100 transactions, and entries leave after a month."""
_FAILURES: Final = (DeltaError, OSError, ValueError)
_DEMANDING: Final = (
    "delta.columnMapping.",
    "delta.constraints.",
    "delta.invariants",
    "delta.generationExpression",
    "delta.identity.",
)
"""Properties of a table or a column that ask a writer for more than adding files."""


@dataclass(frozen=True)
class DeltaTarget(Target):
    """A Delta table. An empty string in a partition column is NULL to Delta."""

    folder: Folder
    mode: Mode = "append"
    partition_by: tuple[str, ...] = ()
    compact: int = COMPACT_EVERY
    punctuation: bool | Duration = True
    """Whether commits say how far the stream has come; or a step: without tuples, a mark must pass a multiple of it."""
    feedback: bool = field(default=False, kw_only=True)
    """Whether tuples are left out that are of no use to the table's readers any more."""

    @property
    def heeds(self) -> bool:
        return self.feedback

    @property
    def states_pairs(self) -> bool:
        return self.punctuation is not False

    def heard(self, schema: pa.Schema) -> Floors:
        return heard(self.folder, schema)

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        try:
            stored = delta_schema(schema)
            self._check_partitions(stored)
            check_writable(self.folder.as_lasting_as(scratch))
            table = self._create_or_open(stored)
            self._check_table(name, table, stored, first=not is_enrolled(scratch))
            if scratch.lasting:
                self.folder.sync("_delta_log")
        except PenstockError as error:
            raise error.located(box=name) from error.__cause__
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        if table.num_rows == 0:
            return None
        stored, token = as_stored(table), writer(scratch).token
        files = []
        for index, (values, rows) in enumerate(_partitions(stored, self.partition_by)):
            name, size, stats = self._write(rows, _begin(batch, part, index, token), scratch)
            files.append(StagedFile(name, rows.num_rows, size, values, stats))
        return Receipt(batch, part, tuple(files))

    def opened(self, batch: int, part: int, scratch: Folder) -> OpenPart | None:
        return None if self.partition_by else _OpenFile(self, batch, part, scratch)

    def put(self, batch: int, part: int, rows: int, content: pa.Buffer, schema: pa.Schema, scratch: Folder) -> Receipt:
        """Put a part that is one file into the table's folder."""
        folder, begin = self.folder.as_lasting_as(scratch), _begin(batch, part, 0, writer(scratch).token)
        name, size, stats = put_data_file(folder, begin, content, schema, self._told)
        return Receipt(batch, part, (StagedFile(name, rows, size, stats=stats),))

    def _write(self, rows: pa.Table, begin: str, scratch: Folder) -> tuple[str, int, str]:
        """Put a data file into the table's folder: its name, its size, and what the log says about it."""
        return write_data_file(self.folder.as_lasting_as(scratch), begin, rows, self._told)

    def shows(self, receipts: Sequence[Receipt], progress: OutputProgress) -> bool:
        return bool(receipts) or passes(progress, self.punctuation)

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        if not self.shows(receipts, progress):
            return
        known, app = writer(scratch), _application(scratch)
        speaks = self.punctuation is not False and bool(progress.after.ticks())
        transaction = deltalake.CommitProperties(
            custom_metadata={KEY: self._said(progress, known.token, receipts).to_text()} if speaks else None,
            app_transactions=[deltalake.Transaction(app, batch)],
            max_commit_retries=self._retries,
        )
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                table = _current(self.folder.path)
                before, last = table.version(), table.transaction_version(app)
                if last is None or last < batch:
                    table.create_write_transaction(
                        self._actions(table, batch, receipts, scratch),
                        "append",
                        table.schema(),
                        list(self.partition_by),
                        commit_properties=transaction,
                        post_commithook_properties=SHORT_LOG,
                    )
                    table.update_incremental()
                    self._keep_short(table, batch, scratch)
                self._make_last(table, before, scratch)
                return
            except CommitFailedError as failure:
                # Someone changed the table meanwhile: perhaps another life of this run, with this batch. Look again.
                _open.cache_clear()
                if attempt == _ATTEMPTS:
                    raise self._failed(batch, known.output, failure) from failure
            except _FAILURES as failure:
                _open.cache_clear()
                raise self._failed(batch, known.output, failure) from failure

    def _said(self, progress: OutputProgress, token: str, receipts: Sequence[Receipt]) -> CommitMarks:
        """What the commit of a batch says of its progress."""
        return CommitMarks.of(progress, token)

    def _actions(
        self, table: deltalake.DeltaTable, batch: int, receipts: Sequence[Receipt], scratch: Folder
    ) -> list[AddAction | RemoveAction]:
        """What a batch does to the table as it is now."""
        # The log's record of when a file was made; nothing is computed from it.
        now = time.time_ns() // 1_000_000
        return [
            AddAction(file.name, file.bytes, dict(file.partition), now, True, file.stats)
            for receipt in receipts
            for file in receipt.files
            if not is_group_file(file.name)
        ]

    @property
    def _retries(self) -> int | None:
        """How often Delta itself tries a transaction again that others defeat; None: as it likes."""
        return None

    def last_committed(self, scratch: Folder) -> int:
        _open.cache_clear()  # the run begins: the table may be another one than this process has seen
        try:
            if not deltalake.DeltaTable.is_deltatable(self.folder.path):
                return -1
            last = _open(self.folder.path).transaction_version(_application(scratch))
        except _FAILURES as failure:
            raise WorldError(f"cannot open the Delta table {self.folder.path}", found=_reason(failure)) from failure
        return -1 if last is None else int(last)

    def _keep_short(self, table: deltalake.DeltaTable, batch: int, scratch: Folder) -> None:
        """Now and then, merge small files: what is in the table stays the same."""
        if self.compact and table.version() % self.compact == 0:
            # The batch is in the table, so its log must be on the disk before files are replaced.
            self._make_last(table, table.version(), scratch)
            begin = f"part-{batch:08d}-merged-{writer(scratch).token}"
            merge_small_files(table, self.folder, writer(scratch).token, lambda rows: self._write(rows, begin, scratch))

    def _make_last(self, table: deltalake.DeltaTable, before: int, scratch: Folder) -> None:
        """Bring the log behind a version to the disk, to the batch and beyond: Delta itself leaves that to chance."""
        if scratch.lasting:
            sync_log(self.folder, before, table.version())

    @property
    def outside(self) -> bool:
        return True

    @property
    def _properties(self) -> dict[str, str | None]:
        """The properties of a table that is made."""
        return {}

    @property
    def _told(self) -> Sequence[str]:
        """The columns whose bounds the log must tell, however many there are before them."""
        return ()

    def describe(self) -> str:
        by = f", partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"the Delta table {self.folder.path}{by}"

    def _check_partitions(self, stored: pa.Schema) -> None:
        for column in self.partition_by:
            if column not in stored.names:
                raise QueryError(f"unknown partition column '{column}'", expected=f"one of {', '.join(stored.names)}")
            kind = stored.field(column).type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                raise QueryError(f"a Delta table cannot be partitioned by '{column}'", found=str(kind))
        if len(set(self.partition_by)) == len(stored.names):
            raise QueryError("all columns are partition columns", expected="one at least that is not")

    def _create_or_open(self, stored: pa.Schema) -> deltalake.DeltaTable:
        try:
            if not deltalake.DeltaTable.is_deltatable(self.folder.path):
                deltalake.DeltaTable.create(
                    self.folder.path,
                    stored,
                    mode="ignore",
                    partition_by=list(self.partition_by),
                    configuration=self._properties,
                )
            _open.cache_clear()
            return _open(self.folder.path)
        except _FAILURES as failure:
            raise WorldError(f"cannot open the Delta table {self.folder.path}", found=_reason(failure)) from failure

    def _check_table(self, name: str, table: deltalake.DeltaTable, stored: pa.Schema, *, first: bool) -> None:
        place = f"the Delta table {self.folder.path}"
        if first and self.mode == "new" and table.file_uris():
            raise QueryError(
                f"{place} already holds tuples",
                expected="an empty table, for a run that starts afresh",
                hint="name another table, or say mode='append' to add to it",
            )
        existing = pa.schema(table.schema().to_arrow())
        # Through Delta's own types and back: both sides then name the inside of lists and maps alike.
        check_fit(name, place, pa.schema(deltalake.Schema.from_arrow(stored).to_arrow()), existing)
        partitions = tuple(table.metadata().partition_columns)
        if partitions != self.partition_by:
            raise QueryError(
                f"{place} is partitioned in another way",
                expected=f"partition_by={list(partitions)}",
                found=f"partition_by={list(self.partition_by)}",
            )
        demands = [key for key in table.metadata().configuration if key.startswith(_DEMANDING)]
        demands += [
            f"{key} of '{column.name}'"
            for column in table.schema().fields
            for key in column.metadata
            if key.startswith(_DEMANDING)
        ]
        demands += [
            f"'{column.name}' is NOT NULL"
            for column in existing
            if not column.nullable and stored.field(column.name).nullable
        ]
        if demands:
            raise QueryError(
                f"{place} asks more of a writer than Penstock does",
                found=", ".join(demands),
                hint="write to a table without these properties",
            )

    def _failed(self, batch: int, output: str, failure: Exception) -> WorldError:
        return WorldError(
            f"cannot commit batch {batch} to the Delta table {self.folder.path}", box=output, found=_reason(failure)
        )


@dataclass
class _OpenFile(OpenPart):
    """A data file that takes its tuples piece by piece."""

    table: DeltaTarget
    batch: int
    part: int
    scratch: Folder
    file: GrowingParquet = field(default_factory=lambda: GrowingParquet("zstd", store_schema=False))
    schema: pa.Schema | None = None

    def add(self, tuples: pa.Table) -> None:
        stored = as_stored(tuples)
        self.schema = stored.schema
        self.file.add(stored)

    def done(self) -> Receipt | None:
        content = self.file.done()
        return self.table.put(self.batch, self.part, self.file.rows, content, self.schema, self.scratch)


def _begin(batch: int, part: int, index: int, token: str) -> str:
    """How the name of a data file begins."""
    return f"part-{batch:08d}-{part:04d}-{index:04d}-{token}"


def _partitions(table: pa.Table, by: Sequence[str]) -> Iterator[tuple[tuple[tuple[str, str | None], ...], pa.Table]]:
    """The table cut by the values of its partition columns, which go into the log and not into the files."""
    if not by:
        yield (), table
        return
    ordered = table.sort_by([(column, "ascending") for column in by])
    groups = ordered.select(by).group_by(list(by), use_threads=False).aggregate([([], "count_all")])
    texts = zip(*(partition_text(groups[column]).to_pylist() for column in by), strict=True)
    data, start = ordered.drop_columns(list(by)), 0
    for values, count in zip(texts, groups["count_all"].to_pylist(), strict=True):
        yield tuple(zip(by, values, strict=True)), data.slice(start, count)
        start += count


def _reason(failure: Exception) -> str:
    return str(failure).splitlines()[0]


@functools.lru_cache(maxsize=64)
def _open(path: str) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(path)


def _current(path: str) -> deltalake.DeltaTable:
    """The table as it is now; kept open, because reading only the news of its log is cheaper than all of it."""
    table = _open(path)
    table.update_incremental()
    return table


def _application(scratch: Folder) -> str:
    """The name under which the table's log knows this output of this run."""
    return f"{APPLICATION}{writer(scratch).token}"
