"""Files that grow: which of those listed now is which of those known, however logs were rotated in between.

A file is known by its inode, where the file system has one, and always by how it begins: by the fingerprint of what was
taken of it. So one that was renamed is read on under its new name, one that was copied and then cut off is read on in
its copy, and what stands in its old place is a new file.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.files.known_files import (
    Known,
    begins_as,
    copied_to,
    extends,
    fingerprint,
    node_of,
    renamed_to,
    rotated_to,
    settled,
)
from penstock.connectors.files.places import Listed


@dataclass
class Tail:
    """A file that may grow: what was taken of it, and where it was seen last."""

    file: int
    path: str
    home: str
    """Where it stood when it was taken: what comes in its place is another file."""
    lane: str
    format: str
    known: Known
    seen: Listed | None = None

    @property
    def waiting(self) -> int:
        """Bytes seen after what was taken: a line without an end."""
        return 0 if self.seen is None else self.seen.size - self.known.size


@dataclass
class Sorted:
    """What a listing shows."""

    there: list[tuple[Tail, Listed]] = field(default_factory=list)
    fresh: list[Listed] = field(default_factory=list)
    lost: list[Tail] = field(default_factory=list)
    """Files that are nowhere."""


def sort_out(files: Any, tails: Sequence[Tail], listed: Iterable[Listed]) -> Sorted:
    """Find known files again among those listed, and beside them. Files without content do not count yet."""
    by_path = {file.path: file for file in listed if file.size}
    result, missing = Sorted(), list[Tail]()
    for tail in tails:
        file = by_path.get(tail.path)
        if file is not None and _same(files, tail, file):
            result.there.append((tail, by_path.pop(tail.path)))
        else:
            missing.append(tail)
    for tail in missing:
        path = rotated_to(files, tail.path, tail.known) or copied_to(files, tail.home, tail.known)
        if path is None:
            result.lost.append(tail)
            continue
        found = by_path.pop(path, None) or _listed(files, path)
        result.there.append((tail, found))
    known = [(tail.path, file.size) for tail, file in result.there]
    # In order of paths an original comes before its copies.
    for file in sorted(by_path.values(), key=lambda one: one.path):
        if not any(_copies(files, file, path, size) for path, size in known):
            result.fresh.append(file)
            known.append((file.path, file.size))
    result.there.sort(key=lambda pair: (pair[1].time or 0, pair[1].path))
    result.fresh.sort(key=lambda file: (file.time or 0, file.path))
    return result


def _same(files: Any, tail: Tail, file: Listed) -> bool:
    """Whether the file at a tail's path is still the one that was taken, perhaps with more in it."""
    if tail.seen == file and settled(file.time, time.time_ns()) is not None:
        return True
    if file.size < tail.known.size:
        return False
    other = tail.known.node is not None and node_of(files, file.path) != tail.known.node
    if other and renamed_to(files, tail.path, tail.known) is not None:
        return False
    # Of another inode: put back from a copy, or written anew by an editor that has added to it.
    return begins_as(files, file.path, tail.known.size, tail.known.ends)


def _listed(files: Any, path: str) -> Listed:
    info = files.get_file_info(path)
    return Listed(path, max(0, info.size or 0), info.mtime_ns)


def _copies(files: Any, file: Listed, path: str, size: int) -> bool:
    """Whether a file is a copy, or the beginning of one, of another that is still there: a rotation is under way."""
    folder, _, name = file.path.rpartition("/")
    other, _, base = path.rpartition("/")
    if folder != other or not extends(name, base):
        return False
    common = min(file.size, size)
    return begins_as(files, file.path, common, _ends(files, path, common))


def _ends(files: Any, path: str, size: int) -> str:
    try:
        with files.open_input_file(path) as file:
            return fingerprint(file, size)
    except OSError:
        return ""
