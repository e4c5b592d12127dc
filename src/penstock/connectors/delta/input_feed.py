"""The driver's side of a Delta table as an input: which versions there are, and where the next train ends.

Where the input has started is in the journal before a position refers to it: a restart finds the same start, whatever
has left the table's log since. Versions themselves are not journalled, for a commit never changes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.algebra.marks import NO_PAIRS, Marks
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.connector import Advance, Feed, Journal, Limit, Position, Split, fixed_width, row_bytes
from penstock.connectors.delta.commit_marks import NOTHING_SAID, NamedFile, converted
from penstock.connectors.delta.input_position import ALL_GROUPS, ERROR, DeltaSplit, TablePlace
from penstock.connectors.delta.needed_groups import NeededGroups
from penstock.connectors.delta.readable import check_columns, check_features, check_same_table, check_shape
from penstock.connectors.delta.table_log import AddedFile, Commit, TableShape, no_table
from penstock.connectors.delta.where_to_start import BEGINNING_WORD, Start, find_start
from penstock.connectors.files.formats.format import BrokenFileError, Cut, Tuning
from penstock.connectors.files.formats.parquet import Parquet
from penstock.connectors.train_room import TrainRoom
from penstock.errors import WorldError

if TYPE_CHECKING:
    from penstock.connectors.delta.as_input import DeltaInput

_TUNING: Final = Tuning(1 << 19, 16 << 20)
"""How large a part for one task is, as of Parquet files elsewhere."""
_MOST_VERSIONS: Final = 1024
"""Versions that one train passes at most: a long log without new rows is not read in one go."""
_KNOWN_FILES: Final = 1 << 14
"""Files of which it is remembered what is needed."""
_LOOK_SECONDS: Final = 10.0
"""How often a silent table is asked whether the version that is waited for has left its log."""


class DeltaFeed(Feed):
    """The versions of one table."""

    def __init__(self, connector: DeltaInput, schema: pa.Schema, journal: Journal) -> None:
        self._connector = connector
        self._listens = connector.punctuation is not False
        self._schema = schema
        self._journal = journal
        self._log = connector.log()
        self._shape: TableShape | None = None
        self._loaded = -1
        self._looked = 0.0
        self._cuts: dict[str, Sequence[Cut]] = {}
        self._needed: dict[tuple[str, Marks], NeededGroups] = {}
        self._texts: Mapping[str, float] | None = None
        self._start, self._until, self._table = self._recall()
        if not self._is_there() and not connector.follow:
            raise no_table(connector.folder)

    def _recall(self) -> tuple[Start, int | None, str | None]:
        """Where the input starts, the last version of one that ends, and which table it is: as the journal says, or as
        it is found now and journalled."""
        told: dict[str, Any] = {}
        for entry in self._journal.entries():
            told.update(entry)
        if "start" not in told:
            versions = self._log.versions()
            if versions:
                start = self._find_start()
            elif self._connector.follow and self._connector.since in (BEGINNING_WORD, 0):
                start = Start(0)
            else:
                raise no_table(self._connector.folder)
            newest = versions[-1] if versions else 0
            if start.files is not None:
                newest = max(newest, start.version)  # what the table holds may be that of a version just come
            told = {"start": start.to_json(), "until": None if self._connector.follow else newest}
            self._journal.append([told])
        return Start.from_json(told["start"]), told["until"], told.get("table")

    def _find_start(self) -> Start:
        return find_start(self._log, self._connector.since)

    def _is_there(self) -> bool:
        """Whether the table is there, looked at once it is."""
        if self._shape is not None:
            return True
        if not self._log.versions():
            return False
        loaded, shape = self._log.shape()
        check_features(shape, self._connector.folder)
        check_columns(shape.schema, self._schema, self._connector.folder)
        if self._table is None:
            self._table = shape.id
            self._journal.append([{"table": shape.id}])
        check_same_table(shape, self._table, self._connector.folder)
        self._loaded, self._shape = loaded, shape
        return True

    def start(self) -> Position:
        # What is said of all that a table holds is stated behind it.
        said = self._start.said if self._listens and self._start.files is None else NOTHING_SAID
        return TablePlace(self._start.version, said=said, changes=self._connector.changes).to_json()

    def advance(self, position: Position, limit: Limit) -> Advance:
        before, room = TablePlace.of(position), TrainRoom(limit)
        place = replace(before, changes=self._connector.changes)
        issued = self._in_types(self._marks_at(before))
        if not self._is_there():
            return Advance(position)
        for _ in range(_MOST_VERSIONS):
            if self._until is not None and place.version > self._until:
                break
            try:
                commit = self._readable(place.version, place.changes)
            except WorldError:
                if place.is_at(before):
                    raise
                break  # what comes before is read first
            if commit is None:
                self._require(place.version)
                place = replace(place, closed=bool(place.said.ended))
                break
            stop = self._take(commit, place, room, issued)
            if stop is not None:
                place = stop
                break
            place = place.after(commit, listens=self._listens)
        ended = self._until is not None and place.version > self._until
        return Advance(place.to_json(), ended=ended, rows=room.rows, bytes=int(room.bytes))

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        first, last = TablePlace.of(start), TablePlace.of(end)
        found: list[Split] = []
        issued = self._in_types(self._marks_at(first))
        for version in range(first.version, last.version + 1):
            begin = first if version == first.version else TablePlace(version)
            if version == last.version and (last.file, last.row) == (0, 0):
                break
            commit = self._readable(version, last.changes)
            if commit is None:
                raise self._gone(version)
            stop = last if version == last.version else TablePlace(version, len(commit.added))
            for at in range(begin.file, stop.file + (stop.row > 0)):
                found += self._of(commit, at, begin, stop, issued)
        stated, marked = self._stronger(first, last), self._marked(first, last)
        if stated.ticks() or marked:
            shard, number = self._connector.shards()[0], last.number - 1
            found.append(DeltaSplit(shard, number, 0, last.version - 1, stated=stated, marked=marked))
        return found

    def _of(self, commit: Commit, at: int, begin: TablePlace, stop: TablePlace, issued: Marks) -> list[Split]:
        """The parts of one file that lie between two places, and of which something is needed."""
        file = commit.added[at]
        low = begin.row if at == begin.file else 0
        high = stop.row if at == stop.file else None
        found, before = list[Split](), 0
        for cut in self._cuts_of(commit.version, file):
            first, last = max(0, low - before), cut.rows if high is None else min(cut.rows, high - before)
            if first < last:
                number = TablePlace(commit.version, at, before + first).number
                part = self._split(commit.version, file, number, last - first)
                inside = None if last == cut.rows else last
                part = replace(part, at=cut.at, end=cut.end, first=first, last=inside, issued=issued)
                whole = first == 0 and inside is None
                needed = self._pruned(part, file) if whole and self._connector.needed is not None else part
                found += [needed] if needed is not None else []
            before += cut.rows
        return found

    def _pruned(self, part: DeltaSplit, file: AddedFile) -> DeltaSplit | None:
        """A part with what is needed of it; None if nothing is."""
        needed = self._needed_of(part.version, file, part.issued)
        if needed.rows and not needed.groups:
            return part  # nobody knows what is in the file
        return part if any(part.at <= group < part.end for group in needed.groups) else None

    def _needed_of(self, version: int, file: AddedFile, issued: Marks) -> NeededGroups:
        """What is needed of a file."""
        if (file.path, issued) not in self._needed:
            if len(self._needed) >= _KNOWN_FILES:
                self._needed.clear()
            found = self._connector.groups_of(file, version, issued, self._schema)
            self._needed[file.path, issued] = found
        return self._needed[file.path, issued]

    def _split(self, version: int, file: AddedFile, number: int, rows: int) -> DeltaSplit:
        return DeltaSplit(
            self._connector.shards()[0], number, rows, version, file.path, file.size, partition=file.partition
        )

    def _take(self, commit: Commit, place: TablePlace, room: TrainRoom, issued: Marks) -> TablePlace | None:
        """Take what there is room for; where the train ends in this version, None if it takes all of it.

        Of a file that is taken whole only what is needed counts. A place inside a file counts all rows before it, so
        that it stays what it is when other rows are needed.
        """
        row = place.row
        for at in range(place.file, len(commit.added)):
            file = commit.added[at]
            width = row_bytes(self._schema, room.limit.columns, self._text_bytes(commit.version, file))
            rest = sum(cut.rows for cut in self._cuts_of(commit.version, file)) - row
            space = min(room.rows_left, room.room(width))
            if row == 0 and self._connector.needed is not None:
                needed = self._needed_of(commit.version, file, issued).rows
                rest = needed if needed <= space else rest
            if rest > space:
                if room.long_enough or space < 1:
                    return replace(place, file=at, row=row)
                room.add(space, width)
                return replace(place, file=at, row=row + space)
            room.add(rest, width)
            row = 0
        return None

    def _cuts_of(self, version: int, file: AddedFile) -> Sequence[Cut]:
        """The parts of a file. Where the log says that it is short it is one part, and nobody opens it here."""
        if file.rows is not None and file.rows <= _TUNING.rows:
            return (Cut(0, ALL_GROUPS, file.rows, file.size, counted=True),)
        if file.path not in self._cuts:
            part = self._connector.part(self._split(version, file, 0, 0))
            try:
                with self._connector.explained(version, file.path):
                    self._cuts[file.path] = Parquet().cuts(part, _TUNING, pa.schema([]))
            except BrokenFileError:
                # Whoever reads it tells.
                self._cuts[file.path] = (Cut(0, ALL_GROUPS, file.rows or 1, file.size, counted=True),)
        return self._cuts[file.path]

    def _text_bytes(self, version: int, file: AddedFile) -> Mapping[str, float]:
        """What texts take up, by a look at the first file of this process."""
        if self._texts is None and all(fixed_width(field.type) is not None for field in self._schema):
            self._texts = {}
        if self._texts is None:
            part = self._connector.part(self._split(version, file, 0, 0))
            try:
                with self._connector.explained(version, file.path):
                    self._texts = Parquet().texts(part, self._schema)
            except BrokenFileError:
                return {}
        return self._texts

    def _readable(self, version: int, changes: str) -> Commit | None:
        """What a version brings, as far as it can be read and is asked for; None if it is not there."""
        if self._start.files is not None and version == self._start.version:
            commit = Commit(version, self._start.files, standing=self._start.said)
        else:
            found = self._log.commit(version)
            if found is None:
                return None
            commit = found
        if commit.shape is not None and self._shape is not None:
            self._shape = check_shape(commit, self._shape, self._schema, self._connector.folder, self._loaded)
        if commit.removed and changes != "append":
            if changes == ERROR:
                raise self._changed(commit)
            return replace(commit, added=())
        pruned = next((file.path for file in commit.added if file.pruned), None)
        if pruned is not None:
            raise WorldError(
                f"version {version} of the Delta table {self._connector.folder.path} cannot be read",
                expected="files of which every row counts",
                found=f"{pruned}, with a deletion vector",
                hint="purge the deletion vectors: REORG TABLE ... APPLY (PURGE)",
            )
        return commit

    def _changed(self, commit: Commit) -> WorldError:
        return WorldError(
            f"version {commit.version} of the Delta table {self._connector.folder.path} deletes or rewrites rows",
            expected="versions that only add rows",
            found=f"{commit.operation or 'an operation'} that removes {commit.removed} "
            f"file{'s' if commit.removed > 1 else ''} and adds {len(commit.added)}",
            hint="changes='skip' passes over such versions; changes='append' reads the files that they add, with rows "
            "that were there before",
        )

    def _require(self, version: int) -> None:
        """Refuse to wait for a version that has left the log; asked at first, and now and then."""
        if self._looked and time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        versions = self._log.versions()
        # It may have come just now.
        if (not versions or version <= versions[-1]) and self._log.commit(version) is None:
            raise self._gone(version)

    def _gone(self, version: int) -> WorldError:
        versions = self._log.versions()
        return WorldError(
            f"version {version} of the Delta table {self._connector.folder.path} has left its log",
            expected="every commit to stay until it has been read",
            found=f"versions {versions[0]} to {versions[-1]}" if versions else "no version at all",
            hint="let the table keep its log for longer (delta.logRetentionDuration); with another checkpoint, "
            "since='beginning' reads all that the table holds",
        )

    def _marks_at(self, place: TablePlace) -> Marks:
        """The low-water marks of the table at a place."""
        return place.marks()

    def _marked(self, first: TablePlace, last: TablePlace) -> tuple[NamedFile, ...]:
        """Files with marks of groups that were stated between two places."""
        return ()

    def _stronger(self, first: TablePlace, last: TablePlace) -> Marks:
        """What the writers have said between two places, in ticks of the input's types."""
        before, after = self._marks_at(first), self._marks_at(last)
        rising, falling = (
            {name: tick for name, tick in said.items() if tick > known.get(name, BEGINNING)}
            for said, known in ((after.rising, before.rising), (after.falling, before.falling))
        )
        # A pair is said whole: of both sides together, whichever of them has moved.
        return self._in_types(Marks(rising, falling, NO_PAIRS if after.joint == before.joint else after.joint))

    def _in_types(self, marks: Marks) -> Marks:
        """Marks of the table in ticks of the input's types, as far as the input has the attributes."""
        kinds = self._shape.schema if self._shape is not None else self._schema
        shared = [name for name in self._schema.names if name in kinds.names]
        return converted(marks, {name: (kinds.field(name).type, self._schema.field(name).type) for name in shared})
