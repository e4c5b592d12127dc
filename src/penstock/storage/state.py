"""The state of a stage's bucket: Arrow chunks in files versioned by batch id.

```
 state/<stage>/<bucket>/00000041.state      chunk | chunk | ... | manifest | trailer
                        00000042.state      only the chunks that batch 42 added; its manifest names all live chunks
```

A task of batch n opens version n - 1, changes slots, and writes version n under a temporary name that it renames. Spark
runs a batch again until it commits, and processing is deterministic, so a retry or a replay writes the same version.
A version is a delta: chunks of older batches stay where they are and are only referred to. When a version refers to
too many old files it is cut as a snapshot: live chunks are copied, and it refers to itself alone.

Every chunk and every manifest has a checksum, and a file that is cut short or changed is refused by name. The last
`KEPT_VERSIONS` versions can be opened: a run whose newest version turns out to be damaged goes back to the one before.
Files that none of them refers to are deleted, but never a newer one: a late attempt of an older batch may be at work.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import FORMAT, RESTORE, checksum, damaged, other_format

_SUFFIX: Final = ".state"
_TRAILER: Final = struct.Struct("<4sIIQ")
"""Magic, format, checksum of the manifest, length of the manifest."""
_MAGIC: Final = b"PNST"

SNAPSHOT_FILES: Final = 24
"""Old files a version may refer to: more would make opening state slow and keep dead chunks alive."""
KEPT_VERSIONS: Final = 3
"""The version being made, the one before it, and one more to go back to if that is damaged."""


@dataclass(frozen=True)
class _Chunk:
    """Where a chunk lies: in which version's file, and its place there."""

    version: int
    offset: int
    length: int
    rows: int
    crc: int


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

    def __init__(self, folder: Folder, batch: int, *, empty: bool = False) -> None:
        self._folder = folder
        self._batch = batch
        self._boxes: dict[str, _Box] = {}
        self._files: dict[int, pa.Buffer] = {}
        self._sound: set[_Chunk] = set()
        self._earlier: dict[int, set[int]] = {}
        """The versions that stay, and the files that each of them needs."""
        self.memo: dict[str, Any] = {}
        """A JSON document of the stage's own: what it knows of progress."""
        if batch > 0 and not empty:
            self._open(batch - 1)

    def slots(self, box: str) -> BoxSlots:
        """The slots of one box."""
        return BoxSlots(self, self._boxes.setdefault(box, _Box()))

    def boxes(self) -> list[str]:
        """The boxes that have state here."""
        return list(self._boxes)

    def drop(self, box: str) -> None:
        """Forget all that a box holds."""
        self._boxes.pop(box, None)

    def adopt(self, box: str, other: State) -> None:
        """Take over what a box holds at another stage."""
        held = other._boxes.get(box, _Box())
        slots: dict[int, dict[str, list[_Chunk | _Fresh]]] = {
            slot: {part: [_Fresh(other.read(c)) for c in chunks] for part, chunks in parts.items()}
            for slot, parts in held.slots.items()
        }
        self._boxes[box] = _Box(held.mark, slots)

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
                            chunks[at] = _Chunk(self._batch, offset, blob.size, chunk.rows, checksum(blob))
                            offset += blob.size
                slots[str(slot)] = {
                    part: [[c.version, c.offset, c.length, c.rows, c.crc] for c in chunks if isinstance(c, _Chunk)]
                    for part, chunks in held.items()
                }
            boxes[name] = {"mark": box.mark, "slots": slots}
        earlier = {str(version): sorted(needs) for version, needs in self._earlier.items()}
        manifest = json.dumps({"batch": self._batch, "memo": self.memo, "boxes": boxes, "earlier": earlier}).encode()
        trailer = _TRAILER.pack(_MAGIC, FORMAT, checksum(manifest), len(manifest))
        self._folder.write(_file(self._batch), *parts, manifest, trailer)
        self._forget()

    def verify(self) -> None:
        """Read every chunk once, and refuse what is damaged."""
        for chunks in self._chunk_lists():
            for chunk in chunks:
                if isinstance(chunk, _Chunk):
                    self._bytes(chunk)

    def read(self, chunk: _Chunk | _Fresh) -> pa.Table:
        if isinstance(chunk, _Fresh):
            return chunk.tuples
        return pa.ipc.open_stream(self._bytes(chunk)).read_all()

    def _bytes(self, chunk: _Chunk) -> pa.Buffer:
        buffer = self._file(chunk.version)
        if chunk.offset + chunk.length > buffer.size:
            raise damaged(self._path(chunk.version), "a file that is cut short")
        content = buffer.slice(chunk.offset, chunk.length)
        if chunk not in self._sound:
            if checksum(content) != chunk.crc:
                raise damaged(self._path(chunk.version), "a chunk that does not fit its checksum")
            self._sound.add(chunk)
        return content

    def _file(self, version: int) -> pa.Buffer:
        if version not in self._files:
            if not self._folder.exists(_file(version)):
                raise WorldError(
                    f"state version {version} is missing: {self._path(version)}",
                    expected="every version that the last batches need",
                    hint=RESTORE,
                )
            self._files[version] = self._folder.read(_file(version))
        return self._files[version]

    def _open(self, version: int) -> None:
        manifest = _manifest(self._file(version), self._path(version))
        if manifest["batch"] != version:
            raise damaged(self._path(version), f"the state of batch {manifest['batch']}")
        self.memo = manifest["memo"]
        for name, box in manifest["boxes"].items():
            slots: dict[int, dict[str, list[_Chunk | _Fresh]]] = {
                int(slot): {part: [_Chunk(*c) for c in chunks] for part, chunks in held.items()}
                for slot, held in box["slots"].items()
            }
            self._boxes[name] = _Box(box["mark"], slots)
        kept = {int(older): set(needs) for older, needs in manifest["earlier"].items()}
        kept = {older: needs for older, needs in kept.items() if older > version + 1 - KEPT_VERSIONS}
        self._earlier = {**kept, version: self._referred() | {version}}

    def _chunk_lists(self) -> Iterator[list[_Chunk | _Fresh]]:
        return (chunks for box in self._boxes.values() for held in box.slots.values() for chunks in held.values())

    def _referred(self) -> set[int]:
        return {c.version for chunks in self._chunk_lists() for c in chunks if isinstance(c, _Chunk)}

    def _copy_live_chunks(self) -> None:
        for chunks in self._chunk_lists():
            chunks[:] = [_Fresh(self.read(c)) for c in chunks]

    def _forget(self) -> None:
        # Spark may run this batch again until it has committed it, and a damaged version sends a run back to the one
        # before. What is newer belongs to others: this may be an attempt that everybody has stopped waiting for.
        keep = self._referred().union(*self._earlier.values())
        stored = stored_versions(self._folder)
        self._folder.forget([_file(version) for version in stored if version < self._batch and version not in keep])

    def _path(self, version: int) -> str:
        return f"{self._folder.path}/{_file(version)}"


