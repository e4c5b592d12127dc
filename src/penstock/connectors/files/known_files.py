"""By what a file is known again: its size, its time, and a fingerprint of the ends of what was taken of it.

A file whose size and time are what they were is taken to be the same, unless it had been written just before it was
taken: then a later write may have left its time as it was. Otherwise its ends are compared. They hold the whole of a
small file; of a large one whose time is another they do not say enough, and it is refused.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from penstock.errors import WorldError

END_BYTES: Final = 64 << 10
"""How much of each end a fingerprint covers: read in a tenth of a millisecond, and most rewrites show in it."""
SETTLED_NS: Final = 2_000_000_000
"""The coarsest step of a file system's clock: a file changed twice within it may look as if it had changed once."""
_SEPARATORS: Final = (".", "-", "_")


@dataclass(frozen=True)
class Known:
    """What a file was like when its first `size` bytes were taken."""

    size: int
    time: int | None
    """When it was last modified, in nanoseconds; None if that is too recent to tell, or if the file grows."""
    ends: str
    node: str | None = None
    """Device and inode, where the file system has them: it stays when a file is renamed."""

    def document(self) -> list[Any]:
        """As the journal keeps it."""
        return [self.size, self.time, self.ends, self.node]

    @staticmethod
    def of(entry: Mapping[str, Any]) -> Known | None:
        """What the journal says of a file; None in a journal that older versions have written."""
        return Known(*entry["known"]) if "known" in entry else None


@dataclass(frozen=True)
class Change:
    """What has happened to a file: why it is not the one that was taken, and what to do about it."""

    found: str
    hint: str = "put the file back as it was and restart; write new data to new files"


def fingerprint(file: Any, size: int) -> str:
    """A digest of both ends of the first `size` bytes of an open file."""
    digest = hashlib.blake2b(file.read_at(min(size, END_BYTES), 0), digest_size=16)
    if size > END_BYTES:
        start = max(END_BYTES, size - END_BYTES)
        digest.update(file.read_at(size - start, start))
    return digest.hexdigest()


def settled(time: int | None, now: int) -> int | None:
    """The time of a file, if a later change is sure to give it another."""
    return time if time is not None and now - time > SETTLED_NS else None


def node_of(files: Any, path: str) -> str | None:
    """Device and inode of a local file; None elsewhere, or if there is no such file."""
    if not isinstance(files, fs.LocalFileSystem):
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}" if stat.S_ISREG(found.st_mode) else None


def begins_as(files: Any, path: str, size: int, ends: str) -> bool:
    """Whether a file begins with the `size` bytes of which `ends` is the fingerprint."""
    try:
        with files.open_input_file(path) as file:
            return bool(file.size() >= size and fingerprint(file, size) == ends)
    except OSError:
        return False


def change_of(file: Any, known: Known, time: int | None, *, may_grow: bool) -> Change | None:
    """How an open file differs from what is known of it; None if it does not. Of one that has grown, the rest is not
    looked at."""
    size = file.size()
    if size < known.size or (size > known.size and not may_grow):
        return Change(f"{size:,} bytes")
    if size == known.size and known.time is not None and known.time == time:
        return None
    if fingerprint(file, known.size) != known.ends:
        return Change("other content: its first or its last bytes differ")
    if size == known.size > 2 * END_BYTES and known.time is not None:
        seconds = f"{known.time / 1e9:.9f}"
        return Change(
            "another time of modification, and its middle is not compared",
            "put the file back as it was and restart; if its content is the same, give it its time back: "
            f"touch -d @{seconds}",
        )
    return None


def changed(path: str, size: int, change: Change) -> WorldError:
    """The error for a file that is no longer what was taken."""
    return WorldError(
        f"the file {path} has changed since it was taken into the input",
        expected=f"the {size:,} bytes that were taken",
        found=change.found,
        hint=change.hint,
    )


def extends(name: str, base: str) -> bool:
    """Whether a file's name is what rotation makes of another's.

    >>> extends("app.log.1", "app.log"), extends("app-20260101.log", "app.log"), extends("app2.log", "app.log")
    (True, True, False)
    """
    if name.startswith(tuple(base + mark for mark in _SEPARATORS)):
        return True
    stem, dot, suffix = base.rpartition(".")
    return bool(stem) and name.startswith(tuple(stem + mark for mark in _SEPARATORS)) and name.endswith(dot + suffix)


def renamed_to(files: Any, path: str, known: Known) -> str | None:
    """Where a file is now that was renamed within its folder: it has kept its inode, and begins as it did."""
    if known.node is None:
        return None
    for one in _beside(files, path, known.size):
        if node_of(files, one) == known.node and begins_as(files, one, known.size, known.ends):
            return one
    return None


def copied_to(files: Any, path: str, known: Known) -> str | None:
    """The copy of a file that has been cut off since: it begins as the file did, under a name that extends its name."""
    base = path.rpartition("/")[2]
    for one in _beside(files, path, known.size):
        if extends(one.rpartition("/")[2], base) and begins_as(files, one, known.size, known.ends):
            return one
    return None


def rotated_to(files: Any, path: str, known: Known) -> str | None:
    """Where the content of a file is that has left its path: beside it, renamed or copied."""
    return renamed_to(files, path, known) or copied_to(files, path, known)


def _beside(files: Any, path: str, size: int) -> list[str]:
    """The files in the folder of another that are large enough to hold what was taken of it."""
    try:
        infos = files.get_file_info(fs.FileSelector(path.rpartition("/")[0] or "/"))
    except OSError:
        return []
    return sorted(info.path for info in infos if info.type == fs.FileType.File and info.size >= size)
