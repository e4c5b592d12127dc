"""Journals: the durable list that a feed keeps beside the checkpoint.

A journal file is JSON lines. A torn last line is the trace of a writer that died before `append` returned, so nobody
can have relied on it: readers skip it, and the next writer cuts it off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import fs

from penstock.connectors.places import filesystem_of
from penstock.errors import WorldError


@dataclass(frozen=True)
class MemoryJournal:
    """A journal that lives as long as its process: for tests and the local executor."""

    kept: list[dict[str, Any]] = field(default_factory=list)

    def entries(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self.kept]

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        # Through JSON, so that what a file could not keep is noticed here too.
        self.kept.extend(json.loads(json.dumps(dict(entry))) for entry in entries)


@dataclass(frozen=True)
class FileJournal:
    """A journal in one file: appended and synced on a local disk, rewritten whole on a store that cannot append."""

    path: str

    def entries(self) -> list[dict[str, Any]]:
        return _parse(self._whole_lines(), self.path)

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        if not entries:
            return
        text = "".join(json.dumps(dict(entry), separators=(",", ":")) + "\n" for entry in entries).encode()
        files, path = filesystem_of(self.path)
        try:
            if isinstance(files, fs.LocalFileSystem):
                _append_local(path, len(self._whole_lines()), text)
            else:
                _replace(files, path, self._whole_lines() + text)
        except OSError as error:
            raise WorldError(
                f"cannot write the journal {self.path}",
                found=str(error),
                hint="check space and rights there, then restart",
            ) from error

    def _whole_lines(self) -> bytes:
        files, path = filesystem_of(self.path)
        try:
            with files.open_input_file(path) as file:
                text: bytes = file.read()
        except FileNotFoundError:
            return b""
        return text[: text.rfind(b"\n") + 1]


def _parse(text: bytes, path: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise WorldError(
            f"the journal {path} is damaged",
            expected="JSON lines",
            found=str(error),
            hint="restore the checkpoint folder from a copy, or start anew with another checkpoint",
        ) from error


def _append_local(path: str, whole: int, text: bytes) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    fresh = not os.path.exists(path)
    with open(path, "ab") as file:
        file.truncate(whole)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _replace(files: Any, path: str, text: bytes) -> None:
    partial = path + ".tmp"
    with files.open_output_stream(partial) as file:
        file.write(pa.py_buffer(text))
    files.move(partial, path)
