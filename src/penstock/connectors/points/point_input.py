"""A connection point as an input: the stream that has passed there, once more.

```
 driver:  all that the table holds now: files by batches ──> then commit by commit, each a batch or more ──> splits
 worker:  row groups whose rows arrived together ──> rows by (batch, place in the order of arrival) ──> chunks
```

The tuples come in the order in which they arrived, with the QoS timestamps that they had, however many files a batch
was written to and whatever these have been merged to since. Between stored batches the input states what is known to
be true of the rest: at least what the stream itself had stated there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.connector import Chunk, Journal
from penstock.connectors.delta.as_input import DeltaInput
from penstock.connectors.delta.input_position import ALL_GROUPS, DeltaSplit
from penstock.connectors.delta.table_log import AddedFile, TableLog
from penstock.connectors.delta.where_to_start import (
    BEGINNING_WORD,
    Since,
    check_since,
    newest_said,
)
from penstock.connectors.files.formats.format import Part
from penstock.connectors.files.formats.parquet import Parquet
from penstock.connectors.points.arrival_layout import Groups, Stretch, stretches
from penstock.connectors.points.group_files import read_group_files
from penstock.connectors.points.point_feed import PointFeed, opened_table
from penstock.connectors.points.stored_files import (
    ARRIVAL_COLUMN,
    ARRIVED_COLUMN,
    BATCH_COLUMN,
    OWN_COLUMNS,
    OWN_FIELDS,
    stored_files,
)
from penstock.connectors.points.units import PointSplit
from penstock.errors import WorldError
from penstock.storage.folder import Folder

_CHUNK_ROWS: Final = 1 << 17
_KNOWN_FOOTERS: Final = 32
_footers: dict[tuple[str, int], pq.FileMetaData] = {}
"""Footers of files, by path and size: a file of a table never changes."""


@dataclass(frozen=True)
class PointInput(DeltaInput):
    """A connection point as an input."""

    @property
    def brings_arrival(self) -> bool:
        return True

    def schema(self) -> pa.Schema | None:
        found = super().schema()
        if found is None:
            return None
        missing = [name for name in OWN_COLUMNS if name not in found.names]
        if missing:
            raise WorldError(
                f"the Delta table {self.folder.path} is no connection point",
                expected=f"a table with the columns {', '.join(OWN_COLUMNS)}",
                found=", ".join(found.names),
                hint="read it with pk.delta(...)",
            )
        return pa.schema([field for field in found if field.name not in OWN_COLUMNS])

    @property
    def group_marks(self) -> tuple[str, tuple[str, ...]] | None:
        said = newest_said(self.log()) if self.punctuation is not False else None
        return None if said is None or said.groups is None else (said.groups.on, said.groups.by)

    def _groups_in(self, split: DeltaSplit) -> pa.RecordBatch | None:
        marks = read_group_files(self.folder, split.marked)
        return None if marks is None else marks.combine_chunks().to_batches()[0]

    def log(self) -> TableLog:
        return TableLog(self.folder, own=True)

    def describe(self) -> str:
        return super().describe().replace("the Delta table", "the connection point", 1)

    def _files_now(self, log: TableLog, version: int) -> Sequence[AddedFile]:
        return [AddedFile(file.path, file.size, file.rows) for file in stored_files(opened_table(self.folder))]

    def open(self, schema: pa.Schema, journal: Journal) -> PointFeed:
        return PointFeed(self, schema, journal)

    def _read(self, split: DeltaSplit, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        assert isinstance(split, PointSplit)
        for rows, before in self._sorted(split, schema, tuple(columns)):
            if split.first <= before:
                yield from rows.rejects
            table = rows.table.select([*columns, ARRIVED_COLUMN])
            begin = int(np.searchsorted(rows.places, split.first - before))
            last = len(rows.places) if split.last is None else int(np.searchsorted(rows.places, split.last - before))
            for first in range(begin, last, _CHUNK_ROWS):
                some = table.slice(first, min(_CHUNK_ROWS, last - first)).combine_chunks()
                yield Chunk(
                    some.select(list(columns)).to_batches()[0],
                    arrived=some.column(ARRIVED_COLUMN).combine_chunks(),
                    places=pa.array(rows.places[first : first + some.num_rows] - first),
                )

    def _sorted(self, split: PointSplit, schema: pa.Schema, columns: tuple[str, ...]) -> Iterator[tuple[_Sorted, int]]:
        """The rows of a split in order of arrival, some more before and behind them, and how many precede these."""
        unit = replace(split, seq=0, rows=0, at=0, end=ALL_GROUPS, first=0, last=None)
        if not split.in_stretches:
            whole = split.first == 0 and split.last is None
            # A place inside a unit counts all rows before it, so these are all read.
            read, point = (_in_order, self) if whole else (_in_order_again, replace(self, needed=None))
            yield read(point, unit, (), schema, columns), 0
            return
        before = 0
        for stretch in self.stretches_of(unit.files)[split.at : split.end]:
            behind = split.last is not None and split.last <= before
            if split.first < before + stretch.rows and not behind:
                # The next train goes on in the same stretch: what is left of it need not be read and sorted once more.
                yield _in_order_again(replace(self, needed=None), unit, stretch.groups, schema, columns), before
            before += stretch.rows

    def _footer(self, part: Part) -> pq.FileMetaData:
        # A file is read stretch by stretch, and has many row groups: what it says of them is read once.
        known = part.path, part.size
        if known not in _footers:
            if len(_footers) >= _KNOWN_FOOTERS:
                _footers.clear()
            _footers[known] = super()._footer(part)
        return _footers[known]

    def stretches_of(self, files: tuple[tuple[str, int], ...]) -> tuple[Stretch, ...]:
        """The stretches of a unit."""
        return _stretches(replace(self, needed=None), files)

    def files_of(
        self, unit: PointSplit, groups: Sequence[Groups], schema: pa.Schema, columns: Sequence[str]
    ) -> Iterator[Chunk]:
        """The rows of a unit as its files hold them, with the columns of the point: of these row groups, or of all."""
        shape, wanted = pa.schema([*schema, *OWN_FIELDS]), [*columns, *OWN_COLUMNS]
        for some in groups or (Groups(file, 0, ALL_GROUPS) for file in range(len(unit.files))):
            path, size = unit.files[some.file]
            one = DeltaSplit(unit.shard, 0, 0, unit.version, path, size, some.first, some.end, issued=unit.issued)
            yield from super()._read(one, shape, wanted)


@dataclass(frozen=True)
class _Sorted:
    """The rows of a unit in order of arrival."""

    table: pa.Table
    places: np.ndarray
    """For every row, the first that arrived together with it."""
    rejects: tuple[Chunk, ...]
    """What could not be decoded."""


def _in_order(
    point: PointInput, unit: PointSplit, groups: tuple[Groups, ...], schema: pa.Schema, columns: tuple[str, ...]
) -> _Sorted:
    chunks = list(point.files_of(unit, groups, schema, columns))
    broken = [chunk for chunk in chunks if chunk.rejects is not None and chunk.rejects.num_rows]
    shape = pa.schema([*(schema.field(name) for name in columns), *OWN_FIELDS])
    rows = pa.Table.from_batches([chunk.tuples for chunk in chunks], shape)
    batches, arrivals = rows.column(BATCH_COLUMN).to_numpy(), rows.column(ARRIVAL_COLUMN).to_numpy()
    steps = _steps(batches, arrivals)
    if steps is None:
        order = np.lexsort((arrivals, batches))
        rows, steps = rows.take(pa.array(order)), _steps(batches[order], arrivals[order])
        assert steps is not None
    return _Sorted(
        rows,
        _places(steps, rows.num_rows),
        tuple(replace(chunk, tuples=chunk.tuples.slice(0, 0).select(list(columns))) for chunk in broken),
    )


_in_order_again = functools.lru_cache(maxsize=1)(_in_order)


@functools.lru_cache(maxsize=64)
def _stretches(point: PointInput, files: tuple[tuple[str, int], ...]) -> tuple[Stretch, ...]:
    parts = [point.part(DeltaSplit(point.shards()[0], 0, 0, 0, path, size)) for path, size in files]
    return stretches([Parquet().footer(part) for part in parts])


def _steps(batches: np.ndarray, arrivals: np.ndarray) -> np.ndarray | None:
    """Whether each row but the first arrived later than the one before it; None if one arrived earlier. Without a
    storage key rows mostly lie as they arrived.

    >>> _steps(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 2])), _steps(np.array([0, 0]), np.array([7, 5]))
    (array([False,  True,  True]), None)
    """
    later = arrivals[1:] > arrivals[:-1]
    if later.all() and (not len(batches) or (batches == batches[0]).all()):
        return later
    same = batches[1:] == batches[:-1]
    if ((batches[1:] < batches[:-1]) | (same & (arrivals[1:] < arrivals[:-1]))).any():
        return None
    fresh: np.ndarray = ~same | later
    return fresh


def _places(steps: np.ndarray, rows: int) -> np.ndarray:
    """For sorted rows, the number of the first that arrived together with each.

    >>> _places(np.array([False, True, True]), 4).tolist()
    [0, 0, 2, 3]
    """
    places = np.arange(rows)
    return places if steps.all() else np.maximum.accumulate(np.where(np.concatenate(([True], steps)), places, 0))


def connection_point(path: str, *, since: Since = BEGINNING_WORD, follow: bool = False) -> PointInput:
    """A connection point as an input: the stream that has passed there, with its punctuation and QoS timestamps.

    `path` is the place of the point: where it was declared to be, or `<checkpoint>/points/<name>`. It is read
    `since="beginning"` of what it holds, or as of a version or a time of its table. Without `follow=True` the input
    ends with what the point holds when the run starts.
    """
    check_since(since)
    return PointInput(Folder(str(path)), since=since, follow=follow)
