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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.connector import Chunk, Journal
from penstock.connectors.delta.as_input import DeltaInput
from penstock.connectors.delta.input_feed import DeltaFeed
from penstock.connectors.delta.input_position import ALL_GROUPS, DeltaSplit, Issued, TablePlace
from penstock.connectors.delta.needed_groups import NeededGroups
from penstock.connectors.delta.table_log import AddedFile, Commit, TableLog, opening
from penstock.connectors.delta.where_to_start import BEGINNING_WORD, Since, Start, check_since, standing_before
from penstock.connectors.files.formats.format import BrokenFileError, Cut, Part
from penstock.connectors.files.formats.parquet import Parquet
from penstock.connectors.points.arrival_layout import Groups, Stretch, stretches
from penstock.connectors.points.stored_files import (
    ARRIVAL_COLUMN,
    ARRIVED_COLUMN,
    BATCH_COLUMN,
    OWN_COLUMNS,
    OWN_FIELDS,
    by_batches,
    stored_files,
)
from penstock.errors import WorldError
from penstock.storage.folder import Folder

_CHUNK_ROWS: Final = 1 << 17
_CUT_ROWS: Final = 1 << 19
"""How many rows one task reads, about."""
_KNOWN_FOOTERS: Final = 32
_footers: dict[tuple[str, int], pq.FileMetaData] = {}
"""Footers of files, by path and size: a file of a table never changes."""


