"""The driver's side of a connection point as an input: all that its table holds at the start, and then its commits.

```
 held    [unit: batches 0 to 31] [unit: 32] [unit: 33]   then   commit of 34, of 35, ...
              |                      |          |                    |
 states       what holds for all that follows: by the bounds of later files, by kept marks       what the commit says
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import deltalake

from penstock.algebra.marks import UNKNOWN, Marks, least
from penstock.connectors.delta.commit_marks import KeptMarks, NamedFile
from penstock.connectors.delta.input_feed import DeltaFeed
from penstock.connectors.delta.input_position import ALL_GROUPS, DeltaSplit, TablePlace
from penstock.connectors.delta.needed_groups import NeededGroups
from penstock.connectors.delta.table_log import AddedFile, Commit, opening
from penstock.connectors.delta.where_to_start import BEGINNING_WORD, Start, standing_before
from penstock.connectors.files.formats.format import BrokenFileError, Cut
from penstock.connectors.points.kept_marks import kept_marks, last_before, needed_marks
from penstock.connectors.points.stored_files import by_batches, stored_files
from penstock.connectors.points.units import PointSplit, Unit, batches
from penstock.storage.folder import Folder

if TYPE_CHECKING:
    from penstock.connectors.points.point_input import PointInput

_CUT_ROWS: Final = 1 << 19
"""How many rows one task reads, about."""


class PointFeed(DeltaFeed):
    """What a connection point holds when it is first read, and then its commits."""

    def _find_start(self) -> Start:
        if self._connector.since != BEGINNING_WORD:
            return super()._find_start()
        table = opened_table(self._connector.folder)
        said = standing_before(self._log, table.version() + 1)
        known = said.marks()
        files = [
            AddedFile(file.path, file.size, file.rows, (), False, (file.first, file.last), file.keeps(known))
            for file in stored_files(table, {*known.rising, *known.falling})
        ]
        return Start(table.version(), tuple(files), said, tuple(self._kept(table.version(), files)))

    def _kept(self, version: int, files: Sequence[AddedFile]) -> Sequence[KeptMarks]:
        """What was stated between units, of marks that files do not tell."""
        firsts = [min(batches(file)[0] for file in group) for group in by_batches(files, batches)]
        return needed_marks(kept_marks(self._log, version), firsts)

    @cached_property
    def _held(self) -> tuple[AddedFile, ...]:
        """All that the table held at the start, in units."""
        groups = by_batches(self._start.files or (), batches)
        return tuple(Unit.of(group) for group in groups)

    @cached_property
    def _behind(self) -> Sequence[Marks]:
        """For every unit that was held at the start, the marks that hold for it and for all that follows."""
        found = [self._start.said.marks().alone.with_ended(False)]
        for unit in reversed(self._held):
            found.append(least([found[-1], unit.least]))
        return [
            marks
            if (kept := last_before(self._start.marks, batches(unit)[0])) is None
            else marks.with_joint(kept.joint)
            for marks, unit in zip(found[:0:-1], self._held, strict=True)
        ]

    def _marks_at(self, place: TablePlace) -> Marks:
        if self._start.files is None or place.version > self._start.version or place.file >= len(self._behind):
            return super()._marks_at(place)
        return self._behind[place.file] if self._listens else UNKNOWN

    def _marked(self, first: TablePlace, last: TablePlace) -> tuple[NamedFile, ...]:
        if not self._listens:
            return ()
        found = [file for kept in self._passed(last)[len(self._passed(first)) :] for file in kept.files]
        held = self._start.version if self._start.files is not None else -1
        for version in range(max(first.version, held + 1), last.version):
            commit = self._log.commit(version)
            if commit is not None and commit.said is not None and commit.said.groups is not None:
                found += commit.said.groups.files
        return tuple(found)

    def _passed(self, place: TablePlace) -> Sequence[KeptMarks]:
        """What has been stated up to a place of what was kept at the start."""
        if self._start.files is None:
            return ()
        if place.version > self._start.version or place.file >= len(self._held):
            return self._start.marks
        first, _ = batches(self._held[place.file])
        return [kept for kept in self._start.marks if kept.batch < first]

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
        point = cast("PointInput", self._connector)
        try:
            with self._connector.explained(version, unit.path):
                found = point.stretches_of(unit.places)
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

    def _needed_of(self, version: int, file: AddedFile, issued: Marks) -> NeededGroups:
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


def opened_table(folder: Folder) -> deltalake.DeltaTable:
    with opening(folder):
        return deltalake.DeltaTable(folder.path)
