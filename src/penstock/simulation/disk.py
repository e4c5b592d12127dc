"""A disk in memory that fails on demand, and forgets in a power cut what was not synced.

Every change of the disk is an *operation* with a number: a content written, a content synced, a name that appears,
changes or goes, a folder synced. A fault strikes before an operation (so also between the steps of one `write`), or in
the middle of a content. A process that ends leaves all operations as they are. After a power cut

- a content that was not synced is what it was at the last sync, or empty, or cut short, or zeros, or whole;
- names that were not synced with their folder are as before or as after, each by itself or all up to a moment, but a
  rename happens whole or not at all;
- a folder whose name was lost is lost with all that is inside.

That is more than a journaling file system does to its users, and less than what POSIX allows.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pyarrow as pa

from penstock.storage.disk import UNFINISHED, FileFacts

Name = str


class CrashError(BaseException):
    """The process ends here: nothing below catches this."""


@dataclass(eq=False)
class _File:
    content: bytes = b""
    synced: bytes | None = None


_FOLDER: Final = _File()
_Names = dict[Name, _File]
_Change = dict[Name, _File | None]

Strike = Callable[["SimulatedDisk"], None]
"""What happens at an operation: it may raise, change the disk, or let another process run."""


@dataclass(eq=False)
class SimulatedDisk:
    """Files as a process sees them, what is safe of them, and the operations that are not safe yet."""

    random: Random
    names_now: _Names = field(default_factory=lambda: {"": _FOLDER})
    names_safe: _Names = field(default_factory=lambda: {"": _FOLDER})
    unsafe: list[_Change] = field(default_factory=list)
    operations: int = 0
    strikes: dict[int, Strike] = field(default_factory=dict)
    """What strikes before the operation of that number."""

    def make(self, path: str, *, lasting: bool) -> None:
        pieces = path.split("/")
        folders = ["/".join(pieces[:length]) for length in range(2, len(pieces) + 1)]
        for folder in folders:
            if folder not in self.names_now:
                self._rename({folder: _FOLDER})
        if lasting:
            for folder in folders:
                self._sync_folder(folder.rpartition("/")[0])

    def names(self, path: str) -> list[str]:
        inside = len(path) + 1
        below = [name[inside:] for name in list(self.names_now) if name.startswith(path + "/")]
        return [name for name in below if "/" not in name]

    def files(self, path: str) -> list[tuple[str, int]]:
        below = [(name, file) for name, file in self.names_now.items() if name.startswith(path + "/")]
        return [(name[len(path) + 1 :], len(file.content)) for name, file in below if file is not _FOLDER]

    def facts(self, path: str) -> FileFacts | None:
        file = self.names_now.get(path)
        return None if file is None else FileFacts(len(file.content), 0)

    def read(self, path: str) -> pa.Buffer:
        return pa.py_buffer(self._file(path).content)

    def write(self, path: str, parts: Sequence[bytes | pa.Buffer], *, lasting: bool) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self.names_now:
            self.make(folder, lasting=lasting)
        file, content = _File(), b"".join(bytes(memoryview(part)) for part in parts)
        unfinished = f"{folder}/.{self.operations}{UNFINISHED}"
        self._rename({unfinished: file})
        self._fill(file, content)
        if lasting:
            self._sync(file)
        self._rename({unfinished: None, path: file})
        if lasting:
            self._sync_folder(folder)

    def append(self, path: str, whole: int, text: bytes, *, lasting: bool) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self.names_now:
            self.make(folder, lasting=lasting)
        fresh = path not in self.names_now
        if fresh:
            self._rename({path: _File()})
        file = self._file(path)
        self._fill(file, file.content[:whole] + text, file.content[:whole])
        if lasting:
            self._sync(file)
        if fresh and lasting:
            self._sync_folder(folder)

    def move(self, path: str, to: str, *, lasting: bool) -> None:
        self._rename({path: None, to: self._file(path)})
        if lasting:
            self._sync_folder(to.rpartition("/")[0])

    def sync(self, paths: Sequence[str]) -> None:
        for path in dict.fromkeys(paths):
            if path in self.names_now:
                self._sync(self._file(path))
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            self._sync_folder(folder)

    def sync_names(self, path: str) -> None:
        for folder in self._folders(path):
            self._sync_folder(folder)

    def _folders(self, path: str) -> list[str]:
        below = [name for name, file in self.names_now.items() if file is _FOLDER]
        return [name for name in below if name == path or name.startswith(path + "/")]

    def delete(self, path: str) -> None:
        gone = [name for name in self.names_now if name == path or name.startswith(path + "/")]
        for name in sorted(gone, reverse=True):
            self._rename({name: None})

    def forget(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self.random.random() < 0.8:  # a process may be ended before it comes to that
                self.delete(path)

    def power_cut(self) -> None:
        """Forget what chance takes of all that was not synced."""
        random = self.random
        if random.random() < 0.5:
            kept = self.unsafe[: random.randint(0, len(self.unsafe))]
        else:
            kept = [change for change in self.unsafe if random.random() < 0.5]
        names = dict(self.names_safe)
        for change in kept:
            _apply(names, change)
        for name in sorted(names):
            if name and name.rpartition("/")[0] not in names:
                del names[name]
        for file in set(names.values()) - {_FOLDER}:
            if file.synced != file.content:
                before, after = file.synced or b"", file.content
                cut = after[: random.randint(0, len(after))]
                file.content = random.choice((before, b"", cut, bytes(len(after)), after))
            file.synced = file.content
        self.names_now, self.names_safe, self.unsafe = dict(names), dict(names), []

    def _fill(self, file: _File, content: bytes, half_done: bytes = b"") -> None:
        # Struck in the middle, a part of the content is there.
        file.content = half_done + content[len(half_done) : (len(half_done) + len(content)) // 2]
        self._operate()
        file.content = content

    def _sync(self, file: _File) -> None:
        self._operate()
        file.synced = file.content

    def _rename(self, change: _Change) -> None:
        self._operate()
        _apply(self.names_now, change)
        self.unsafe.append(change)

    def _sync_folder(self, folder: str) -> None:
        self._operate()
        waiting = []
        for change in self.unsafe:
            if any(name.rpartition("/")[0] == folder for name in change):
                _apply(self.names_safe, change)
            else:
                waiting.append(change)
        self.unsafe = waiting

    def _operate(self) -> None:
        number = self.operations
        self.operations += 1
        strike = self.strikes.pop(number, None)
        if strike is not None:
            strike(self)

    def _file(self, path: str) -> _File:
        file = self.names_now.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return file


def _apply(names: _Names, change: _Change) -> None:
    for name, file in change.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def end_process(disk: SimulatedDisk) -> None:
    """A strike: the process is killed."""
    raise CrashError


def cut_power(disk: SimulatedDisk) -> None:
    """A strike: the machine is gone."""
    disk.power_cut()
    raise CrashError


def fail_with(number: int) -> Strike:
    """A strike: the operation fails, as on a full disk."""

    def fail(disk: SimulatedDisk) -> None:
        raise OSError(number, os.strerror(number))

    return fail
