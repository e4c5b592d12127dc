"""The driver's side of `pk.files`: which files there are, what was taken of them, and where the next train ends.

What is found is in the journal before a position refers to it. A train may end inside a part, at a row or a line start;
where it is long enough, it ends with a part, so that no part is decoded twice without need.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.connectors.connector import (
    UNLIMITED,
    Advance,
    Feed,
    Journal,
    Limit,
    Position,
    Split,
    fixed_width,
    row_bytes,
)
from penstock.connectors.files.discovery import Discovery
from penstock.connectors.files.formats.format import BrokenFileError, Part, Reach
from penstock.connectors.files.formats.text_blocks import compression_of
from penstock.connectors.files.known_files import Known
from penstock.connectors.train_room import TrainRoom
from penstock.errors import WorldError

if TYPE_CHECKING:
    from penstock.connectors.files.declaration import Files

_PLACES: Final = 1 << 48
"""More than there are places in a part, so that numbers of splits grow with (part, place)."""
_LEAST_LINE: Final = 2  # bytes of a line that is not blank


@dataclass(frozen=True)
class FileSplit(Split):
    """A part of a file, or what a train takes of it; or something to tell, which is read as a reject."""

    path: str
    size: int
    format: str
    at: int
    end: int
    bytes: int
    file: int
    broken: str | None = None
    first: int = 0
    last: int | None = None
    counted: bool = False
    known: Known | None = None
    roams: bool = False

    @property
    def found_in(self) -> str:
        return self.path


@dataclass
class _Train(TrainRoom):
    """What the next train has room for, and what it has taken."""

    bounds: list[tuple[FileSplit, int]] = field(default_factory=list)
    """Parts of text that were taken without counting their lines, and the most that they can have."""


@dataclass
class FilesFeed(Feed):
    """The parts of all files known, in order of arrival.

    A position is `{"seq": parts taken, "file": number of the next part's file in the journal, "at": where it starts}`,
    and, where a train has ended inside a part, `"place"`, its row there, or its byte in a text. `seq` and `place`
    decide, the others are for people.
    """

    connector: Files
    expected: pa.Schema
    journal: Journal
    parts: list[FileSplit] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self._discovery = Discovery(self.connector, self.expected)
        self._texts: dict[int, Mapping[str, float]] = {}
        self._looked_again: set[int] = set()
        self._checked = False
        self._recalled: int | None = 0

    def recall(self) -> None:
        for listing in self.journal.entries():
            self._add(listing)
        self._recalled = len(self.parts)

    def _check(self, position: Position) -> None:
        """The first position that is asked for after a restart must lie within what the journal has told."""
        if self._recalled is not None and position["seq"] > self._recalled:
            raise WorldError(
                f"the journal of the input {', '.join(self.connector.paths)} does not reach as far as its offset",
                expected=f"at least {position['seq']} parts of files",
                found=f"{self._recalled}",
                hint="restore the checkpoint from a copy, or start with another one",
            )
        self._recalled = None

    def take(self) -> bool:
        """List the folder, and journal what is new; whether there was any."""
        listing = self._discovery.look()
        if not listing:
            return False
        # One entry for the listing, so that a crash leaves all of it or nothing.
        self.journal.append([listing])
        self._add(listing)
        return True

    def start(self) -> Position:
        return self._position(0, 0)

    def advance(self, position: Position, limit: Limit) -> Advance:
        self._check(position)
        at, place, train = position["seq"], position.get("place", 0), _Train(limit)
        looked = False
        while True:
            while at < len(self.parts):
                stop = self._take_of(self.parts[at], place, train)
                if stop is not None:
                    return self._advance(at, stop, train)
                at, place = at + 1, 0
            if self.connector.follow:
                # One look is enough: what comes while it is taken is for the next train. But where files are read on, a
                # first look may only find where they have been moved to.
                if looked or not self.take():
                    return self._advance(at, 0, train)
                looked = self.connector.grow is not True
            elif not self._grown_meanwhile(position):
                return self._advance(at, 0, train, ended=True)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        self._check(end)
        first, last = (start["seq"], start.get("place", 0)), (end["seq"], end.get("place", 0))
        found = []
        for at in range(first[0], last[0] + (last[1] > 0)):
            low = first[1] if at == first[0] else 0
            found.append(_slice(self.parts[at], low, last[1] if at == last[0] else None))
        return found

    def _advance(self, at: int, place: int, train: _Train, *, ended: bool = False) -> Advance:
        return Advance(self._position(at, place), ended=ended, rows=train.rows, bytes=int(train.bytes))

    def _position(self, at: int, place: int) -> Position:
        inside = {"place": place} if place else {}
        if at < len(self.parts):
            return {"seq": at, "file": self.parts[at].file, "at": self.parts[at].at, **inside}
        return {"seq": at, "file": self.files, "at": 0}

    def _grown_meanwhile(self, position: Position) -> bool:
        """Whether files of an input that ends have grown since it was begun; looked at once, at its end."""
        if self._checked or position["seq"] + position.get("place", 0) == 0:
            return False
        self._checked = True
        listing = self._discovery.look(fresh=False)
        if listing:
            self.journal.append([listing])
            self._add(listing)
        return bool(listing)

    def _take_of(self, part: FileSplit, place: int, train: _Train) -> int | None:
        """Take what there is room for; the place where the train ends in this part, None if it takes all of it."""
        if part.broken is not None:
            # A single record that stands for all of them.
            if train.begun and train.rows_left < 1:
                return place
            train.add(max(1, part.rows), 0)
            return None
        width = row_bytes(self.expected, train.limit.columns, self._text_bytes(part, train.limit.columns))
        room = min(train.rows_left, train.room(width))
        rest = _slice(part, place, None)
        if part.counted:
            if rest.rows <= room:
                train.add(rest.rows, width)
                return None
            if train.long_enough or room < 1:
                return place
            train.add(room, width)
            return place + room
        most = self._most(rest) if train.limit.rows < UNLIMITED else rest.rows
        if most > train.rows_left and train.bounds:
            self._count(train)
            return self._take_of(part, place, train)
        if rest.rows <= train.room(width) and most <= train.rows_left:
            train.bounds.append((rest, most))
            train.add(most, width)
            return None
        if train.long_enough or room < 1:
            return place
        reach = self._reach(rest, room)
        train.add(reach.rows, width)
        return reach.place

    def _text_bytes(self, part: FileSplit, columns: Sequence[str] | None) -> Mapping[str, float]:
        """What texts take up. Columns that were not asked for when the file was found are looked at now."""
        known = self._texts.get(part.file, {})
        missing = [
            one.name
            for one in self.expected
            if one.name not in known and fixed_width(one.type) is None and (columns is None or one.name in columns)
        ]
        if missing and part.file not in self._looked_again:
            self._looked_again.add(part.file)
            whole = Part(self.connector.files(), part.path, part.size, 0, part.size)
            with contextlib.suppress(BrokenFileError, OSError):  # whoever reads it tells
                found = self.connector.reader(part.format).texts(whole, self.expected, missing)
                self._texts[part.file] = known = {**known, **found}
        return known

    def _count(self, train: _Train) -> None:
        """Count what was bounded so far: the bounds leave no room, but there may be some."""
        for part, most in train.bounds:
            train.rows += self._reach(part, UNLIMITED).rows - most
        train.bounds.clear()

    def _most(self, part: FileSplit) -> int:
        """The most rows that a part of text can have."""
        if not self.connector.line_oriented(part.format, part.path):
            return UNLIMITED + 1
        return (part.end - max(part.at, part.first)) // _LEAST_LINE + 1

    def _reach(self, part: FileSplit, rows: int) -> Reach:
        try:
            return self.connector.reader(part.format).reach(self.connector.part_of(part), rows, self.expected)
        except BrokenFileError:
            return Reach(None, 1)  # whoever reads it tells

    def _add(self, listing: Mapping[str, Any]) -> None:
        """Know what an entry of the journal says, and put what it brings in order of arrival."""
        numbered = self._discovery.recall(listing, self.files)
        self.files += len(listing.get("files", ()))
        lanes: dict[str, list[dict[str, Any]]] = {}
        for number, entry in numbered:
            if "texts" in entry:
                self._texts[number] = entry["texts"]
            known, roams = Known.of(entry), bool(entry.get("roams"))
            place = {"path": entry["path"], "size": entry["size"], "format": entry["format"] or "", "file": number}
            lane = lanes.setdefault(entry["lane"], [])
            if "broken" in entry:
                count = -1 if entry["rows"] is None else entry["rows"]
                lane.append({**place, "at": 0, "end": 0, "rows": count, "bytes": 0, "broken": entry["broken"]})
            else:
                exact = {"counted": entry.get("counted", entry["format"] == "parquet"), "known": known, "roams": roams}
                for at, end, rows, size in entry["cuts"]:
                    lane.append({**place, "at": at, "end": end, "rows": rows, "bytes": size, **exact})
        for turn in itertools.zip_longest(*lanes.values()):
            for lane_name, spec in zip(lanes, turn, strict=True):
                if spec is not None:
                    self.parts.append(FileSplit(shard=lane_name, seq=len(self.parts) * _PLACES, **spec))


def _slice(part: FileSplit, first: int, last: int | None) -> FileSplit:
    """What a train takes of a part, from one place to another."""
    if not first and last is None:
        return part
    if part.counted:
        rows = (part.rows if last is None else last) - first
        size = part.bytes * rows // max(1, part.rows)
    elif part.format in ("csv", "jsonl") and compression_of(part.path) is None:
        low, high = max(part.at, first), part.end if last is None else max(last, first)
        share = min(1.0, max(0, high - low) / max(1, part.end - part.at))
        rows, size = max(1, int(part.rows * share)), int(part.bytes * share)
    else:
        rows, size = part.rows, part.bytes  # nobody knows how much of it this is
    return replace(part, seq=part.seq + first, rows=rows, bytes=size, first=first, last=last)
