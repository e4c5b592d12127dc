"""A folder on any file system that Arrow reaches: the one place where Penstock touches files of its own.

`Folder` is a frozen, picklable handle: a path, nothing open. Local folders are served by plain system calls and
memory maps; every other scheme (`s3://`, `gs://`, `abfs://`, `hdfs://`, ...) goes through `pyarrow.fs`. A file
appears whole or not at all, which is what state versions, batch records and staged parts rely on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import urllib.parse
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.errors import WorldError
from penstock.storage.disk import UNFINISHED, Disk, FileFacts, disk_of

_FAILURES: Final = (OSError, pa.ArrowException)
_waiting: ContextVar[list[tuple[Disk, str]] | None] = ContextVar("waiting", default=None)
"""What is written, and will be synced together with what is written next."""


@contextlib.contextmanager
def synced_together() -> Iterator[None]:
    """Files that are written within are brought to the disk at the end, at the same time: a disk syncs many files
    in little more time than one. Until then a power cut may leave any of them empty or cut short, so this is for files
    that nothing refers to before the end."""
    files: list[tuple[Disk, str]] = []
    before = _waiting.set(files)
    try:
        yield
    finally:
        _waiting.reset(before)
    by_disk: dict[Disk, list[str]] = {}
    for disk, path in files:
        by_disk.setdefault(disk, []).append(path)
    for disk, paths in by_disk.items():
        try:
            disk.sync(paths)
        except _FAILURES as failure:
            raise WorldError(f"files cannot be synced: {failure}", found=", ".join(paths[:3])) from failure


@dataclass(frozen=True)
class Folder:
    """A folder, given by a local path or a URI. It need not exist yet.

    >>> Folder("file:///tmp/run").child("state", "3").path
    '/tmp/run/state/3'
    """

    path: str
    lasting: bool = False
    """Whether what is written here, and in the folders inside, must survive a power cut once a call returns."""

    def __post_init__(self) -> None:
        path = self.path
        if path.startswith("file:"):
            path = urllib.parse.unquote(urllib.parse.urlsplit(path).path)
        if "://" in path:
            where, mark, options = path.partition("?")
            path = where.rstrip("/") + mark + options
        else:
            path = os.path.abspath(os.path.expanduser(path))
        object.__setattr__(self, "path", path)

    def local(self) -> str | None:
        """The plain local path, or None if the folder is on another file system."""
        return None if "://" in self.path else self.path

    def child(self, *names: str) -> Folder:
        """A folder inside this one."""
        path, mark, options = self.path.partition("?") if self.local() is None else (self.path, "", "")
        return Folder("/".join((path, *names)) + mark + options, self.lasting)

    def as_lasting_as(self, other: Folder) -> Folder:
        """This folder, with the promise of another one about power cuts."""
        return replace(self, lasting=other.lasting)

    def make(self) -> None:
        """Create the folder and its parents; fine if it is there."""
        with self._explained("create the folder"):
            disk, path = disk_of(self.path)
            disk.make(path, lasting=self.lasting)

    def names(self) -> list[str]:
        """The sorted names of the files and folders directly inside; none if the folder does not exist."""
        with self._explained("list the folder"):
            disk, path = disk_of(self.path)
            return sorted(name for name in disk.names(path) if not name.endswith(UNFINISHED))

    def files(self) -> list[tuple[str, int]]:
        """All files inside, at any depth, also unfinished ones: their paths from here, and their sizes."""
        with self._explained("list the folder"):
            disk, path = disk_of(self.path)
            return sorted(disk.files(path))

    def exists(self, name: str) -> bool:
        """Whether a file or folder of this name is inside."""
        with self._explained("look into the folder"):
            return self._facts(name) is not None

    def size(self, name: str) -> int:
        """The size of a file in bytes."""
        return self._known(name).size

    def changed(self, name: str) -> int:
        """When a file was last written, in microseconds since the epoch."""
        return self._known(name).changed

    def read(self, name: str) -> pa.Buffer:
        """The content of a file; memory-mapped, so not copied, when the folder is local and the file not small."""
        with self._explained("read the file", name):
            disk, path = disk_of(self.path)
            return disk.read(f"{path}/{name}")

    def write(self, name: str, *parts: bytes | pa.Buffer) -> None:
        """Put a file in place atomically: readers see the old content, or all of the new, never half of it.

        The folder is created if it is missing. The content survives the end of the process, and that of the machine if
        the folder is `lasting`.
        """
        with self._explained("write the file", name):
            disk, path = disk_of(self.path)
            waiting = _waiting.get() if self.lasting else None
            if waiting is not None:
                if disk.facts(path) is None:
                    disk.make(path, lasting=True)
                waiting.append((disk, f"{path}/{name}"))
            disk.write(f"{path}/{name}", parts, lasting=self.lasting and waiting is None)

    def append(self, name: str, whole: int, text: bytes) -> None:
        """Add to a file behind its first `whole` bytes: what lies there was never finished."""
        with self._explained("write the file", name):
            disk, path = disk_of(self.path)
            disk.append(f"{path}/{name}", whole, text, lasting=self.lasting)

    def move(self, name: str, to: Folder, new: str) -> None:
        """Rename a file, replacing `new` if it is there. Fine if it has been moved already."""
        with self._explained("move the file", name):
            try:
                self._rename(name, to, new)
            except OSError as failure:
                if self._facts(name) is None:
                    if to.exists(new):
                        return
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from failure
                if failure.errno == errno.EXDEV:
                    to.write(new, self.read(name))
                    self.delete(name)
                elif isinstance(failure, FileNotFoundError):
                    to.make()
                    self._rename(name, to, new)
                else:
                    raise

    def _rename(self, name: str, to: Folder, new: str) -> None:
        disk, path = disk_of(self.path)
        other, target = disk_of(to.path)
        if disk is not other:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if self.local() is None:
            to.make()
        disk.move(f"{path}/{name}", f"{target}/{new}", lasting=to.lasting)

    def sync(self, name: str) -> None:
        """Bring a file that somebody else wrote to the disk, with its name."""
        with self._explained("sync the file", name):
            disk, path = disk_of(self.path)
            waiting = _waiting.get()
            if waiting is not None:
                waiting.append((disk, f"{path}/{name}"))
            else:
                disk.sync([f"{path}/{name}"])

    def sync_names(self) -> None:
        """Bring the names of all that is inside, at any depth, to the disk: of files that a process has put in place,
        and was ended before it could see to that."""
        with self._explained("sync the folder"):
            disk, path = disk_of(self.path)
            disk.sync_names(path)

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is inside; fine if it is gone."""
        with self._explained("delete the file", name):
            disk, path = disk_of(self.path)
            disk.delete(f"{path}/{name}")

    def forget(self, names: Sequence[str]) -> None:
        """Delete files that nobody needs any more, without waiting for it: they may be there for a while yet."""
        if names:
            with self._explained("delete the file", names[0]):
                disk, path = disk_of(self.path)
                disk.forget([f"{path}/{name}" for name in names])

    def delete_all(self) -> None:
        """Delete the folder with all that is inside; fine if it is gone."""
        with self._explained("delete the folder"):
            disk, path = disk_of(self.path)
            disk.delete(path)

    def _known(self, name: str) -> FileFacts:
        with self._explained("read the file", name):
            facts = self._facts(name)
            if facts is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return facts

    def _facts(self, name: str) -> FileFacts | None:
        disk, path = disk_of(self.path)
        return disk.facts(f"{path}/{name}")

    @contextlib.contextmanager
    def _explained(self, doing: str, name: str | None = None) -> Iterator[None]:
        try:
            yield
        except _FAILURES as failure:
            path = self.path if name is None else f"{self.path}/{name}"
            number = getattr(failure, "errno", None)
            reason = os.strerror(number) if number else str(failure)
            raise WorldError(
                f"cannot {doing} {path}", found=reason, hint="check the path, the rights and the space there"
            ) from failure
