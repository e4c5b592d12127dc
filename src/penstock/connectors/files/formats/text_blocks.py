"""Text files as blocks of whole lines: byte ranges of plain files, streams of compressed ones.

A line belongs to the part in which its first byte lies, so parts can be cut by arithmetic alone and read apart. A train
may begin and end at any line start: its places are bytes, in a compressed file those of the text.
"""

from __future__ import annotations

import itertools
import lzma
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.files.cursors import keep, part_key, resume
from penstock.connectors.files.formats.format import (
    BrokenFileError,
    Cut,
    Part,
    Reach,
    Tuning,
    first_line,
    open_part,
    opened,
)
from penstock.connectors.files.recent import Recent

COMPRESSIONS: Final = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "xz": "xz"}
"""Suffixes of compressed text, and what Arrow calls the codec."""

_BLOCK_BYTES: Final = 8 << 20  # some 100,000 lines: parsers are at full speed, and a chunk is a good train
_REACH_BYTES: Final = 1 << 20  # what is read at a time to count lines: little is read in vain, and it stays in cache
_PROBE_BYTES: Final = 1 << 16
_EXPANSION: Final = 5  # bytes of text in a compressed byte, for estimates
_LINE_BYTES: Final = 64  # bytes in a line, for estimates
_COUNTED_BYTES: Final = 256 << 20  # how far back lines are counted to tell a line number; farther would take too long
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = 10
_RETURN: Final = 13
_SPACES: Final = np.frombuffer(b" \t\r\n\f", np.uint8)


