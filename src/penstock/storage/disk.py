"""What folders stand on: the file operations of a local disk, of Arrow's file systems, and of disks that tests mount.

Every operation takes a whole path. `write` puts a file in place atomically: readers see the old content, or all of the
new, never half of it. With `lasting=True` an operation returns when a power cut can no longer undo it: the content is
on the disk, and so is the name in its folder. Object stores give that by themselves.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import urllib.parse
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

UNFINISHED: Final = ".unfinished"
"""Ends the name of a file that is still being written; folders do not list it."""

_PUBLISHED_ON_CLOSE: Final = frozenset({"s3", "gcs", "abfs"})
"""Arrow file systems on which an object appears when its upload ends, and a rename would be a copy."""

_MAP_FROM: Final = 64 * 1024
"""Smaller files are copied: it costs no more than mapping them, and a process may hold only some 65,000 maps."""


@dataclass(frozen=True)
class FileFacts:
    """What a disk says of a file or folder."""

    size: int
    changed: int
    """When it was last written, in microseconds since the epoch."""


class Disk(Protocol):
    """File operations; failures are `OSError`s or Arrow's."""

    def make(self, path: str, *, lasting: bool) -> None:
        """Create a folder and its parents; fine if it is there."""

    def names(self, path: str) -> list[str]:
        """What is directly inside a folder, unsorted; none if there is no folder."""

    def files(self, path: str) -> list[tuple[str, int]]:
        """All files below a folder, at any depth: their paths from there, and their sizes; none if there is no folder.
        Files that come or go meanwhile may be left out."""

    def facts(self, path: str) -> FileFacts | None:
        """Size and time of a file or folder; None if there is none."""

    def read(self, path: str) -> pa.Buffer:
        """The content of a file."""

    def write(self, path: str, parts: Sequence[bytes | pa.Buffer], *, lasting: bool) -> None:
        """Put a file in place; its folder is created if it is missing."""

    def append(self, path: str, whole: int, text: bytes, *, lasting: bool) -> None:
        """Cut a file to its first `whole` bytes and add to it; it is created if it is missing."""

    def move(self, path: str, to: str, *, lasting: bool) -> None:
        """Rename a file, replacing what is there. The folder of `to` must exist."""

    def sync(self, paths: Sequence[str]) -> None:
        """Bring files to the disk that were written without it, with their names; those that are gone are left out."""

    def sync_names(self, path: str) -> None:
        """Bring the names of all that is below a folder to the disk."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is inside; fine if it is gone."""

    def forget(self, paths: Sequence[str]) -> None:
        """Delete files that nobody needs, at some time; they may still be there for a while, or stay."""