class BoxSlots:
    """The slots of one box, as operators see them (`penstock.operators.protocol.Slots`)."""

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


def stored_versions(folder: Folder) -> list[int]:
    """The versions whose files are there, whole or not."""
    return [int(name.removesuffix(_SUFFIX)) for name in folder.names() if name.endswith(_SUFFIX)]


def forget_after(folder: Folder, version: int) -> None:
    """Delete what is newer than a version: who holds the checkpoint starts from there."""
    for newer in stored_versions(folder):
        if newer > version:
            folder.delete(_file(newer))


def _manifest(buffer: pa.Buffer, place: str) -> dict[str, Any]:
    if buffer.size < _TRAILER.size:
        raise damaged(place, f"a file of {buffer.size} bytes")
    magic, format_, crc, length = _TRAILER.unpack(buffer.slice(buffer.size - _TRAILER.size).to_pybytes())
    if magic == _MAGIC and format_ != FORMAT:
        raise other_format(place, format_, FORMAT)
    start = buffer.size - _TRAILER.size - length
    if magic != _MAGIC or start < 0:
        raise damaged(place, "no state of Penstock at its end")
    text = buffer.slice(start, length)
    if checksum(text) != crc:
        raise damaged(place, "a manifest that does not fit its checksum")
    manifest: dict[str, Any] = json.loads(text.to_pybytes())
    return manifest


def _file(version: int) -> str:
    return f"{version:08d}{_SUFFIX}"


def _to_ipc(tuples: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as stream:
        stream.write_table(tuples)
    return sink.getvalue()
