"""Journals: the durable list that a feed keeps beside the checkpoint.

A journal file has an entry a line: a checksum, and JSON. A last line that is torn, or does not fit its checksum, is the
trace of a writer that died before `append` returned, so nobody can have relied on it: readers skip it, and the next
writer cuts it off. Anywhere else such a line means that the file was damaged afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.connectors.connector import Journal
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import checksum
from penstock.storage.temporary import TemporaryFolder


@dataclass(frozen=True)
class MemoryJournal(Journal):
    """A journal that lives as long as its process: for tests and the local executor."""

    kept: list[dict[str, Any]] = field(default_factory=list)

    def entries(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self.kept]

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        # Through JSON, so that what a file could not keep is noticed here too.
        self.kept.extend(json.loads(json.dumps(dict(entry))) for entry in entries)

    @property
    def folder(self) -> Folder:
        return Folder(self._temporary.path)

    @cached_property
    def _temporary(self) -> TemporaryFolder:
        return TemporaryFolder("penstock-journal-")


@dataclass(frozen=True)
class FileJournal(Journal):
    """A journal in one file: appended on a local disk, rewritten whole on a store that cannot append."""

    path: str
    lasting: bool = True
    """Whether an entry survives a power cut once `append` has returned."""

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line[_SUM:]) for line in self._whole_lines()]

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        if not entries:
            return
        lines = [json.dumps(dict(entry), separators=(",", ":")).encode() for entry in entries]
        text = b"".join(b"%08x %b\n" % (checksum(line), line) for line in lines)
        folder, name = self._place()
        folder.append(name, sum(len(line) + 1 for line in self._whole_lines()), text)

    @property
    def folder(self) -> Folder:
        return self._place()[0]

    def _whole_lines(self) -> list[bytes]:
        folder, name = self._place()
        if not folder.exists(name):
            return []
        lines: list[bytes] = folder.read(name).to_pybytes().split(b"\n")
        sound = [_is_sound(line) for line in lines]
        whole = lines[: sound.index(False)]
        if len(whole) < len(lines) - 1 and any(sound[len(whole) :]):
            raise WorldError(
                f"the journal {self.path} is damaged",
                expected="entries that fit their checksums",
                found=f"another content in line {len(whole) + 1}",
                hint="restore the checkpoint folder from a copy, or start anew with another checkpoint",
            )
        return whole

    def _place(self) -> tuple[Folder, str]:
        where, _, name = self.path.rpartition("/")
        return Folder(where or ".", self.lasting), name


_SUM = 9
"""The checksum, in hexadecimal digits, and a space."""


def _is_sound(line: bytes) -> bool:
    """Whether a line is an entry as it was written; what follows the last line end is not."""
    return len(line) > _SUM and line[:_SUM] == b"%08x " % checksum(line[_SUM:])
