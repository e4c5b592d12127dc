"""What a listing brings: new files, files that have grown, and files that have changed in a way that nobody may.

Each look answers with one entry for the journal, or with nothing:

    {"files": new files, "grown": lines added to known ones, "told": what goes to the error stream,
     "moved": where known files are now, "lost": those that are nowhere}

An entry says all that is needed to read the same again; an entry of older versions has "files" alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.connectors.files.formats.format import BrokenFileError, Format, Part, open_part
from penstock.connectors.files.formats.text_blocks import complete_bytes, compression_of
from penstock.connectors.files.known_files import (
    Change,
    Known,
    change_of,
    changed,
    extends,
    fingerprint,
    node_of,
    settled,
)
from penstock.connectors.files.places import Listed
from penstock.connectors.files.tails import Sorted, Tail, sort_out
from penstock.errors import WorldError

if TYPE_CHECKING:
    from penstock.connectors.files.declaration import Files

_READERS: Final = 8  # files looked into at a time: on an object store a footer is a round trip
_SAMPLED_BYTES: Final = 1 << 20
_QUIET_NS: Final = 60_000_000_000
"""How long a file that was rotated away must stand still before its last line is taken without an end."""


@dataclass
class Taken:
    """A file that was taken as it was: it must stay so."""

    file: int
    lane: str
    format: str | None
    size: int
    known: Known | None
    seen: Listed | None = None
    """What it looked like when it was last compared."""
    sure: bool = False
    """Whether a change since then would show."""
    told: int = 0
    """Bytes that were added to it, and reported."""


class Discovery:
    """The files that an input knows."""

    def __init__(self, connector: Files, schema: pa.Schema) -> None:
        self._connector = connector
        self._schema = schema
        self._taken: dict[str, Taken] = {}
        self._tails: dict[int, Tail] = {}
        self._texts: dict[str, Mapping[str, float]] = {}
        self._homes: set[str] = set()
        """Where files that are read on have ever been taken."""

    def look(self, *, fresh: bool = True) -> dict[str, Any]:
        """What the folder shows that the journal does not know; if not `fresh`, only what became of known files."""
        connector = self._connector
        listed = connector.listed(must_exist=connector.follow)
        entry: dict[str, list[Any]] = {"files": [], "grown": [], "told": [], "moved": [], "lost": []}
        lines = [file for file in listed if self._grows(file.path)]
        if lines or self._tails:
            found = sort_out(connector.files(), list(self._tails.values()), lines)
            self._read_on(found, entry)
            lines = found.fresh
        homes = self._homes | {file.path for file in lines}
        others = [file for file in listed if not self._grows(file.path) and not _archive(file.path, homes)]
        for file in others:
            if file.path in self._taken:
                entry["told"] += self._compare(file, self._taken[file.path], fresh=fresh)
        if fresh:
            self._take(lines + [file for file in others if file.path not in self._taken], entry)
        return {kind: entries for kind, entries in entry.items() if entries}

    def recall(self, listing: Mapping[str, Any], count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Know what a look has found; what there is to read of it, in order of arrival, with numbers of files."""
        numbered: list[tuple[int, Mapping[str, Any]]] = []
        for number, path, node in listing.get("moved", ()):
            tail = self._tails[number]
            tail.path, tail.known = path, replace(tail.known, node=node)
        for grown in listing.get("grown", ()):
            tail = self._tails[grown["file"]]
            tail.known = Known(*grown["known"])
            numbered.append((tail.file, {**grown, "lane": tail.lane, "format": tail.format}))
        for told in listing.get("told", ()):
            if told["path"] in self._taken:
                self._taken[told["path"]].told = told["bytes"]
            numbered.append((told["file"], {**told, "size": 0, "format": None, "rows": None}))
        for number in listing.get("lost", ()):
            self._tails.pop(number)
        for number, entry in enumerate(listing.get("files", ()), count):
            known = Known.of(entry)
            if entry.get("roams") and known is not None and "broken" not in entry:
                tail = Tail(number, entry["path"], entry["path"], entry["lane"], entry["format"], known)
                self._tails[number] = tail
                self._homes.add(tail.home)
            else:
                self._taken[entry["path"]] = Taken(number, entry["lane"], entry["format"], entry["size"], known)
            numbered.append((number, entry))
        return numbered

    def _grows(self, path: str) -> bool:
        """Whether a file is one that is read on."""
        connector = self._connector
        growing = connector.grow is True and connector.line_oriented(connector.format_of(path), path)
        return growing and path not in self._taken

    def _take(self, new: Sequence[Listed], entry: dict[str, list[Any]]) -> None:
        if len(new) < 2:
            looked = [self._look_into(file) for file in new]
        else:
            with ThreadPoolExecutor(min(len(new), _READERS)) as pool:
                looked = list(pool.map(self._look_into, new))
        entry["files"] += [one for one in looked if one is not None]

    def _look_into(self, file: Listed) -> dict[str, Any] | None:
        """What the journal keeps of a new file; None for one that grows and has no whole line yet."""
        connector, name = self._connector, self._connector.format_of(file.path)
        grows = self._grows(file.path)
        part = Part(connector.files(), file.path, file.size, 0, file.size)
        if grows:
            known = self._whole_lines(file.path)
            if known is None:
                return None
        else:
            with open_part(part, exact=not connector.line_oriented(name, file.path)) as opened:
                known = Known(file.size, settled(file.time, time.time_ns()), fingerprint(opened, file.size))
        size = known.size
        entry = {"path": file.path, "size": size, "lane": connector.lane(file.path), "format": name}
        entry |= {"known": known.document(), **({"roams": True} if grows else {})}
        return {**entry, **self._content(replace(part, size=size, end=size, known=known, roams=grows), name)}

    def _whole_lines(self, path: str, before: Known | None = None, *, unfinished: bool = False) -> Known | None:
        """A file that grows, up to its last whole line; None if there is none after what was known `before`.

        Also if it is being rotated in this moment: the next look finds it where it then is.
        """
        files, begin = self._connector.files(), 0 if before is None else before.size
        node = node_of(files, path)
        try:
            with files.open_input_file(path) as opened:
                size = opened.size()
                if before is not None and (size < begin or fingerprint(opened, begin) != before.ends):
                    return None
                size = size if unfinished else complete_bytes(opened, begin, size)
                known = Known(size, None, fingerprint(opened, size), node)
        except FileNotFoundError:
            return None
        return known if size > begin and node_of(files, path) == node else None

    def _content(self, part: Part, name: str | None) -> dict[str, Any]:
        """How a file, or what was added to it, is cut; or why it cannot be read."""
        try:
            if name is None:
                raise BrokenFileError("its name does not tell its format: give format=")
            reader = self._connector.reader(name)
            cuts = reader.cuts(part, self._connector.tuning, self._schema)
            texts = self._text_bytes(reader, part, name)
        except BrokenFileError as error:
            return {"broken": error.reason, "rows": error.rows}
        content: dict[str, Any] = {"cuts": [[cut.at, cut.end, cut.rows, cut.bytes] for cut in cuts]}
        if cuts and all(cut.counted for cut in cuts):
            content["counted"] = True
        return {**content, "texts": {key: round(value, 1) for key, value in texts.items()}} if texts else content

    def _text_bytes(self, reader: Format, part: Part, name: str) -> Mapping[str, float]:
        """What texts take up: looked at in files that are large enough for it to matter, and in the first one."""
        if part.size > _SAMPLED_BYTES or name not in self._texts:
            self._texts[name] = reader.texts(part, self._schema, self._connector.asked)
        return self._texts[name]

    def _read_on(self, found: Sorted, entry: dict[str, list[Any]]) -> None:
        """Take the whole lines that were added to known files, and tell of those that are gone."""
        now = time.time_ns()
        begun = {file.path for file in found.fresh} | {file.path for _, file in found.there}
        for tail, file in found.there:
            if file.path != tail.path:
                entry["moved"].append([tail.file, file.path, node_of(self._connector.files(), file.path)])
            away = file.path != tail.home and tail.home in begun
            quiet = away and file.time is not None and now - file.time > _QUIET_NS
            if file.size > tail.known.size and (quiet or file != tail.seen):
                entry["grown"] += self._added(tail, file, unfinished=quiet)
            tail.seen = file
        for tail in found.lost:
            entry["lost"].append(tail.file)
            if tail.waiting > 0 or tail.path in begun:
                reason = (
                    f"is gone, or was replaced, after {tail.known.size:,} bytes of it were read: "
                    "what it held beyond them, if anything, is lost"
                )
                entry["told"].append(_told(tail.path, tail.file, tail.lane, reason, max(0, tail.waiting)))

    def _added(self, tail: Tail, file: Listed, *, unfinished: bool) -> Iterable[dict[str, Any]]:
        known = self._whole_lines(file.path, tail.known, unfinished=unfinished)
        if known is None:
            return []
        part = Part(
            self._connector.files(), file.path, known.size, tail.known.size, known.size, known=known, roams=True
        )
        grown = {"file": tail.file, "path": file.path, "size": known.size, "known": known.document(), "roams": True}
        return [{**grown, **self._content(part, tail.format)}]

    def _compare(self, file: Listed, taken: Taken, *, fresh: bool) -> Iterable[dict[str, Any]]:
        """What is to be told of a known file; an error if it has changed in a way that it must not."""
        at_first = taken.known is not None and (taken.known.size, taken.known.time) == (file.size, file.time)
        sure = settled(file.time, time.time_ns()) is not None
        # As long as a change may leave no trace, one look more is taken when it no longer may: not one all the time.
        if at_first or (taken.seen == file and (taken.sure or not sure)):
            return []
        lines = self._connector.line_oriented(taken.format, file.path)
        change = self._change(file, taken, lines=lines)
        if change is not None:
            # Of an input that ends, what was read has been compared then: what comes later is nobody's concern.
            if fresh:
                raise changed(file.path, taken.size, change)
            return []
        taken.seen, taken.sure = file, sure
        more = file.size - taken.size
        if more <= 0:
            return []
        if self._connector.grow == "error":
            raise WorldError(
                f"the file {file.path} has grown since it was taken into the input",
                expected=f"the {taken.size:,} bytes that were taken, for the input was declared with grow='error'",
                found=f"{more:,} bytes more",
                hint="write new data to new files, and cut this one back; grow=True reads on in files that grow",
            )
        # A file that grows all the time is told of each time that what was left out has doubled.
        if more < 2 * taken.told:
            return []
        advice = "or give grow=True" if not self._connector.grow else "for it was taken before grow=True was given"
        reason = f"has grown by {more:,} bytes since it was taken, and they are not read: write new data to new files, "
        reason += advice
        return [_told(file.path, taken.file, taken.lane, reason, more)]

    def _change(self, file: Listed, taken: Taken, *, lines: bool) -> Change | None:
        if taken.known is None:
            fits = file.size == taken.size or (lines and file.size > taken.size)
            return None if fits else Change(f"{file.size:,} bytes")
        try:
            with self._connector.files().open_input_file(file.path) as opened:
                return change_of(opened, taken.known, file.time, may_grow=lines)
        except FileNotFoundError:
            return None  # deleted in this moment: who still has to read it tells


def _archive(path: str, homes: set[str]) -> bool:
    """Whether a file is a log that was compressed after it had been rotated: it has been read by then."""
    if not homes or compression_of(path) is None:
        return False
    folder, _, name = path.rpartition("/")
    beside = (home.rpartition("/") for home in homes)
    return any(other == folder and extends(name, base) for other, _, base in beside)


def _told(path: str, file: int, lane: str, reason: str, size: int) -> dict[str, Any]:
    return {"path": path, "file": file, "lane": lane, "broken": reason, "bytes": size}
