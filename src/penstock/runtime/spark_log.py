"""Spark's own logs of a query, as files: `offsets/<batch>` says how a batch was planned, `commits/<batch>` that it is
done.

Spark writes them without syncing them, so a power cut may leave them empty, cut short or gone; on a local disk a
checksum lies beside each of them, unless the session is our own. Nothing depends on them alone: the board knows how
every batch was planned. Before a query starts they are made to say what the board says.
"""

from __future__ import annotations

import json
import uuid
import zlib
from typing import Final

from penstock.errors import QueryError, WorldError
from penstock.runtime.board import Board
from penstock.runtime.offsets import intake_offset, is_local
from penstock.storage.folder import Folder

_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
METADATA: Final = "metadata"
_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes of a batch that is done, in a query without event times of Spark's own."""
_CHECKED: Final = 512
_NOTHING: Final = "-"
"""What Spark writes for a source that has no offset yet."""


class SparkLog:
    """The logs of one query."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def offset(self, batch: int) -> str | None:
        """How a batch was planned; None if the log does not say, or not whole."""
        return self._read(_OFFSETS, batch, lines=3)

    def committed(self) -> int:
        """The last batch that Spark knows to be done; -1 if there is none."""
        return max(self._batches(_COMMITS), default=-1)

    def planned(self) -> int:
        """The last batch that Spark knows to be planned; -1 if there is none."""
        return max(self._batches(_OFFSETS), default=-1)

    def versions(self) -> set[int]:
        """The versions of the network that the newest batch names, and all that Spark does not know to be done."""
        first = min(self.committed() + 1, self.planned())
        begun = [batch for batch in self._batches(_OFFSETS) if batch >= first and self._is_vouched_for(batch)]
        texts = [self.offset(batch) for batch in begun]
        return {intake_offset(text).version for text in texts if text is not None}

    def follow(self, board: Board) -> None:
        """Make the logs say what the board says: what is done, and what was begun and must be done as planned."""
        newest = board.newest()
        for batch in self._batches(_OFFSETS):
            if batch > newest + 1:
                self._delete(_OFFSETS, batch)
        # Spark looks at the newest of them and at the one before it, whether that is done or not.
        for batch in (newest - 1, newest, newest + 1):
            known = self._told(board, batch)
            if known is not None and is_local(known):
                raise QueryError(
                    "the checkpoint was made by the local engine",
                    hint="go on with engine='local', or start with another checkpoint",
                )
            if known is not None and self.offset(batch) != known:
                self._delete(_OFFSETS, batch)
                self._folder.child(_OFFSETS).write(str(batch), known.encode())
            elif known is None and (self.offset(batch) is None or (batch > newest and not self._is_vouched_for(batch))):
                # Begun, but nothing of it has shown: it is planned anew rather than taken from what may be damaged.
                self._delete(_OFFSETS, batch)
        self._follow_commits(newest)
        self._mend_metadata()

    def _is_vouched_for(self, batch: int) -> bool:
        """Whether a checksum lies beside an offset."""
        return self._folder.child(_OFFSETS).exists(_beside(str(batch)))

    def _told(self, board: Board, batch: int) -> str | None:
        """How the board says that a batch was planned; it need not, if Spark's own word is whole."""
        try:
            return board.offset(batch) if batch >= 0 else None
        except WorldError:
            if self.offset(batch) is None:
                raise
            return None

    def _follow_commits(self, newest: int) -> None:
        for batch in self._batches(_COMMITS):
            if batch > newest:
                self._delete(_COMMITS, batch)
        if newest >= 0 and self._read(_COMMITS, newest, lines=2) is None:
            # What is done is not done again: it would need the version before, which need not be whole any more.
            before = (self._read(_COMMITS, batch, lines=2) for batch in sorted(self._batches(_COMMITS), reverse=True))
            text = next((found for found in before if found is not None), _COMMIT)
            self._delete(_COMMITS, newest)
            self._folder.child(_COMMITS).write(str(newest), text.encode())

    def _mend_metadata(self) -> None:
        """The name that Spark gave the query: with logs, but without that, it would not start."""
        text = _whole(self._folder, METADATA)
        if text is None or not _are_documents([text]):
            self._folder.delete(METADATA)
            self._folder.delete(_beside(METADATA))
            if self.planned() >= 0 or self.committed() >= 0:
                self._folder.write(METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())

    def _read(self, log: str, batch: int, *, lines: int) -> str | None:
        text = _whole(self._folder.child(log), str(batch))
        found = (text or "").splitlines()
        return text if len(found) >= lines and found[0][:1] == "v" and _are_documents(found[1:]) else None

    def _batches(self, log: str) -> list[int]:
        return [int(name) for name in self._folder.child(log).names() if name.isdigit()]

    def _delete(self, log: str, batch: int) -> None:
        self._folder.child(log).delete(str(batch))
        self._folder.child(log).delete(_beside(str(batch)))


def _beside(name: str) -> str:
    """Where Hadoop keeps the checksum of a local file."""
    return f".{name}.crc"


def _whole(folder: Folder, name: str) -> str | None:
    """The text of a file, if it is there and fits the checksum beside it; a power cut may have parted the two."""
    if not folder.exists(name):
        return None
    content = folder.read(name).to_pybytes()
    if folder.exists(_beside(name)) and folder.read(_beside(name)).to_pybytes() != hadoop_checksum(content):
        return None
    text: str = content.decode(errors="replace")
    return text


def hadoop_checksum(content: bytes) -> bytes:
    """What Hadoop writes beside a local file: a CRC-32 of every 512 bytes."""
    sums = (zlib.crc32(content[at : at + _CHECKED]) for at in range(0, len(content), _CHECKED))
    return b"crc\0" + _CHECKED.to_bytes(4, "big") + b"".join(crc.to_bytes(4, "big") for crc in sums)


def _are_documents(lines: list[str]) -> bool:
    """Whether every line is JSON: documents of ours and Spark's, or numbers of sources that count."""
    try:
        return all(line == _NOTHING or json.loads(line) is not None for line in lines)
    except ValueError:
        return False
