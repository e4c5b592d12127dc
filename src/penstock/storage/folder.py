"""A folder on any file system that Arrow reaches: the one place where Penstock touches files of its own.

`Folder` is a frozen, picklable handle: a path, nothing open. Local folders are served by plain system calls and
memory maps; every other scheme (`s3://`, `gs://`, `abfs://`, `hdfs://`, ...) goes through `pyarrow.fs`. A file
appears whole or not at all, which is what state versions, batch records and staged parts rely on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import WorldError

_UNFINISHED: Final = ".unfinished"
"""Ends the name of a file that is still being written; `names` does not list it."""

_PUBLISHED_ON_CLOSE: Final = frozenset({"s3", "gcs", "abfs"})
"""Arrow file systems on which an object appears when its upload ends, and a rename would be a copy."""

_MAP_FROM: Final = 64 * 1024
"""Smaller files are copied: it costs no more than mapping them, and a process may hold only some 65,000 maps."""

_FAILURES: Final = (OSError, pa.ArrowException)


@dataclass(frozen=True)
class Folder:
    """A folder, given by a local path or a URI. It need not exist yet.

    >>> Folder("file:///tmp/run").child("state", "3").path
    '/tmp/run/state/3'
    """

    path: str

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
        return Folder("/".join((path, *names)) + mark + options)

    def make(self) -> None:
        """Create the folder and its parents; fine if it is there."""
        with self._explained("create the folder"):
            if self.local():
                os.makedirs(self.path, exist_ok=True)
            else:
                system, base = _reach(self.path)
                system.create_dir(base, recursive=True)

    def names(self) -> list[str]:
        """The sorted names of the files and folders directly inside; none if the folder does not exist."""
        with self._explained("list the folder"):
            if self.local():
                try:
                    found = os.listdir(self.path)
                except FileNotFoundError:
                    return []
            else:
                system, base = _reach(self.path)
                inside = system.get_file_info(pafs.FileSelector(base, allow_not_found=True))
                found = [info.base_name for info in inside]
        return sorted(name for name in found if not name.endswith(_UNFINISHED))

    def exists(self, name: str) -> bool:
        """Whether a file or folder of this name is inside."""
        if self.local():
            return os.path.exists(f"{self.path}/{name}")
        with self._explained("look into the folder"):
            system, base = _reach(self.path)
            return bool(system.get_file_info(f"{base}/{name}").type != pafs.FileType.NotFound)

    def size(self, name: str) -> int:
        """The size of a file in bytes."""
        with self._explained("read the file", name):
            if self.local():
                return os.stat(f"{self.path}/{name}").st_size
            system, base = _reach(self.path)
            info = system.get_file_info(f"{base}/{name}")
            if info.type == pafs.FileType.NotFound:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return int(info.size)

    def changed(self, name: str) -> int:
        """When a file was last written, in microseconds since the epoch."""
        with self._explained("read the file", name):
            if self.local():
                return os.stat(f"{self.path}/{name}").st_mtime_ns // 1000
            system, base = _reach(self.path)
            info = system.get_file_info(f"{base}/{name}")
            if info.type == pafs.FileType.NotFound or info.mtime_ns is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return int(info.mtime_ns) // 1000

    def read(self, name: str) -> pa.Buffer:
        """The content of a file; memory-mapped, so not copied, when the folder is local and the file not small."""
        with self._explained("read the file", name):
            if self.local():
                with open(f"{self.path}/{name}", "rb", buffering=0) as small:
                    if os.fstat(small.fileno()).st_size < _MAP_FROM:
                        return pa.py_buffer(small.read())
                with pa.memory_map(f"{self.path}/{name}") as mapped:
                    return mapped.read_buffer()
            system, base = _reach(self.path)
            with system.open_input_file(f"{base}/{name}") as file:
                return file.read_buffer()

    def write(self, name: str, *parts: bytes | pa.Buffer) -> None:
        """Put a file in place atomically: readers see the old content, or all of the new, never half of it.

        The folder is created if it is missing. The content is not forced to disk: it survives the end of the
        process, and what a power cut may take is what the batch's replay writes again.
        """
        with self._explained("write the file", name):
            if self.local():
                self._write_local(name, parts)
                return
            system, base = _reach(self.path)
            direct = system.type_name in _PUBLISHED_ON_CLOSE
            target = f"{base}/{name}"
            unfinished = target if direct else f"{base}/{_unfinished(name)}"
            if not direct:
                system.create_dir(base, recursive=True)
            with system.open_output_stream(unfinished) as file:
                # One write: on an object store, closing after a failed second write would publish the first.
                file.write(parts[0] if len(parts) == 1 else b"".join(memoryview(part) for part in parts))
            if not direct:
                system.move(unfinished, target)

    def _write_local(self, name: str, parts: tuple[bytes | pa.Buffer, ...]) -> None:
        unfinished = f"{self.path}/{_unfinished(name)}"
        try:
            file = open(unfinished, "xb")  # noqa: SIM115 - closed below; opening may have to be tried twice
        except FileNotFoundError:
            os.makedirs(self.path, exist_ok=True)
            file = open(unfinished, "xb")  # noqa: SIM115
        try:
            with file:
                for part in parts:
                    file.write(part)
            os.replace(unfinished, f"{self.path}/{name}")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    def move(self, name: str, to: Folder, new: str) -> None:
        """Rename a file, replacing `new` if it is there. Fine if it has been moved already."""
        with self._explained("move the file", name):
            try:
                self._rename(name, to, new)
            except OSError as failure:
                if not self.exists(name):
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
        if self.local() and to.local():
            os.replace(f"{self.path}/{name}", f"{to.path}/{new}")
            return
        if bool(self.local()) != bool(to.local()) or _reach(self.path)[0] != _reach(to.path)[0]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        system, base = _reach(self.path)
        to.make()
        system.move(f"{base}/{name}", f"{_reach(to.path)[1]}/{new}")

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is inside; fine if it is gone."""
        with self._explained("delete the file", name):
            if self.local():
                path = f"{self.path}/{name}"
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    return
                except (IsADirectoryError, PermissionError):
                    if not os.path.isdir(path):
                        raise
                    _remove_tree(path)
            else:
                system, base = _reach(self.path)
                kind = system.get_file_info(f"{base}/{name}").type
                if kind == pafs.FileType.Directory:
                    system.delete_dir(f"{base}/{name}")
                elif kind != pafs.FileType.NotFound:
                    system.delete_file(f"{base}/{name}")

    def delete_all(self) -> None:
        """Delete the folder with all that is inside; fine if it is gone."""
        with self._explained("delete the folder"):
            if self.local():
                _remove_tree(self.path)
            else:
                system, base = _reach(self.path)
                if system.get_file_info(base).type != pafs.FileType.NotFound:
                    system.delete_dir(base)

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


def _unfinished(name: str) -> str:
    # Unique, because a retried or speculative task may write the same file at the same time. The leading dot keeps
    # Spark, DuckDB and file inputs from reading it.
    return f".{name}.{uuid.uuid4().hex}{_UNFINISHED}"


def _remove_tree(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


@functools.lru_cache(maxsize=1024)
def _reach(path: str) -> tuple[Any, str]:
    """The Arrow file system behind a URI, and the path on it."""
    where = urllib.parse.urlsplit(path)
    # One connection for all folders of a host or store: a run has many folders.
    return _connect(urllib.parse.urlunsplit((where.scheme, where.netloc, "/", where.query, ""))), (
        pafs.FileSystem.from_uri(path)[1].rstrip("/")
    )


@functools.cache
def _connect(root: str) -> Any:
    return pafs.FileSystem.from_uri(root)[0]
