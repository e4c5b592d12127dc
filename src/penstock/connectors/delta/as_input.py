"""A Delta table as an input: followed version by version, each version's new files in the order of its commit.

```
 driver:  log ──> commit of version 7: files added, punctuation ──> splits
 worker:  split ──> rows of a file, columns of the partition, NULL where a column came later
```

A table has one shard. Its arrival order is (version, file in the commit, row).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.algebra.expressions.bounds import columns_in, rows_within
from penstock.algebra.floors import Floors
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.schema import parse_schema, plain_schema
from penstock.algebra.source import NO_SIDES, Pairs
from penstock.algebra.ticks import BEGINNING, Duration, can_progress
from penstock.connectors.connector import Chunk, Connector, Journal, NeededRows, Split
from penstock.connectors.delta.commit_marks import converted
from penstock.connectors.delta.input_feed import DeltaFeed
from penstock.connectors.delta.input_position import DeltaSplit
from penstock.connectors.delta.needed_groups import NeededGroups, needed_groups
from penstock.connectors.delta.reader_needs import tell
from penstock.connectors.delta.table_log import AddedFile, TableLog, no_table
from penstock.connectors.delta.where_to_start import Since, standing_before
from penstock.connectors.files.formats.format import BrokenFileError, Part
from penstock.connectors.files.formats.parquet import Parquet
from penstock.connectors.files.places import filesystem_of
from penstock.connectors.fitting import cast_rows
from penstock.connectors.rejects import empty, rejected_whole
from penstock.errors import InternalError, WorldError
from penstock.storage.folder import Folder

Changes = Literal["error", "skip", "append"]
"""What becomes of a version that deletes or rewrites rows: it ends the run; it brings nothing; or the files that it
adds are read as if their rows were new."""
SHARD: Final = "0"


@dataclass(frozen=True)
class DeltaInput(Connector):
    """A Delta table as an input."""

    folder: Folder
    since: Since = "beginning"
    follow: bool = False
    changes: Changes = "error"
    punctuation: bool | Duration = True
    """False leaves punctuation in the commits alone."""
    feedback: bool = field(default=False, kw_only=True)
    """Whether whoever writes the table is told which rows are of no use any more."""
    needed: NeededRows | None = field(default=None, kw_only=True)
    """The rows that are of use; None if all are."""

    @property
    def bounded(self) -> bool:
        return not self.follow

    @property
    def states(self) -> Sequence[str]:
        """The attributes of which the newest commits speak."""
        return (*self._spoken().rising, *self.falling)

    @property
    def falling(self) -> Sequence[str]:
        spoken = self._spoken()
        return tuple(name for name in spoken.falling if name not in spoken.rising)

    @property
    def pairs(self) -> Pairs:
        left, right = self._spoken().joint
        return (tuple(left), tuple(right)) if left and right else NO_SIDES

    def _spoken(self) -> Marks:
        """The marks of which the newest commits speak."""
        log = self.log()
        versions = log.versions() if self.punctuation is not False else []
        if not versions:
            return UNKNOWN
        columns = log.shape()[1].schema
        kinds = {field.name: (field.type, field.type) for field in columns if can_progress(field.type)}
        spoken = converted(standing_before(log, versions[-1] + 1).spoken(), kinds)
        # Those that decrease are whole numbers: of others nobody can be told.
        down = {name: tick for name, tick in spoken.falling.items() if pa.types.is_signed_integer(kinds[name][0])}
        return Marks(spoken.rising, down, spoken.joint)

    def log(self) -> TableLog:
        """The log of the table."""
        return TableLog(self.folder)

    @property
    def tells(self) -> bool:
        return self.feedback

    def tell(self, floors: Floors, schema: pa.Schema, folder: Folder) -> bool:
        return tell(self.folder, floors, schema, folder)

    @property
    def punctuated(self) -> bool:
        return bool(self.states)

    def schema(self) -> pa.Schema | None:
        """The schema of the newest version; None for a table that is waited for."""
        log = self.log()
        if log.versions():
            return parse_schema(plain_schema(log.shape()[1].schema))
        if self.follow:
            return None
        raise no_table(self.folder)

    def needing(self, rows: NeededRows) -> DeltaInput:
        return replace(self, needed=rows)

    def details(self) -> Sequence[str]:
        tells = ("feedback: its writers are told which rows are of no use any more",) if self.feedback else ()
        if self.needed is None:
            return tells
        return (
            *tells,
            f"leaves out rows that are not {self.needed.bounds}: {self._share()}",
        )

    def _share(self) -> str:
        """How much of what the table holds now is read, by what its files say."""
        log, schema = self.log(), self.schema()
        versions = log.versions()
        if not versions or schema is None:
            return "there is no table yet"
        files = self._files_now(log, versions[-1])
        found = [self.groups_of(file, versions[-1], UNKNOWN, schema) for file in files]
        sizes = sum(groups.bytes for groups in found), sum(file.size for file in files)
        unit, scale = ("MB", 1e6) if sizes[1] >= 1e6 else ("kB", 1e3)
        size = " of ".join(f"{size / scale:,.1f}" for size in sizes)
        return f"reads {sum(groups.rows > 0 for groups in found)} of {len(files)} files, {size} {unit}"

    def _files_now(self, log: TableLog, version: int) -> Sequence[AddedFile]:
        return log.files_at(version)

    def groups_of(self, file: AddedFile, version: int, issued: Marks, schema: pa.Schema) -> NeededGroups:
        """What is needed of a file."""
        assert self.needed is not None
        split = DeltaSplit(SHARD, 0, 0, version, file.path, file.size, partition=file.partition)
        try:
            with self.explained(version, file.path):
                given = {name: value.as_py() for name, value in _given(split, schema).items()}
                return needed_groups(Parquet().footer(self.part(split)), schema, self.needed, issued, given)
        except BrokenFileError:
            return NeededGroups(frozenset(), file.rows or 1, file.size, clean=False)  # whoever reads it tells

    def shards(self) -> Sequence[str]:
        return (SHARD,)

    def describe(self) -> str:
        since = "" if self.since == "beginning" else f", since {_words(self.since)}"
        return f"the Delta table {self.folder.path}{since}{', followed' if self.follow else ''}"

    def open(self, schema: pa.Schema, journal: Journal) -> DeltaFeed:
        return DeltaFeed(self, schema, journal)

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, DeltaSplit):
            raise InternalError("a split of another connector was given to a Delta table", found=repr(split))
        if split.path is None:
            said = split.stated
            # Of an attribute that decreases data says its values, and marks are of their negatives.
            down = {name: [-tick] for name, tick in said.falling.items() if tick != BEGINNING}
            rising = {name: [tick] for name, tick in said.rising.items()}
            groups = self._groups_in(split)
            yield Chunk(empty(schema, columns), stated={**down, **rising}, joint=said.joint, groups=groups)
            return
        try:
            with self.explained(split.version, split.path):
                yield from self._read(split, schema, columns)
        except BrokenFileError as error:
            yield rejected_whole(split.path, error.reason, split.rows, schema, columns)

    def _read(self, split: DeltaSplit, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        part = self.part(split)
        footer = self._footer(part)
        found = footer.schema.to_arrow_schema()
        given = _given(split, schema)
        held = [field for field in schema if field.name in found.names and field.name not in given]
        # A file that has none of the columns still has rows: any column tells how many.
        shape = pa.schema(held or [found.field(0)])
        needed, only, bounds = None if part.sliced else self.needed, None, None
        if needed is not None:
            values = {name: value.as_py() for name, value in given.items()}
            chosen = needed_groups(footer, schema, needed, split.issued, values)
            only, bounds = chosen.groups, needed.bounds if chosen.clean else None
        compared = frozenset[str]() if bounds is None else columns_in(bounds)
        asked = [*columns, *sorted(compared - {*columns})]
        wanted = [name for name in asked if name in {field.name for field in held}]
        for chunk in Parquet().read(part, shape, wanted, only, footer):
            rows = _filled(chunk.tuples, given, schema, asked)
            if bounds is not None:
                rows = rows.filter(rows_within(bounds, rows)).select(list(columns))
            yield Chunk(rows, chunk.rejects)

    def _groups_in(self, split: DeltaSplit) -> pa.RecordBatch | None:
        """Marks of groups that a split states."""
        return None

    def _footer(self, part: Part) -> pq.FileMetaData:
        return Parquet().footer(part)

    def part(self, split: DeltaSplit) -> Part:
        """The part of a file that a split stands for."""
        assert split.path is not None
        files, path = self._place(split.path)
        return Part(files, path, split.size, split.at, split.end, split.first, split.last)

    def _place(self, path: str) -> tuple[Any, str]:
        if "://" in path:
            return filesystem_of(path)
        files, root = filesystem_of(self.folder.path)
        plain = unquote(path)
        return files, plain if plain.startswith("/") else f"{root.rstrip('/')}/{plain}"

    @contextmanager
    def explained(self, version: int, path: str) -> Iterator[None]:
        """Say of a file that is gone which table and version it belongs to."""
        try:
            yield
        except WorldError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise WorldError(
                f"the file {path} of version {version} of the Delta table {self.folder.path} is gone",
                expected="every file of a version to stay until the version has been read",
                found="a table that was vacuumed, or lost files",
                hint="let the table keep its files for longer (delta.deletedFileRetentionDuration) and restore them, "
                "or start with another checkpoint and since= a version whose files are there",
            ) from error


def _given(split: DeltaSplit, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """The values of the columns that are in the log and not in the file."""
    return {name: _partition_value(name, text, schema) for name, text in split.partition if name in schema.names}


def _partition_value(name: str, text: str | None, schema: pa.Schema) -> pa.Scalar:
    """The value of a partition column, which is in the log and not in the file."""
    kind = schema.field(name).type
    if text is None:
        return pa.scalar(None, kind)
    column, bad = cast_rows(pa.chunked_array([[text]]), kind)
    if bad:
        raise BrokenFileError(f"has {text!r} in the partition column {name!r}, which is no {kind}")
    return column[0]


def _filled(
    tuples: pa.RecordBatch, given: dict[str, pa.Scalar], schema: pa.Schema, columns: Sequence[str]
) -> pa.RecordBatch:
    """The columns that were read, those of the partition, and NULL in those that the file does not have."""
    rows, fields = tuples.num_rows, [schema.field(name) for name in columns]
    if not fields:
        return tuples
    arrays = [
        tuples.column(field.name)
        if field.name in tuples.schema.names
        else pa.repeat(given[field.name], rows)
        if field.name in given
        else pa.nulls(rows, field.type)
        for field in fields
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _words(since: Since) -> str:
    if isinstance(since, int):
        return f"version {since}"
    return since.isoformat(sep=" ") if isinstance(since, dt.datetime) else since
