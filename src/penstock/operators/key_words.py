"""Keys as words of 64 bits: what an index compares instead of values of many types.

```
 an integer, a date, a time      one word
 a text of up to 19 bytes        host-000 | 123.exam | ple         19      its length is the last byte
```

Words of two rows are equal if, and only if, the values are. Every column of a key adds its words; a row with a NULL in
its key has words that say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.arrays import Mask

Words = npt.NDArray[np.uint64]

WORD: Final = 8
"""Bytes of a word."""
LONGEST: Final = 63
"""Bytes of a text that is made words of. Each word costs as much as an integer; from here on hashing texts is no
slower. And a length must fit into a byte, with room for one that no such text has."""
TOO_LONG: Final = 255
"""The length of texts that are longer than any of the index: they are equal to none of them."""
KEPT: Final = np.array([0] + [(1 << 8 * n) - 1 for n in range(1, 9)], np.uint64)
"""Masks that keep the first bytes of a word, by their number."""
_FIRST_UNIT: Final = "ns"


def has_words(kind: pa.DataType) -> bool:
    """Whether values of a type have words: not where the kernel takes values for equal that differ in bits."""
    if pa.types.is_timestamp(kind):
        return kind.tz is None or kind.unit != _FIRST_UNIT
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_time32(kind)
        or _is_text(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@dataclass(frozen=True)
class Layout:
    """How many words each column of a key has."""

    counts: tuple[int, ...]

    @staticmethod
    def of(keys: pa.Table) -> Layout | None:
        """That of the keys of an index; None if a text is too long."""
        longest = [
            (pc.max(pc.binary_length(column)).as_py() or 0) if _is_text(column.type) else 0 for column in keys.columns
        ]
        return None if max(longest) > LONGEST else Layout(tuple(length // WORD + 1 for length in longest))

    def words(self, keys: Sequence[pa.Array]) -> list[Words]:
        """The words of keys, none of which has more than the keys of the index."""
        return [
            word
            for column, count in zip(keys, self.counts, strict=True)
            for word in (_of_texts(column, count) if _is_text(column.type) else [_of_values(column)])
        ]


def width_of(values: pa.Array) -> int | None:
    """How many words values need; None if a text is too long."""
    if not len(values) or not _is_text(values.type):
        return 1
    ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    longest = int((ends[1:] - ends[:-1]).max())
    return None if longest > LONGEST else longest // WORD + 1


def complete(keys: Sequence[pa.Array]) -> Mask | None:
    """Which rows have no NULL in their key; None if all."""
    valid: Mask | None = None
    for column in keys:
        if column.null_count:
            own: Mask = pc.is_valid(column).to_numpy(zero_copy_only=False)
            valid = own if valid is None else valid & own
    return valid


def _of_values(column: pa.Array) -> Words:
    kind = column.type
    if not len(column):
        return np.zeros(0, np.uint64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not pa.types.is_integer(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    numbers = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())
    numbers = numbers[column.offset : column.offset + len(column)]
    return numbers.astype(np.uint64) if numbers.dtype.kind == "u" else numbers.astype(np.int64).view(np.uint64)


def _of_texts(column: pa.Array, count: int) -> list[Words]:
    if not len(column):
        return [np.zeros(0, np.uint64) for _ in range(count)]
    _, places, content = column.buffers()
    begins = np.frombuffer(places, np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(content if content is not None else b"", np.uint8)
    lengths = np.diff(begins)
    length = int(lengths[0])
    if bool((lengths == length).all()):
        return _of_equal_lengths(data, int(begins[0]), length, len(lengths), count)
    return _of_lengths(data, begins[:-1].astype(np.int64), lengths, count)


def _of_equal_lengths(data: npt.NDArray[np.uint8], first: int, length: int, rows: int, count: int) -> list[Words]:
    """Texts of one length lie at equal distances, so nothing is looked up."""
    found = []
    for at in range(0, count * WORD, WORD):
        kept = min(max(length - at, 0), WORD)
        word = np.zeros(rows, np.uint64)
        if kept:
            # The last ones end where the data does: there are not eight bytes to load.
            whole = min(rows, max(0, (len(data) - first - at - WORD) // length + 1))
            word[:whole] = strided(data, first + at, length, whole)
            rest = np.arange(whole, rows) * length + first + at
            word[whole:] = loaded(tail(data, int(rest[0])), rest - rest[0]) if len(rest) else 0
            if kept < WORD:
                word &= KEPT[kept]
        found.append(word)
    found[-1] |= np.uint64((length if length < count * WORD else TOO_LONG) << 56)
    return found


def _of_lengths(data: npt.NDArray[np.uint8], begins: Any, lengths: Any, count: int) -> list[Words]:
    found = []
    for at in range(0, count * WORD, WORD):
        kept = np.clip(lengths - at, 0, WORD)
        places = begins + at
        safe = int(np.searchsorted(begins, len(data) - WORD - at, side="right"))
        word = np.empty(len(begins), np.uint64)
        word[:safe] = loaded(data, places[:safe])
        if safe < len(begins):
            start = max(0, len(data) - WORD)
            rest = tail(data, start)
            word[safe:] = loaded(rest, np.minimum(places[safe:] - start, len(rest) - WORD))
        word &= KEPT[kept]
        found.append(word)
    known = np.where(lengths < count * WORD, lengths, TOO_LONG).astype(np.uint64)
    # A word that a longer text fills to its last byte gets no length that a text of the index could have.
    found[-1] &= KEPT[WORD - 1]
    found[-1] |= known << np.uint64(56)
    return found


def strided(data: npt.NDArray[np.uint8], first: int, distance: int, rows: int) -> Words:
    """The eight bytes from places on that lie at equal distances."""
    return np.ndarray((rows,), np.dtype("<u8"), data, first, (distance,)) if rows else np.zeros(0, np.uint64)


def loaded(data: npt.NDArray[np.uint8], places: Any) -> Words:
    """The eight bytes from each place on."""
    if not len(places):
        return np.zeros(0, np.uint64)
    found: Words = np.ndarray((len(data) - WORD + 1,), np.dtype("<u8"), data, 0, (1,))[places]
    return found


def tail(data: npt.NDArray[np.uint8], start: int) -> npt.NDArray[np.uint8]:
    """The data from a place on, with room for a word behind its end."""
    return np.append(data[start:], np.zeros(2 * WORD, np.uint8))
