"""Joint marks and marks of groups of a connection point, for as long as its rows stay. Commits carry them, or name the
files that they are in, and leave the log long before.

```
 commits   41: (7, 3)   42: (9, 3), a: 8   43: (9, 8), a: 9     each holds for all batches that follow
 files     [........ batches 12 to 41 ........] [42] [43]
 index     behind 41: (7, 3)   behind 42: (9, 3), a: 8   behind 43: (9, 8), a: 9
```

Whoever reads the past states marks between files whose batches do not overlap. So of each of these places the last
pair is enough, and of each group the largest mark: files are merged, and never parted. The upkeep of the point writes
them to an index, a sealed JSON document in a folder that readers of Delta pass by. It begins with what the last index
has, and adds what commits said since. Where something is missing, because a commit left the log first, older marks are
stated: they hold, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.connectors.delta.commit_marks import MARKS_FOLDER, KeptMarks
from penstock.connectors.delta.table_log import TableLog
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import damaged, read_sealed, write_sealed

_FORMAT: Final = 1
_MOST_COMMITS: Final = 1024
"""Commits that are read behind an index: of a point whose upkeep is far behind, the oldest marks are missing."""
_DIGITS: Final = 20
_TRIES: Final = 3
_PART: Final = re.compile(r"part-(\d{8})-.*\.parquet")


@dataclass(frozen=True)
class Index:
    """What is known of the past at a version of a table."""

    version: int = -1
    marks: tuple[KeptMarks, ...] = ()
    """Oldest first."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Files of which nobody who comes now hears, and since when, in milliseconds since the epoch."""


def kept_marks(log: TableLog, version: int) -> list[KeptMarks]:
    """All that is known at a version of a table, oldest first."""
    index = newest_index(log.folder, version)
    found = {kept.batch: kept for kept in index.marks}
    for number in range(max(index.version + 1, version + 1 - _MOST_COMMITS), version + 1):
        commit = log.commit(number)
        if commit is None or commit.said is None or commit.batch is None:
            continue
        files = () if commit.said.groups is None else commit.said.groups.files
        if files or any(commit.said.marks.joint):
            found[commit.batch] = KeptMarks(commit.batch, commit.said.marks.joint, files)
    return [found[batch] for batch in sorted(found)]


def needed_marks(marks: Sequence[KeptMarks], first_batches: Iterable[int]) -> list[KeptMarks]:
    """Of all that is kept what holds before some batches: the last of each, and the newest. Files of what is between
    go with what follows it.

    >>> kept = [KeptMarks(batch, files=((f"{batch}", 0),)) for batch in (1, 4, 5, 9)]
    >>> [(each.batch, [path for path, _ in each.files]) for each in needed_marks(kept, [2, 6])]
    [(1, ['1']), (5, ['4', '5']), (9, ['9'])]
    """
    ends = {kept.batch for first in first_batches if (kept := last_before(marks, first)) is not None}
    ends |= {kept.batch for kept in marks[-1:]}
    found: list[KeptMarks] = []
    waiting: list[KeptMarks] = []
    for kept in marks:
        waiting.append(kept)
        if kept.batch in ends:
            files = itertools.chain.from_iterable(each.files for each in waiting)
            found.append(KeptMarks(kept.batch, kept.joint, tuple(files)))
            waiting = []
    return found


def last_before(marks: Sequence[KeptMarks], batch: int) -> KeptMarks | None:
    """What holds for a batch and all that follows; None if nothing is known."""
    return next((kept for kept in reversed(marks) if kept.batch < batch), None)


def write_index(folder: Folder, index: Index) -> None:
    """Put an index into the folder of a point; older ones are of no use any more."""
    place = folder.child(MARKS_FOLDER)
    place.make()
    marks = [kept.to_json() for kept in index.marks]
    document = {"format": _FORMAT, "version": index.version, "marks": marks, "left": dict(index.left)}
    write_sealed(place, _name(index.version), document)
    for name in place.names():
        if (number := _version(name)) is not None and number < index.version:
            place.delete(name)


def unlisted(folder: Folder, marks: Sequence[KeptMarks]) -> list[str]:
    """Files of groups that are not among what is kept, of batches that are."""
    if not marks:
        return []
    listed: Collection[str] = {path for kept in marks for path, _ in kept.files}
    found = [(name, part) for name in folder.child(MARKS_FOLDER).names() if (part := _PART.fullmatch(name))]
    names = [name for name, part in found if int(part.group(1)) <= marks[-1].batch]
    return [name for name in names if f"{MARKS_FOLDER}/{name}" not in listed]


def newest_index(folder: Folder, version: int) -> Index:
    """The newest index up to a version; an empty one if there is none."""
    place = folder.child(MARKS_FOLDER)
    for attempt in range(1, _TRIES + 1):
        known = [number for name in place.names() if (number := _version(name)) is not None and number <= version]
        if not known:
            break
        newest = max(known)
        try:
            return _read(place, _name(newest), newest)
        except WorldError:
            # The upkeep may have put a newer one into its place just now.
            if attempt == _TRIES or place.exists(_name(newest)):
                raise
    return Index()


def _read(place: Folder, name: str, version: int) -> Index:
    match read_sealed(place, name):
        case {"format": int(known), "version": int(of), "marks": list(marks), "left": dict(left)} if (
            known == _FORMAT and of == version and all(type(when) is int for when in left.values())
        ):
            return Index(version, tuple(KeptMarks.from_json(each) for each in marks), left)
    raise damaged(f"{place.path}/{name}", "a document that is no index of marks")


def _name(version: int) -> str:
    return f"{version:0{_DIGITS}d}.json"


def _version(name: str) -> int | None:
    number = name.removesuffix(".json")
    return int(number) if len(number) == _DIGITS and number.isdigit() and number != name else None