@dataclass(frozen=True)
class Unit(AddedFile):
    """Files that are read together: between any two units lies the end of a batch."""

    files: tuple[AddedFile, ...] = ()

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Paths and sizes of its files."""
        return tuple((file.path, file.size) for file in self.files)

    @staticmethod
    def of(files: Sequence[AddedFile]) -> Unit:
        rows = sum(file.rows or 0 for file in files)
        known = [dict(file.least) for file in files]
        names = [name for name in known[0] if all(name in each for each in known)]
        least = tuple((name, min(each[name] for each in known)) for name in names)
        return Unit(files[0].path, sum(file.size for file in files), rows, least=least, files=tuple(files))


@dataclass(frozen=True)
class PointSplit(DeltaSplit):
    """Rows of a unit, from one place in the order of arrival to another; `path` is that of its first file.

    `at` and `end` are numbers of stretches of the unit, and places are counted from the first of these. Where nobody
    knows the stretches, or only some rows of the unit are needed, it is the unit as a whole.
    """

    files: tuple[tuple[str, int], ...] = ()
    """Paths and sizes."""

    @property
    def in_stretches(self) -> bool:
        return self.end != ALL_GROUPS


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

    def describe(self) -> str:
        return super().describe().replace("the Delta table", "the connection point", 1)

    def _files_now(self, log: TableLog, version: int) -> Sequence[AddedFile]:
        return [AddedFile(file.path, file.size, file.rows) for file in stored_files(_opened(self.folder))]

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
    if not _in_sequence(batches, arrivals):
        order = np.lexsort((arrivals, batches))
        rows, batches, arrivals = rows.take(pa.array(order)), batches[order], arrivals[order]
    return _Sorted(
        rows,
        _places(batches, arrivals),
        tuple(replace(chunk, tuples=chunk.tuples.slice(0, 0).select(list(columns))) for chunk in broken),
    )


_in_order_again = functools.lru_cache(maxsize=1)(_in_order)


@functools.lru_cache(maxsize=64)
def _stretches(point: PointInput, files: tuple[tuple[str, int], ...]) -> tuple[Stretch, ...]:
    parts = [point.part(DeltaSplit(point.shards()[0], 0, 0, 0, path, size)) for path, size in files]
    return stretches([Parquet().footer(part) for part in parts])


def _in_sequence(batches: np.ndarray, arrivals: np.ndarray) -> bool:
    """Whether rows lie as they arrived: without a storage key they mostly do.

    >>> _in_sequence(np.array([0, 0, 1]), np.array([5, 7, 2])), _in_sequence(np.array([0, 0]), np.array([7, 5]))
    (True, False)
    """
    later = np.diff(batches)
    return bool(np.all((later > 0) | ((later == 0) & (np.diff(arrivals) >= 0))))


def _places(batches: np.ndarray, arrivals: np.ndarray) -> np.ndarray:
    """For sorted rows, the number of the first that arrived together with each.

    >>> _places(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 7])).tolist()
    [0, 0, 2, 3]
    """
    if not len(batches):
        return np.zeros(0, np.int64)
    fresh = np.concatenate(([True], (np.diff(batches) != 0) | (np.diff(arrivals) != 0)))
    return np.maximum.accumulate(np.where(fresh, np.arange(len(batches)), 0))


class PointFeed(DeltaFeed):
    """What a connection point holds when it is first read, and then its commits."""

    def _find_start(self) -> Start:
        if self._connector.since != BEGINNING_WORD:
            return super()._find_start()
        table = _opened(self._connector.folder)
        said = standing_before(self._log, table.version() + 1)
        files = [
            AddedFile(file.path, file.size, file.rows, (), False, (file.first, file.last), tuple(file.least.items()))
            for file in stored_files(table, said.marks())
        ]
        return Start(table.version(), tuple(files), said)

    @cached_property
    def _held(self) -> tuple[AddedFile, ...]:
        """All that the table held at the start, in units."""
        groups = by_batches(self._start.files or (), lambda file: file.batches or (0, 0))
        return tuple(Unit.of(group) for group in groups)

    @cached_property
    def _behind(self) -> Sequence[Mapping[str, int]]:
        """For every unit that was held at the start, the marks that hold for it and for all that follows."""
        found = [self._start.said.marks()]
        for unit in reversed(self._held):
            least = dict(unit.least)
            found.append({name: min(tick, least[name]) for name, tick in found[-1].items() if name in least})
        return found[:0:-1]

    def _marks_at(self, place: TablePlace) -> Mapping[str, int]:
        if self._start.files is None or place.version > self._start.version or place.file >= len(self._behind):
            return super()._marks_at(place)
        return self._behind[place.file] if self._listens else {}

    def _readable(self, version: int, changes: str) -> Commit | None:
        commit = super()._readable(version, changes)
        if commit is None or not commit.added:
            return commit
        held = self._start.files is not None and version == self._start.version
        return replace(commit, added=self._held if held else (Unit.of(commit.added),))

    def _cuts_of(self, version: int, file: AddedFile) -> Sequence[Cut]:
        assert isinstance(file, Unit)
        if self._connector.needed is not None:
            return (_as_a_whole(file),)
        if file.path not in self._cuts:
            self._cuts[file.path] = self._cut(version, file)
        return self._cuts[file.path]

    def _cut(self, version: int, unit: Unit) -> Sequence[Cut]:
        """A unit in parts of some stretches."""
        assert isinstance(self._connector, PointInput)
        try:
            with self._connector.explained(version, unit.path):
                found = self._connector.stretches_of(unit.places)
        except BrokenFileError:
            return (_as_a_whole(unit),)  # whoever reads it tells
        if sum(stretch.rows for stretch in found) != (unit.rows or 0):
            return (_as_a_whole(unit),)
        cuts, first, rows = list[Cut](), 0, 0
        for number, stretch in enumerate(found, 1):
            rows += stretch.rows
            if rows >= _CUT_ROWS or number == len(found):
                size = unit.size * rows // max(1, unit.rows or 0)
                cuts.append(Cut(first, number, rows, size, counted=True))
                first, rows = number, 0
        return cuts

    def _needed_of(self, version: int, file: AddedFile, issued: Issued) -> NeededGroups:
        assert isinstance(file, Unit)
        found = [super(PointFeed, self)._needed_of(version, one, issued) for one in file.files]
        return NeededGroups(
            frozenset(),
            sum(one.rows for one in found),
            sum(one.bytes for one in found),
            all(one.clean for one in found),
        )

    def _pruned(self, part: DeltaSplit, file: AddedFile) -> DeltaSplit | None:
        assert isinstance(file, Unit)
        assert isinstance(part, PointSplit)
        found = [(one, super(PointFeed, self)._needed_of(part.version, one, part.issued)) for one in file.files]
        files = tuple((one.path, one.size) for one, needed in found if needed.rows)
        return replace(part, files=files, rows=sum(needed.rows for _, needed in found)) if files else None

    def _split(self, version: int, file: AddedFile, number: int, rows: int) -> DeltaSplit:
        assert isinstance(file, Unit)
        return PointSplit(
            self._connector.shards()[0], number, rows, version, file.path, file.files[0].size, files=file.places
        )


def _as_a_whole(unit: Unit) -> Cut:
    return Cut(0, ALL_GROUPS, unit.rows or 0, unit.size, counted=True)


def _opened(folder: Folder) -> deltalake.DeltaTable:
    with opening(folder):
        return deltalake.DeltaTable(folder.path)


def connection_point(path: str, *, since: Since = BEGINNING_WORD, follow: bool = False) -> PointInput:
    """A connection point as an input: the stream that has passed there, with its punctuation and QoS timestamps.

    `path` is the place of the point: where it was declared to be, or `<checkpoint>/points/<name>`. It is read
    `since="beginning"` of what it holds, or as of a version or a time of its table. Without `follow=True` the input
    ends with what the point holds when the run starts.
    """
    check_since(since)
    return PointInput(Folder(str(path)), since=since, follow=follow)