class LocalDisk:
    """Plain system calls and memory maps."""

    def make(self, path: str, *, lasting: bool) -> None:
        os.makedirs(path, exist_ok=True)
        # Also those that were there: whoever made them may have been ended before their names were safe.
        while lasting and (above := os.path.dirname(path)) != path:
            with contextlib.suppress(PermissionError):  # a folder of others, which nobody has made just now
                _sync_folder(above)
            path = above

    def names(self, path: str) -> list[str]:
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []

    def files(self, path: str) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        folders = [(path, "")]
        while folders:
            folder, before = folders.pop()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as inside:
                for entry in inside:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, f"{before}{entry.name}/"))
                        continue
                    with contextlib.suppress(FileNotFoundError):  # deleted just now
                        found.append((f"{before}{entry.name}", entry.stat(follow_symlinks=False).st_size))
        return found

    def facts(self, path: str) -> FileFacts | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileFacts(found.st_size, found.st_mtime_ns // 1000)

    def read(self, path: str) -> pa.Buffer:
        with open(path, "rb", buffering=0) as small:
            if os.fstat(small.fileno()).st_size < _MAP_FROM:
                return pa.py_buffer(small.read())
        with pa.memory_map(path) as mapped:
            return mapped.read_buffer()

    def write(self, path: str, parts: Sequence[bytes | pa.Buffer], *, lasting: bool) -> None:
        unfinished = unfinished_name(path)
        try:
            file = open(unfinished, "xb")  # noqa: SIM115 - closed below; opening may have to be tried twice
        except FileNotFoundError:
            self.make(os.path.dirname(path), lasting=lasting)
            file = open(unfinished, "xb")  # noqa: SIM115
        try:
            with file:
                for part in parts:
                    file.write(part)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
        if lasting:
            _sync_folder(os.path.dirname(path))

    def append(self, path: str, whole: int, text: bytes, *, lasting: bool) -> None:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            self.make(folder, lasting=lasting)
        fresh = not os.path.exists(path)
        with open(path, "ab") as file:
            file.truncate(whole)
            file.write(text)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        if fresh and lasting:
            _sync_folder(folder)

    def move(self, path: str, to: str, *, lasting: bool) -> None:
        os.replace(path, to)
        if lasting:
            _sync_folder(os.path.dirname(to))

    def sync(self, paths: Sequence[str]) -> None:
        files = list(dict.fromkeys(paths))
        folders = list(dict.fromkeys(os.path.dirname(path) for path in files))
        if len(files) == 1:
            _sync_file(files[0])
            _sync_folder(folders[0])
            return
        list(_syncing().map(_sync_file, files))
        list(_syncing().map(_sync_folder, folders))

    def sync_names(self, path: str) -> None:
        folders = [folder for folder, _, _ in os.walk(path)]
        list(_syncing().map(_sync_folder, folders))

    def delete(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            if not os.path.isdir(path):
                raise
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)

    def forget(self, paths: Sequence[str]) -> None:
        _forgetting().submit(_forget, tuple(paths))


class ArrowDisk:
    """Any file system that `pyarrow.fs` reaches. What it has taken lasts, as far as it can say."""

    def __init__(self, reached: Any) -> None:
        self._reached = reached

    def make(self, path: str, *, lasting: bool) -> None:
        self._reached.create_dir(path, recursive=True)

    def names(self, path: str) -> list[str]:
        inside = self._reached.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return [info.base_name for info in inside]

    def files(self, path: str) -> list[tuple[str, int]]:
        below = self._reached.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=True))
        return [(info.path[len(path) + 1 :], int(info.size or 0)) for info in below if info.is_file]

    def facts(self, path: str) -> FileFacts | None:
        info = self._reached.get_file_info(path)
        if info.type == pafs.FileType.NotFound:
            return None
        return FileFacts(int(info.size or 0), int(info.mtime_ns or 0) // 1000)

    def read(self, path: str) -> pa.Buffer:
        with self._reached.open_input_file(path) as file:
            return file.read_buffer()

    def write(self, path: str, parts: Sequence[bytes | pa.Buffer], *, lasting: bool) -> None:
        direct = self._reached.type_name in _PUBLISHED_ON_CLOSE
        unfinished = path if direct else unfinished_name(path)
        if not direct:
            self._reached.create_dir(path.rpartition("/")[0], recursive=True)
        with self._reached.open_output_stream(unfinished) as file:
            # One write: on an object store, closing after a failed second write would publish the first.
            file.write(parts[0] if len(parts) == 1 else b"".join(memoryview(part) for part in parts))
        if not direct:
            self._reached.move(unfinished, path)

    def append(self, path: str, whole: int, text: bytes, *, lasting: bool) -> None:
        # Most stores cannot append.
        before = self.read(path).to_pybytes()[:whole] if whole else b""
        self.write(path, [before + text], lasting=lasting)

    def move(self, path: str, to: str, *, lasting: bool) -> None:
        self._reached.move(path, to)

    def sync(self, paths: Sequence[str]) -> None:
        """They last already."""

    def sync_names(self, path: str) -> None:
        """They last already."""

    def delete(self, path: str) -> None:
        kind = self._reached.get_file_info(path).type
        if kind == pafs.FileType.Directory:
            self._reached.delete_dir(path)
        elif kind != pafs.FileType.NotFound:
            self._reached.delete_file(path)

    def forget(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)


_SYNCING: Final = 8
"""Files that are synced at a time."""
LOCAL: Final = LocalDisk()
_mounted: dict[str, Disk] = {}


@functools.cache
def _syncing() -> ThreadPoolExecutor:
    """Those who wait for the disk. Every batch needs them: to start them takes longer than to sync a file."""
    return ThreadPoolExecutor(_SYNCING, "penstock-sync")


@functools.cache
def _forgetting() -> ThreadPoolExecutor:
    """Who deletes what nobody needs: a disk that is busy syncing lets that wait, and a batch need not."""
    return ThreadPoolExecutor(1, "penstock-forget")


def finish_forgetting() -> None:
    """Wait until what this process wants to be forgotten is gone from local disks."""
    if _forgetting.cache_info().currsize:
        # A process that is about to end takes no more work, and waits for what it has taken.
        with contextlib.suppress(RuntimeError):
            _forgetting().submit(int).result()


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_syncing.cache_clear)
os.register_at_fork(after_in_child=_forgetting.cache_clear)


def mount(scheme: str, disk: Disk) -> None:
    """Let paths `scheme://...` lead to a disk of one's own, in this process: for simulations."""
    _mounted[scheme] = disk


def disk_of(path: str) -> tuple[Disk, str]:
    """The disk behind a path or URI, and the path on it."""
    if "://" not in path:
        return LOCAL, path
    scheme, _, rest = path.partition("://")
    if scheme in _mounted:
        return _mounted[scheme], "/" + rest.lstrip("/")
    return _reach(path)


def unfinished_name(path: str) -> str:
    """Where a file is written before it is put in place.

    Unique, because a retried or speculative task may write the same file at the same time. The leading dot keeps Spark,
    DuckDB and file inputs from reading it.
    """
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{uuid.uuid4().hex}{UNFINISHED}"


def _forget(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # who cannot delete it now leaves it to the next one
            os.unlink(path)


def _sync_file(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # put elsewhere, or deleted, since it was written
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    except OSError as failure:
        if failure.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(handle)


@functools.lru_cache(maxsize=1024)
def _reach(path: str) -> tuple[ArrowDisk, str]:
    where = urllib.parse.urlsplit(path)
    # One connection for all folders of a host or store: a run has many folders.
    root = urllib.parse.urlunsplit((where.scheme, where.netloc, "/", where.query, ""))
    return _connect(root), pafs.FileSystem.from_uri(path)[1].rstrip("/")


@functools.cache
def _connect(root: str) -> ArrowDisk:
    return ArrowDisk(pafs.FileSystem.from_uri(root)[0])
