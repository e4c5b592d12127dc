"""Where files are: paths, URIs, folders and globs, all through `pyarrow.fs`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyarrow import fs

from penstock.errors import QueryError, WorldError

_GLOB: Final = re.compile(r"[*?\[]")
_GLOB_PIECE: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", re.DOTALL)
_LOCAL: Final = fs.LocalFileSystem()
_HIDDEN_STARTS: Final = (".", "_")
_TEMPORARY_ENDS: Final = (".tmp", ".crc", "._COPYING_", ".inprogress")


def filesystem_of(place: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path within it."""
    if "://" not in place:
        # Not remembered: where a path leads to changes with the folder that the process works in.
        return _LOCAL, os.path.abspath(os.path.expanduser(place))
    return _reached(place)


@lru_cache(maxsize=64)
def _reached(place: str) -> tuple[Any, str]:
    try:
        found, path = fs.FileSystem.from_uri(place)
    except (OSError, ValueError) as error:
        raise QueryError(
            f"cannot use the place {place!r}",
            expected="a path, or a URI such as file:///data or s3://bucket/folder",
            found=str(error),
        ) from error
    return found, str(path)


@dataclass(frozen=True)
class Listed:
    """A file as a listing saw it."""

    path: str
    size: int
    time: int | None = None
    """When it was last modified, in nanoseconds."""


@dataclass(frozen=True)
class Place:
    """One thing the user pointed at: a file, a folder (taken with all below it), or a glob."""

    path: str
    base: str
    """The folder that is looked at."""
    pattern: str | None
    """What a path must match, as a regular expression; None for a plain file or folder."""
    deep: bool

    def list(self, files: Any) -> list[Listed] | None:
        """The files there now, unsorted; None if the file or folder itself does not exist."""
        try:
            kind = files.get_file_info(self.base).type
            if kind == fs.FileType.File:
                info = files.get_file_info(self.base)
                return [Listed(info.path, info.size, info.mtime_ns)]
            if kind == fs.FileType.NotFound:
                return None
            listing = files.get_file_info(fs.FileSelector(self.base, recursive=self.deep, allow_not_found=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WorldError(
                f"cannot list {self.base}",
                found=str(error),
                hint="check that it is there and may be read, then restart",
            ) from error
        matches = re.compile(self.pattern).fullmatch if self.pattern else None
        return [
            Listed(info.path, info.size, info.mtime_ns)
            for info in listing
            if info.type == fs.FileType.File
            and (matches is None or matches(info.path))
            and not _ignored(info.path[len(self.base) :])
        ]


def place_of(text: str) -> Place:
    """What a path, folder, glob or URI of the user means."""
    files, path = filesystem_of(text)
    magic = _GLOB.search(path)
    if magic is None or files.get_file_info(path).type != fs.FileType.NotFound:
        return Place(path, path, None, deep=True)
    base = path[: magic.start()].rpartition("/")[0] or "/"
    below = path[len(base) :].lstrip("/")
    return Place(path, base, _pattern(path), deep="/" in below or "**" in below)


def _pattern(path: str) -> str:
    """A glob as a regular expression: `*` and `?` stay within a name, `**` is any number of folders.

    >>> _pattern("/data/*/part-?.csv"), _pattern("/data/**/x[0-9]")
    ('/data/[^/]*/part\\\\-[^/]\\\\.csv', '/data/(?:[^/]+/)*x[0-9]')
    """
    return "".join(_piece(found.group()) for found in _GLOB_PIECE.finditer(path))


def _piece(piece: str) -> str:
    if piece.startswith("["):
        return "[^" + piece[2:] if piece[1] == "!" else piece
    return {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))


def _ignored(below: str) -> bool:
    names = [name for name in below.split("/") if name]
    return any(name.startswith(_HIDDEN_STARTS) for name in names) or (
        bool(names) and names[-1].endswith(_TEMPORARY_ENDS)
    )


def lane_of(path: str, bases: Sequence[str]) -> str:
    """The lane of a file when each folder is one: its folder, seen from what all declared places have in common.

    >>> lane_of("/data/main1/a.parquet", ["/data"]), lane_of("/data/a.parquet", ["/data"])
    ('main1', 'data')
    """
    folder = path.rpartition("/")[0]
    root = os.path.commonpath(bases)
    root = folder if root == path else root
    below = folder[len(root) :].strip("/")
    return below or root.rpartition("/")[2] or "/"