_KEPT_COUNTS: Final = 16
_counted: Recent[tuple[int, int]] = Recent(_KEPT_COUNTS)
"""For some files: a line start, and the lines before it."""


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, the byte at which they start (in a compressed file: of the text), and their numbers."""

    data: pa.Buffer
    byte: int
    line: int | None
    """The number of the first line, from 1, if it is known without counting."""


@dataclass(frozen=True)
class Lines:
    """The lines of a block that are not blank, with their line ends, and where in the block they are."""

    texts: pa.Array
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    """For each of them the lines before it in the block, blank ones included."""


def compression_of(path: str) -> str | None:
    return COMPRESSIONS.get(path.lower().rpartition(".")[2])


def text_cuts(part: Part, tuning: Tuning, *, whole: bool) -> list[Cut]:
    """Byte ranges of about `tuning.bytes`; one part if the file is compressed or must be read `whole`."""
    if part.size == part.at:
        return []
    if whole or compression_of(part.path):
        text = part.size * (_EXPANSION if compression_of(part.path) else 1)
        return [Cut(0, part.size, max(1, text // _LINE_BYTES), part.size)]
    edges = [*range(part.at, part.size, tuning.bytes), part.size]
    line = _line_bytes(part)
    return [Cut(low, high, max(1, (high - low) // line), high - low) for low, high in itertools.pairwise(edges)]


def _line_bytes(part: Part) -> int:
    """How long a line is: by the first ones."""
    with opened(part, exact=False) as file:
        data: bytes = file.read_at(min(_PROBE_BYTES, part.size), 0)
    return max(1, len(data) // max(1, data.count(b"\n")))


def blocks(
    part: Part, begin: int = 0, lines_before: int = 0, *, size: int = _BLOCK_BYTES, purpose: str = "read"
) -> Iterator[Block]:
    """The lines of a part from byte `begin` of the text on (a line start, with `lines_before` lines before it).

    Who reads a compressed file for a `purpose` finds the reader that was last used for it.
    """
    if compression_of(part.path):
        yield from _decompressed(part, begin, lines_before, size, purpose)
        return
    with opened(part, exact=False) as file:
        at, end = max(part.at, part.first), part.end if part.last is None else part.last
        start, line = begin, lines_before + 1
        if at > begin:
            start, line = _line_start(file, at, part.size), 0
        if start < end:
            file.seek(start)
            yield from _whole_lines(_limited(file, start, part.size, size), start, end, line or None, size)


def _decompressed(part: Part, begin: int, lines_before: int, size: int, purpose: str) -> Iterator[Block]:
    def start() -> TextCursor:
        file = open_part(part)
        cursor = TextCursor(_text_stream(file, part), begin, lines_before + 1)
        cursor.owned.callback(file.close)
        return cursor

    first, key = max(begin, part.first), part_key(part, purpose)
    cursor = resume(key, first, start)
    try:
        yield from cursor.take(first, part.last, size)
    except Exception:
        cursor.close()
        raise
    finally:
        keep(key, cursor)


@dataclass
class TextCursor:
    """The text of a compressed file, which can only be read on; its place is a byte of the text."""

    stream: Iterator[bytes]
    begin: int
    line: int
    """The number of the first line after `begin`, and after what was read."""
    place: int = 0
    held: bytes = b""
    failed: BrokenFileError | None = None
    owned: ExitStack = field(default_factory=ExitStack)

    def take(self, first: int, last: int | None, size: int) -> Iterator[Block]:
        """Whole lines of `[first, last)`, both of which are line starts."""
        while True:
            ended = self._fill(size, last)
            if self.place < first:
                skipped = min(first - self.place, len(self.held))
                self.line += self.held.count(b"\n", min(max(0, self.begin - self.place), skipped), skipped)
                self._drop(skipped)
                if not ended:
                    continue
            stop = len(self.held) if ended else self.held.rfind(b"\n") + 1
            stop = stop if last is None else min(stop, last - self.place)
            if stop > 0:
                data = self.held[:stop]
                yield Block(pa.py_buffer(data), self.place, self.line)
                self.line += data.count(b"\n")
                self._drop(stop)
            elif not ended:
                size *= 2  # a line that is longer
            if last is not None and self.place >= last:
                return
            if ended:
                if self.failed is not None:
                    raise self.failed
                return

    def _fill(self, size: int, last: int | None) -> bool:
        """Hold a block, or what there is up to a place; whether the text has ended before that."""
        while len(self.held) < size and (last is None or self.place + len(self.held) < last):
            try:
                data = next(self.stream, None) if self.failed is None else None
            except BrokenFileError as error:
                self.failed, data = error, None
            if data is None:
                return True
            self.held += data
        return False

    def _drop(self, count: int) -> None:
        self.place, self.held = self.place + count, self.held[count:]

    def close(self) -> None:
        self.owned.close()


def line_reach(part: Part, rows: int, begin: int, *, spaces_are_blank: bool) -> Reach:
    """Where the lines of a train end that begins at `part.first`: lines that are not blank are counted."""
    taken, size = 0, min(_REACH_BYTES, max(_PROBE_BYTES, rows * _LINE_BYTES))
    try:
        for block in blocks(replace(part, last=None), begin, 0, size=size, purpose="reach"):
            data, offsets = line_starts(block)
            filled = np.flatnonzero(~_blank(block, data, offsets, spaces_are_blank=spaces_are_blank))
            if taken + len(filled) > rows:
                return Reach(block.byte + int(offsets[filled[rows - taken]]), rows)
            taken += len(filled)
    except BrokenFileError:
        pass  # whoever reads the part tells
    return Reach(None, taken)


def _limited(file: Any, start: int, limit: int, size: int = _BLOCK_BYTES) -> Iterator[bytes]:
    while start < limit:
        data: bytes = file.read(min(size, limit - start))
        if not data:
            return
        start += len(data)
        yield data


def _line_start(file: Any, at: int, limit: int) -> int:
    """The first line start at or after byte `at`."""
    probe = at - 1
    while probe < limit:
        file.seek(probe)
        data = file.read(min(_PROBE_BYTES, limit - probe))
        found = data.find(b"\n")
        if found >= 0:
            return probe + int(found) + 1
        probe += len(data)
    return limit


def _whole_lines(stream: Iterator[bytes], at: int, end: int, line: int | None, size: int) -> Iterator[Block]:
    """Cut a stream that starts at byte `at`, a line start, into blocks of lines that start before `end`."""
    held = b""
    for data in stream:
        held += data
        if at + len(held) >= end:
            # The line that holds the last byte of the part is its last one.
            stop = held.find(b"\n", max(0, end - 1 - at))
            if stop >= 0:
                yield Block(pa.py_buffer(held[: stop + 1]), at, line)
                return
        whole = held.rfind(b"\n") + 1
        if whole and at + len(held) < end and len(held) >= size:
            yield Block(pa.py_buffer(held[:whole]), at, line)
            if line is not None:
                line += held.count(b"\n", 0, whole)
            at, held = at + whole, held[whole:]
    if held:
        yield Block(pa.py_buffer(held), at, line)


def _text_stream(file: Any, part: Part, size: int = _BLOCK_BYTES) -> Iterator[bytes]:
    codec = compression_of(part.path)
    try:
        if codec is None:
            file.seek(0)
            yield from _limited(file, 0, part.size, size)
            return
        stream = lzma.open(file) if codec == "xz" else pa.CompressedInputStream(file, codec)  # noqa: SIM115
        while data := stream.read(size):
            yield data
    except (lzma.LZMAError, EOFError, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFileError(f"the rest cannot be decompressed: {first_line(error)}") from error


def head(part: Part) -> tuple[str, int, int]:
    """The first line that is not blank, where the text after it begins, and how many lines that skips."""
    with opened(part, exact=False) as file:
        held, stream = b"", _text_stream(file, part, _PROBE_BYTES)
        for data in stream:
            held += data
            start = len(_BOM) if held.startswith(_BOM) else 0
            while (stop := held.find(b"\n", start)) >= 0:
                text = held[start:stop].strip(b"\r")
                if text:
                    return text.decode(errors="replace"), stop + 1, held.count(b"\n", 0, stop + 1)
                start = stop + 1
        start = len(_BOM) if held.startswith(_BOM) else 0
        return held[start:].strip(b"\r\n").decode(errors="replace"), len(held), held.count(b"\n") + 1


def mark_length(part: Part) -> int:
    """The length of the byte order mark that the text begins with, if any."""
    with opened(part, exact=False) as file:
        first = next(_text_stream(file, part, _PROBE_BYTES), b"")
    return len(_BOM) if first.startswith(_BOM) else 0


def sample(part: Part) -> bytes:
    """The first lines of a text, enough to guess its types."""
    with opened(part, exact=False) as file:
        first = next(_text_stream(file, part), b"")
    return first[: first.rfind(b"\n") + 1] or first


def full_text(part: Part) -> Generator[bytes]:
    """The whole text, piece by piece."""
    with opened(part, exact=False) as file:
        yield from _text_stream(file, part)


def lines_of(block: Block, *, spaces_are_blank: bool = False) -> Lines:
    """The lines of a block that are not blank, without copying it."""
    data, offsets = line_starts(block)
    blank = _blank(block, data, offsets, spaces_are_blank=spaces_are_blank)
    texts = _texts(block, offsets)
    return Lines(texts.filter(pa.array(~blank)) if blank.any() else texts, np.flatnonzero(~blank))


def count_lines(block: Block) -> int:
    """How many lines of a block are not blank."""
    data, offsets = line_starts(block)
    return len(offsets) - 1 - int(np.count_nonzero(_blank(block, data, offsets, spaces_are_blank=False)))


def line_starts(block: Block) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bytes of a block, and where its lines start; the last number is where the block ends."""
    data = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    return data, np.concatenate([[0], ends])


