"""The state of a stage's bucket: Arrow chunks in files versioned by batch id.

```
 state/<stage>/<bucket>/00000041.state      chunk | chunk | ... | manifest | length of the manifest
                        00000042.state      only the chunks that batch 42 added; its manifest names all live chunks
```

A task of batch n opens version n - 1, changes slots, and writes version n under a temporary name that it renames. Spark
runs a batch again until it commits, and processing is deterministic, so a retry or a replay writes the same version.
A version is a delta: chunks of older batches stay where they are and are only referred to. When a version refers to
too many old files it is cut as a snapshot: live chunks are copied, and it refers to itself alone. Files that neither
of the last versions refers to are deleted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.errors import InternalError
from penstock.storage.folder import Folder

_SUFFIX: Final = ".state"
_LENGTH: Final = struct.Struct("<q")

SNAPSHOT_FILES: Final = 24
"""Old files a version may refer to: more would make opening state slow and keep dead chunks alive."""


@dataclass(frozen=True)
class _Chunk:
    """Where a chunk lies: in which version's file, and its place there."""

    version: int
    offset: int
    length: int
    rows: int


@dataclass
class _Fresh:
    """A chunk of the version being made."""

    tuples: pa.Table

    @property
    def rows(self) -> int:
        return int(self.tuples.num_rows)

    @property
    def length(self) -> int:
        return int(self.tuples.nbytes)


@dataclass
class _Box:
    """The slots of one box: slot -> part -> chunks."""

    mark: int = BEGINNING
    slots: dict[int, dict[str, list[_Chunk | _Fresh]]] = field(default_factory=dict)


class State:
    """One bucket's state in one batch: opened at version `batch - 1`, saved as version `batch`."""

    def __init__(self, folder: Folder, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._boxes: dict[str, _Box] = {}
        self._files: dict[int, pa.Buffer] = {}
        self._before: set[int] = set()
        self.memo: dict[str, Any] = {}
        """A JSON document of the stage's own: what it knows of progress."""
        if batch > 0:
            self._open(batch - 1)

    def slots(self, box: str) -> BoxSlots:
        """The slots of one box."""
        return BoxSlots(self, self._boxes.setdefault(box, _Box()))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """How many tuples each box holds, and how many bytes they take up."""
        found = {}
        for name, box in self._boxes.items():
            chunks = [chunk for held in box.slots.values() for parts in held.values() for chunk in parts]
            found[name] = sum(c.rows for c in chunks), sum(c.length for c in chunks)
        return found

    def save(self) -> None:
        """Write this version, and delete the files that no version needs any more."""
        if len(self._referred()) > SNAPSHOT_FILES:
            self._copy_live_chunks()
        parts: list[bytes | pa.Buffer] = []
        offset = 0
        boxes: dict[str, Any] = {}
        for name, box in self._boxes.items():
            slots: dict[str, Any] = {}
            for slot, held in box.slots.items():
                for chunks in held.values():
                    for at, chunk in enumerate(chunks):
                        if isinstance(chunk, _Fresh):
                            blob = _to_ipc(chunk.tuples)
                            parts.append(blob)
                            chunks[at] = _Chunk(self._batch, offset, blob.size, chunk.rows)
                            offset += blob.size
                slots[str(slot)] = {
                    part: [[c.version, c.offset, c.length, c.rows] for c in chunks if isinstance(c, _Chunk)]
                    for part, chunks in held.items()
                }
            boxes[name] = {"mark": box.mark, "slots": slots}
        manifest = json.dumps({"memo": self.memo, "boxes": boxes}).encode()
        self._folder.write(_file(self._batch), *parts, manifest, _LENGTH.pack(len(manifest)))
        self._forget()

    def read(self, chunk: _Chunk | _Fresh) -> pa.Table:
        if isinstance(chunk, _Fresh):
            return chunk.tuples
        buffer = self._file(chunk.version)
        return pa.ipc.open_stream(buffer.slice(chunk.offset, chunk.length)).read_all()

    def _file(self, version: int) -> pa.Buffer:
        if version not in self._files:
            self._files[version] = self._folder.read(_file(version))
        return self._files[version]

    def _open(self, version: int) -> None:
        if not self._folder.exists(_file(version)):
            raise InternalError(
                f"state version {version} of {self._folder.path} is missing",
                hint="the checkpoint is damaged or was cleaned by hand; start with a new one",
            )
        buffer = self._file(version)
        (length,) = _LENGTH.unpack(buffer.slice(buffer.size - _LENGTH.size).to_pybytes())
        manifest = json.loads(buffer.slice(buffer.size - _LENGTH.size - length, length).to_pybytes())
        self.memo = manifest["memo"]
        for name, box in manifest["boxes"].items():
            slots: dict[int, dict[str, list[_Chunk | _Fresh]]] = {
                int(slot): {part: [_Chunk(*c) for c in chunks] for part, chunks in held.items()}
                for slot, held in box["slots"].items()
            }
            self._boxes[name] = _Box(box["mark"], slots)
        self._before = self._referred() | {version}

    def _chunk_lists(self) -> list[list[_Chunk | _Fresh]]:
        return [chunks for box in self._boxes.values() for held in box.slots.values() for chunks in held.values()]

    def _referred(self) -> set[int]:
        return {c.version for chunks in self._chunk_lists() for c in chunks if isinstance(c, _Chunk)}

    def _copy_live_chunks(self) -> None:
        for chunks in self._chunk_lists():
            chunks[:] = [_Fresh(self.read(c)) for c in chunks]

    def _forget(self) -> None:
        # Version n - 1 must stay: until Spark has committed this batch it may be run again from there.
        keep = self._before | self._referred() | {self._batch}
        for name in self._folder.names():
            if name.endswith(_SUFFIX) and int(name.removesuffix(_SUFFIX)) not in keep:
                self._folder.delete(name)


class BoxSlots:
    """The slots of one box, as operators see them (`penstock.operators.base.Slots`)."""

    def __init__(self, state: State, box: _Box) -> None:
        self._state = state
        self._box = box

    def numbers(self) -> Sequence[int]:
        return sorted(self._box.slots)

    def chunks(self, slot: int, part: str) -> Sequence[pa.Table]:
        return [self._state.read(c) for c in self._box.slots.get(slot, {}).get(part, ())]

    def count(self, slot: int, part: str) -> int:
        return len(self._box.slots.get(slot, {}).get(part, ()))

    def append(self, slot: int, part: str, tuples: pa.Table) -> None:
        self._box.slots.setdefault(slot, {}).setdefault(part, []).append(_Fresh(tuples))

    def replace(self, slot: int, part: str, tuples: pa.Table) -> None:
        self._box.slots.setdefault(slot, {})[part] = [_Fresh(tuples)]

    def drop(self, slot: int) -> None:
        self._box.slots.pop(slot, None)

    def rows(self) -> int:
        return sum(c.rows for held in self._box.slots.values() for chunks in held.values() for c in chunks)

    def get_mark(self) -> int:
        return self._box.mark

    def set_mark(self, mark: int) -> None:
        self._box.mark = mark


def _file(version: int) -> str:
    return f"{version:08d}{_SUFFIX}"


def _to_ipc(tuples: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as stream:
        stream.write_table(tuples)
    return sink.getvalue()
