"""Text files as blocks of whole lines: byte ranges of plain files, streams of compressed ones.

A line belongs to the part in which its first byte lies, so parts can be cut by arithmetic alone and read apart.
"""

from __future__ import annotations

import itertools
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.formats import BrokenFileError, Cut, Part, Tuning, first_line, opened

COMPRESSIONS: Final = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "xz": "xz"}
"""Suffixes of compressed text, and what Arrow calls the codec."""

_BLOCK_BYTES: Final = 8 << 20  # some 100,000 lines: parsers are at full speed, and a chunk is a good train
_PROBE_BYTES: Final = 1 << 16
_EXPANSION: Final = 5  # bytes of text in a compressed byte, for estimates
_LINE_BYTES: Final = 64  # bytes in a line, for estimates
_COUNTED_BYTES: Final = 256 << 20  # how far back lines are counted to tell a line number; farther would take too long
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = 10
_RETURN: Final = 13


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
    if part.size == 0:
        return []
    if whole or compression_of(part.path):
        text = part.size * (_EXPANSION if compression_of(part.path) else 1)
        return [Cut(0, part.size, max(1, text // _LINE_BYTES), part.size)]
    edges = [*range(0, part.size, tuning.bytes), part.size]
    return [Cut(low, high, max(1, (high - low) // _LINE_BYTES), high - low) for low, high in itertools.pairwise(edges)]


def blocks(part: Part, begin: int = 0, lines_before: int = 0) -> Iterator[Block]:
    """The lines of a part from byte `begin` of the text on (a line start, with `lines_before` lines before it)."""
    with opened(part, exact=False) as file:
        if compression_of(part.path):
            yield from _whole_lines(_text_stream(file, part), begin, None, lines_before + 1)
            return
        limit = part.size
        start, line = begin, lines_before + 1
        if part.at > begin:
            start, line = _line_start(file, part.at, limit), 0
        if start < part.end:
            file.seek(start)
            yield from _whole_lines(_limited(file, start, limit), start, part.end, line or None, at=start)


def _limited(file: Any, start: int, limit: int) -> Iterator[bytes]:
    while start < limit:
        data: bytes = file.read(min(_BLOCK_BYTES, limit - start))
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


def _whole_lines(
    stream: Iterator[bytes], begin: int, end: int | None, line: int | None, *, at: int = 0
) -> Iterator[Block]:
    """Cut a stream that starts at byte `at` into blocks of lines that start in `[begin, end)`."""
    held = b""
    for data in stream:
        if at < begin:
            skipped = min(begin - at, len(data))
            at, data = at + skipped, data[skipped:]
        held += data
        if end is not None and at + len(held) >= end:
            # The line that holds the last byte of the part is its last one.
            stop = held.find(b"\n", max(0, end - 1 - at))
            if stop >= 0:
                yield Block(pa.py_buffer(held[: stop + 1]), at, line)
                return
        whole = held.rfind(b"\n") + 1
        if whole and (end is None or at + len(held) < end) and len(held) >= _BLOCK_BYTES:
            yield Block(pa.py_buffer(held[:whole]), at, line)
            if line is not None:
                line += held.count(b"\n", 0, whole)
            at, held = at + whole, held[whole:]
    if held:
        yield Block(pa.py_buffer(held), at, line)


def _text_stream(file: Any, part: Part) -> Iterator[bytes]:
    codec = compression_of(part.path)
    try:
        if codec is None:
            yield from _limited(file, 0, part.size)
            return
        stream = lzma.open(file) if codec == "xz" else pa.CompressedInputStream(file, codec)  # noqa: SIM115
        while data := stream.read(_BLOCK_BYTES):
            yield data
    except (lzma.LZMAError, EOFError, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFileError(f"the rest cannot be decompressed: {first_line(error)}") from error


def head(part: Part) -> tuple[str, int, int]:
    """The first line that is not blank, where the text after it begins, and how many lines that skips."""
    with opened(part, exact=False) as file:
        held, stream = b"", _text_stream(file, part)
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
        first = next(_text_stream(file, part), b"")
    return len(_BOM) if first.startswith(_BOM) else 0


def sample(part: Part) -> bytes:
    """The first lines of a text, enough to guess its types."""
    with opened(part, exact=False) as file:
        first = next(_text_stream(file, part), b"")
    return first[: first.rfind(b"\n") + 1] or first


def full_text(part: Part) -> Iterator[bytes]:
    """The whole text, piece by piece."""
    with opened(part, exact=False) as file:
        yield from _text_stream(file, part)


def lines_of(block: Block, *, spaces_are_blank: bool = False) -> Lines:
    """The lines of a block that are not blank, without copying it."""
    data, offsets = line_starts(block)
    texts = pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int64)), block.data]
    )
    blank = _blank(data, offsets)
    if spaces_are_blank:
        blank |= ~pc.match_substring_regex(texts, r"\S").to_numpy(zero_copy_only=False)
    numbers = np.flatnonzero(~blank)
    return Lines(texts.filter(pa.array(~blank)) if blank.any() else texts, numbers)


def count_lines(block: Block) -> int:
    """How many lines of a block are not blank."""
    data, offsets = line_starts(block)
    return len(offsets) - 1 - int(np.count_nonzero(_blank(data, offsets)))


def line_starts(block: Block) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bytes of a block, and where its lines start; the last number is where the block ends."""
    data = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    return data, np.concatenate([[0], ends])


def _blank(data: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    starts, lengths = offsets[:-1], np.diff(offsets)
    first = data[np.minimum(starts, len(data) - 1)]
    only_end = (lengths == 1) & ((first == _NEWLINE) | (first == _RETURN))
    return np.asarray(only_end | ((lengths == 2) & (first == _RETURN) & (data[offsets[1:] - 1] == _NEWLINE)))


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
    with opened(part, exact=False) as file:
        return 1 + sum(data.count(b"\n") for data in _limited(file, 0, block.byte))