def _texts(block: Block, offsets: np.ndarray[Any, Any]) -> pa.Array:
    ends = pa.py_buffer(offsets.astype(np.int64))
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, block.data])


def _blank(
    block: Block, data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], *, spaces_are_blank: bool
) -> np.ndarray[Any, Any]:
    """Which lines are no records."""
    first = data[np.minimum(offsets[:-1], len(data) - 1)]
    if not (first <= _SPACES.max()).any():
        return np.zeros(len(first), bool)  # as in most files
    lengths = np.diff(offsets)
    only_end = (lengths == 1) & ((first == _NEWLINE) | (first == _RETURN))
    blank = np.asarray(only_end | ((lengths == 2) & (first == _RETURN) & (data[offsets[1:] - 1] == _NEWLINE)))
    if spaces_are_blank:
        doubtful = np.flatnonzero(~blank & np.isin(first, _SPACES))
        if len(doubtful):
            lines = _texts(block, offsets).take(pa.array(doubtful))
            blank[doubtful] = ~pc.match_substring_regex(lines, r"\S").to_numpy(zero_copy_only=False)
    return blank


def complete_bytes(file: Any, begin: int, size: int) -> int:
    """The length of an open text of `size` bytes without its last line, if that has no end; nothing before `begin` is
    looked at."""
    while size > begin:
        start = max(begin, size - _PROBE_BYTES)
        found = file.read_at(size - start, start).rfind(b"\n")
        if found >= 0:
            return start + int(found) + 1
        size = start
    return begin


def last_line(data: pa.Buffer) -> bytes:
    """The last line of a text that is not blank."""
    tail: bytes = data.slice(max(0, data.size - _PROBE_BYTES)).to_pybytes().rstrip(b"\r\n")
    if b"\n" not in tail and data.size > _PROBE_BYTES:
        tail = data.to_pybytes().rstrip(b"\r\n")
    return tail[tail.rfind(b"\n") + 1 :]


def check_utf8(data: pa.Buffer) -> None:
    """Refuse a text that is no UTF-8, with ArrowInvalid."""
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data]).cast(pa.large_string())


def joined(texts: pa.Array) -> pa.Buffer:
    """Lines as one text again: the bytes that the array holds, side by side."""
    kept = pa.concat_arrays([texts])
    offsets = np.frombuffer(kept.buffers()[1], np.int64)[kept.offset : kept.offset + len(kept) + 1]
    return kept.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def first_line_number(part: Part, block: Block) -> int | None:
    """The number of a block's first line, counted from the start of the file; None where that would take too long."""
    if block.line is not None:
        return block.line
    if block.byte > _COUNTED_BYTES:
        return None
    # From where the lines were counted last, if that is before: trains of one file are read one after the other.
    key = part_key(replace(part, at=0, end=0))
    byte, lines = _counted.take(key) or (0, 0)
    if byte > block.byte:
        byte, lines = 0, 0
    with opened(part, exact=False) as file:
        file.seek(byte)
        lines += sum(data.count(b"\n") for data in _limited(file, byte, block.byte))
    _counted.put(key, (block.byte, lines))
    return 1 + lines
