"""`pk.files`: Parquet, Arrow, CSV and JSON lines from a file, a folder, a glob, or a list of those.

The driver lists files and cuts them into parts; what it found is in the journal before any position refers to it, so a
restart reads the same parts in the same order whatever has happened to the folder since. Arrival order is the order of
listing, within a listing the order of paths; with lanes, the lanes of a listing take turns part by part, so that none
of them holds back the low-water mark while another is read to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa
from pyarrow.fs import FileType

from penstock.algebra.schema import SchemaLike, parse_schema
from penstock.connectors.connector import Chunk, Connector, Journal, Split
from penstock.connectors.files.feed import FilesFeed, FileSplit
from penstock.connectors.files.formats.arrow_ipc import ArrowIpc
from penstock.connectors.files.formats.csv import CsvOptions, Delimited
from penstock.connectors.files.formats.format import BrokenFileError, Format, Part, Tuning
from penstock.connectors.files.formats.json_lines import JsonLines
from penstock.connectors.files.formats.parquet import Parquet
from penstock.connectors.files.formats.text_blocks import COMPRESSIONS, compression_of
from penstock.connectors.files.places import Listed, Place, filesystem_of, lane_of, place_of
from penstock.connectors.rejects import rejected_whole
from penstock.errors import InternalError, QueryError, WorldError

Lanes = Literal["folder", "file"]
Grow = Literal[True, False, "error"]
"""What happens to lines that are added to a file: they are read, or reported, or an error."""

_SUFFIXES: Final = {
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "ipc", "feather", "arrows"),
    "csv": ("csv", "tsv"),
    "jsonl": ("jsonl", "ndjson", "json"),
}
_FORMAT_OF: Final = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes}
_ONE_LANE: Final = "0"


def format_of(path: str) -> str | None:
    """The format that a file's name tells, through a suffix of compression if there is one.

    >>> format_of("/data/a.csv.gz"), format_of("/data/a.parquet"), format_of("/data/a.txt")
    ('csv', 'parquet', None)
    """
    name = path.rpartition("/")[2].lower()
    stem, _, last = name.rpartition(".")
    if last in COMPRESSIONS:
        text = _FORMAT_OF.get(stem.rpartition(".")[2])
        return text if text in ("csv", "jsonl") else None
    return _FORMAT_OF.get(last)


@dataclass(frozen=True)
class Files(Connector):
    """A declared input of files."""

    paths: tuple[str, ...]
    format: str | None
    declared: pa.Schema | None
    follow: bool
    lanes: Lanes | None
    csv: CsvOptions
    tuning: Tuning
    grow: Grow = False
    coded: frozenset[str] = frozenset()
    """Columns that may come as codes of a dictionary."""

    asked: frozenset[str] | None = None
    """The columns that are read; all, if nobody says."""

    def asking(self, columns: Collection[str]) -> Files:
        return replace(self, asked=frozenset(columns))

    def coding(self, columns: frozenset[str]) -> Files:
        return replace(self, coded=columns) if columns else self

    @property
    def bounded(self) -> bool:
        return not self.follow

    @property
    def more_shards(self) -> bool:
        # Lanes come as files do: one that is alone now may not stay so.
        return self.lanes is not None

    def describe(self) -> str:
        mode = ", followed as they grow" if self.grow is True else ", followed" if self.follow else ""
        return f"files {', '.join(self.paths)}{mode}"

    def shards(self) -> Sequence[str]:
        if self.lanes is None:
            return (_ONE_LANE,)
        return tuple(dict.fromkeys(self.lane(file.path) for file in self.listed()))

    def schema(self) -> pa.Schema:
        """The declared schema, or that of the first file that can be read."""
        if self.declared is not None:
            return self.declared
        found = self.listed()
        tried = []
        for file in found:
            format_name = self.format or format_of(file.path)
            try:
                if format_name is None:
                    raise BrokenFileError("its name does not tell its format")
                shown = self.reader(format_name).discover(self.part(file.path, file.size, 0, file.size))
                return parse_schema(shown)
            except BrokenFileError as error:
                tried.append(f"{file.path} {error.reason}")
        if tried:
            raise QueryError(
                f"no file of {', '.join(self.paths)} shows a schema",
                found="; ".join(tried[:3]),
                hint="give schema=, or check the files",
            )
        looked = ", ".join(place.base for place in self.places)
        raise QueryError(
            f"no file matches {', '.join(self.paths)}",
            found=f"looked in {looked}",
            hint="give schema= or check the path",
        )

    def open(self, schema: pa.Schema, journal: Journal) -> FilesFeed:
        feed = FilesFeed(self, schema, journal)
        feed.recall()
        if self.follow:
            self.listed(must_exist=True)
        elif not feed.files and not feed.take():
            raise WorldError(
                f"no file matches {', '.join(self.paths)}",
                found=f"looked in {', '.join(place.base for place in self.places)}",
                hint="check the path; follow=True waits for files to come",
            )
        return feed

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, FileSplit):
            raise InternalError("a split of another connector was given to files", found=repr(split))
        if split.broken is not None:
            rows = split.rows if split.rows >= 0 else None
            yield rejected_whole(split.path, split.broken, rows, schema, columns)
            return
        try:
            yield from self.reader(split.format).read(self.part_of(split), schema, columns)
        except BrokenFileError as error:
            yield rejected_whole(split.path, error.reason, error.rows, schema, columns)

    def files(self) -> Any:
        return filesystem_of(self.paths[0])[0]

    def part(self, path: str, size: int, at: int, end: int) -> Part:
        return Part(self.files(), path, size, at, end)

    def part_of(self, split: FileSplit) -> Part:
        return Part(
            self.files(),
            split.path,
            split.size,
            split.at,
            split.end,
            split.first,
            split.last,
            split.known,
            split.roams,
        )

    def format_of(self, path: str) -> str | None:
        return self.format or format_of(path)

    def line_oriented(self, format_name: str | None, path: str) -> bool:
        """Whether a file can be read on when lines are added to it."""
        plain = format_name in ("csv", "jsonl") and compression_of(path) is None
        return plain and not (format_name == "csv" and self.csv.multiline)

    def reader(self, format_name: str) -> Format:
        readers: dict[str, Format] = {
            "parquet": Parquet(self.coded),
            "arrow": ArrowIpc(),
            "csv": Delimited(self.csv),
            "jsonl": JsonLines(self.csv.timestamp_formats),
        }
        return readers[format_name]

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(place_of(path) for path in self.paths)

    def listed(self, *, must_exist: bool = False) -> list[Listed]:
        """The files there now, by path; places that do not exist have none, unless they must exist."""
        found: dict[str, Listed] = {}
        for place in self.places:
            there = place.list(self.files())
            if there is None and must_exist and not self._may_come(place):
                raise _missing(place, self.paths)
            found.update((file.path, file) for file in there or [])
        return [found[path] for path in sorted(found)]

    def _may_come(self, place: Place) -> bool:
        """Whether a file that is not there may come: a log is away for a moment when it is rotated."""
        folder = place.base.rpartition("/")[0] or "/"
        return self.grow is True and self.files().get_file_info(folder).type == FileType.Directory

    def lane(self, path: str) -> str:
        if self.lanes is None:
            return _ONE_LANE
        return path if self.lanes == "file" else lane_of(path, [place.base for place in self.places])


def _missing(place: Place, paths: Sequence[str]) -> WorldError:
    return WorldError(
        f"the folder {place.base} does not exist",
        expected=f"a folder to follow for {', '.join(paths)}",
        hint="create it, or bring it back, and restart: the run can be resumed from its checkpoint",
    )


def files(
    path: str | Sequence[str],
    format: str | None = None,
    *,
    schema: SchemaLike | None = None,
    follow: bool = False,
    grow: Grow = False,
    lanes: Lanes | None = None,
    delimiter: str | None = None,
    header: bool = True,
    null_values: Sequence[str] = ("",),
    timestamp_formats: Sequence[str] = (),
    multiline: bool = False,
    split_rows: int = 1 << 19,
    split_bytes: int = 16 << 20,
) -> Files:
    """Files as an input: Parquet, Arrow, CSV or JSON lines, told by `format` or by the files' suffixes.

    `path` is a file, a folder (with all below it), a glob, or a list of those; URIs reach other file systems.
    `follow=True` makes a folder that grows an unbounded input: files should be moved there when they are complete.
    `grow=True` reads on in files of lines that grow, such as logs, also when they are rotated; without it lines that
    are added to a file are reported in the error stream, and with `grow="error"` they end the run.
    `lanes="folder"` or `"file"` makes each folder or file a shard with its own low-water mark.
    `delimiter` (a comma, or a tab for .tsv), `header`, `null_values` and `multiline` are for CSV, and
    `timestamp_formats` for JSON lines, too.
    """
    paths = (path,) if isinstance(path, str) else tuple(str(one) for one in path)
    if not paths:
        raise QueryError("files needs a path", expected="a file, a folder, a glob or a list of those")
    # Workers may run in other folders, so a local path is fixed here.
    paths = tuple(one if "://" in one else filesystem_of(one)[1] for one in paths)
    kinds = {filesystem_of(one)[0].type_name for one in paths}
    if len(kinds) > 1:
        raise QueryError("one input reads from one file system", found=", ".join(sorted(kinds)), hint="use union()")
    if format is not None and format not in _SUFFIXES:
        raise QueryError(
            f"unknown format {format!r}", expected=f"one of {', '.join(_SUFFIXES)}, or None for the suffix"
        )
    if lanes not in (None, "folder", "file"):
        raise QueryError(f"unknown lanes {lanes!r}", expected="'folder', 'file' or None")
    if grow not in (True, False, "error"):
        raise QueryError(f"unknown grow {grow!r}", expected="True, False or 'error'")
    if grow is True and not follow:
        raise QueryError("grow=True reads on in files that grow, so the input never ends", hint="give follow=True, too")
    if grow is True and (format in ("parquet", "arrow") or multiline):
        raise QueryError(
            "only files of lines can be read on when they grow",
            expected="CSV without multiline=True, or JSON lines; not compressed",
            found="multiline=True" if multiline else f"format={format!r}",
        )
    if split_rows < 1 or split_bytes < 1:
        raise QueryError("a split has at least one row and one byte", found=f"{split_rows=}, {split_bytes=}")
    if format is None and len(paths) == 1 and not place_of(paths[0]).pattern and "." in paths[0].rpartition("/")[2]:
        _tell(paths[0])
    csv = CsvOptions(delimiter, header, tuple(null_values), tuple(timestamp_formats), multiline)
    declared = None if schema is None else parse_schema(schema)
    return Files(paths, format, declared, follow, lanes, csv, Tuning(split_rows, split_bytes), grow)


def _tell(path: str) -> None:
    found = place_of(path).list(filesystem_of(path)[0])
    if found and found[0].path == filesystem_of(path)[1] and format_of(path) is None:
        raise QueryError(
            f"the name of {path} does not tell its format",
            expected=f"a suffix among {', '.join('.' + suffix for suffix in _FORMAT_OF)}",
            hint=f"give format=, one of {', '.join(_SUFFIXES)}",
        )
