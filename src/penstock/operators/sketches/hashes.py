"""Values as hashes of 64 bits that are the same on every machine, in every version and however values are cut.

```
 a number, a date, a time        one word, mixed
 a text of up to 64 bytes        its length, and its words one after the other
 a longer text                   its words mixed each with its place, and added up
```

Values that are equal have the same hash: both zeros of a float, all its NaNs, a text and its code. Sketches that lie in
checkpoints are made of these hashes, so nothing here may ever change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.arrays import Numbers, ranged
from penstock.operators.key_words import KEPT, WORD, Words, loaded, strided, tail

_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xBF58476D1CE4E5B9)
_THIRD: Final = np.uint64(0x94D049BB133111EB)
"""Odd numbers without a pattern: those of splitmix64."""
_HALF: Final = np.uint64(32)
_LESS: Final = np.uint64(29)
BLOCK: Final = 32_768
"""Values that are hashed at once: what is computed of them stays in the caches."""
LONG: Final = 64
"""Bytes of a text from which on its words are added up, all at once. Shorter ones take a step for each word."""
_LONG_WORDS: Final = 32_768
"""Words of long texts that are hashed at once. With a million, texts of 100 bytes take three times as long."""
_NAN: Final = np.uint64(0x7FF8000000000000)


def hashes(values: pa.ChunkedArray | pa.Array) -> Words:
    """The hash of every value; that of a NULL says nothing.

    >>> [hex(n) for n in hashes(pa.array([0, 1])).tolist()]
    ['0xabaef1397ad70ba2', '0x8d275e1c64a667f9']
    >>> bool(hashes(pa.array([-0.0]))[0] == hashes(pa.array([0.0], pa.float32()))[0])
    True
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    found = [_of_chunk(chunk) for chunk in chunks]
    return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.uint64), *found])


def _of_chunk(column: pa.Array) -> Words:
    if not len(column):
        return np.zeros(0, np.uint64)
    if pa.types.is_dictionary(column.type):
        codes = column.indices.fill_null(0) if column.indices.null_count else column.indices
        entries = _of_chunk(column.dictionary)
        return entries[codes.to_numpy()] if len(entries) else np.zeros(len(column), np.uint64)
    found = np.empty(len(column), np.uint64)
    for at, mixed in _mixed(column):
        np.copyto(found[at : at + len(mixed)], mixed)
    return found


def _mixed(column: pa.Array) -> Iterator[tuple[int, Words]]:
    """Blocks of hashes, and where they begin."""
    words = _words(column) if _has_words(column.type) else None
    texts = _Texts(column) if words is None else None
    for at in range(0, len(column), BLOCK):
        if texts is not None:
            yield at, texts.hashes(at, min(at + BLOCK, len(column)))
        elif words is not None:
            hashed = np.full(min(BLOCK, len(column) - at), _THIRD)
            for word in words:
                _absorb(hashed, word[at : at + BLOCK])
            yield at, _finished(hashed)


def _absorb(hashed: Words, words: Words) -> None:
    """Mix one more word into hashes."""
    hashed ^= words
    hashed *= _FIRST
    hashed ^= hashed >> _HALF


def _finished(hashed: Words) -> Words:
    """Every bit depends on every other."""
    hashed *= _SECOND
    hashed ^= hashed >> _LESS
    hashed *= _THIRD
    hashed ^= hashed >> _HALF
    return hashed


def _has_words(kind: pa.DataType) -> bool:
    """Whether all values of a type have the same number of words."""
    numbers = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating, pa.types.is_decimal)
    return any(of(kind) for of in (*numbers, pa.types.is_temporal))


def _words(column: pa.Array) -> list[Words]:
    """The words of values, as many for each."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return _halves(column)
    if pa.types.is_floating(kind):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # no zero is negative
        return [np.where(np.isnan(numbers), _NAN, numbers.view(np.uint64))]
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not pa.types.is_integer(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    whole: npt.NDArray[Any] = column.fill_null(0).to_numpy()
    return [whole.astype(np.uint64) if whole.dtype.kind == "u" else whole.astype(np.int64).view(np.uint64)]


def _halves(column: pa.Array) -> list[Words]:
    """Decimals as whole numbers of 128 bits."""
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(38, column.type.scale))
    both = np.frombuffer(column.buffers()[1], np.dtype("<u8"))[2 * column.offset : 2 * (column.offset + len(column))]
    return [both[0::2], both[1::2]]


class _Texts:
    """Texts, or bytes, by their places in a buffer."""

    def __init__(self, column: pa.Array) -> None:
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            column = column.cast(pa.large_binary())
        wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
        _, places, content = column.buffers()
        begins = np.frombuffer(places, np.int64 if wide else np.int32)
        self._places = begins[column.offset : column.offset + len(column) + 1]
        self._data = np.frombuffer(content if content is not None else b"", np.uint8)

    def hashes(self, first: int, behind: int) -> Words:
        places = self._places[first : behind + 1]
        lengths = np.diff(places)
        if bool((lengths == lengths[0]).all()) and lengths[0] <= LONG:
            return self._of_length(int(places[0]), int(lengths[0]), len(lengths))
        begins, lengths = places[:-1].astype(np.int64), lengths.astype(np.int64)
        hashed = _begun(lengths)
        for at in range(0, LONG, WORD):
            own = np.flatnonzero((lengths > at) & (lengths <= LONG))
            if len(own):
                part = hashed[own]
                _absorb(part, self._loaded(begins[own] + at) & KEPT[np.minimum(lengths[own] - at, WORD)])
                hashed[own] = part
        long = np.flatnonzero(lengths > LONG)
        if len(long):
            hashed[long] ^= self._of_long(begins[long], lengths[long])
        return _finished(hashed)

    def _of_length(self, first: int, length: int, rows: int) -> Words:
        """Short texts of one length lie at equal distances, so nothing is looked up."""
        hashed = _begun(np.full(rows, length, np.int64))
        for at in range(0, length, WORD):
            kept = min(length - at, WORD)
            # The last ones end where the data does: there are not eight bytes to load.
            whole = min(rows, max(0, (len(self._data) - first - at - WORD) // length + 1))
            word = strided(self._data, first + at, length, whole)
            if whole < rows:
                rest = np.arange(whole, rows, dtype=np.int64) * length + first + at
                word = np.concatenate([word, self._loaded(rest)])
            _absorb(hashed, word & KEPT[kept] if kept < WORD else word)
        return _finished(hashed)

    def _loaded(self, places: Numbers) -> Words:
        """The eight bytes from each place on; behind the end of the data there is nothing."""
        inside = places <= len(self._data) - WORD
        if inside.all():
            return loaded(self._data, places)
        start = max(0, len(self._data) - 2 * WORD)
        rest = tail(self._data, start)
        found = np.empty(len(places), np.uint64)
        found[inside] = loaded(self._data, places[inside]) if inside.any() else 0
        found[~inside] = loaded(rest, places[~inside] - start)
        return found

    def _of_long(self, begins: Numbers, lengths: Numbers) -> Words:
        """Each word is mixed with its place in the text, so their sum can be taken in any order, and at once."""
        counts = -(-lengths // WORD)
        found = np.empty(len(begins), np.uint64)
        ends = np.cumsum(counts)
        cuts = [0, *(np.searchsorted(ends, np.arange(_LONG_WORDS, ends[-1], _LONG_WORDS)) + 1).tolist(), len(begins)]
        for a, b in pairwise(sorted(set(cuts))):
            texts, numbers = ranged(np.zeros(b - a, np.int64), counts[a:b])
            at = numbers * WORD
            words = self._loaded(begins[a:b][texts] + at) & KEPT[np.minimum(lengths[a:b][texts] - at, WORD)]
            words ^= (numbers + 1).view(np.uint64) * _SECOND
            words *= _FIRST
            words ^= words >> _HALF
            words *= _THIRD
            words ^= words >> _LESS
            found[a:b] = np.add.reduceat(words, np.cumsum(counts[a:b]) - counts[a:b])
        return found


def _begun(lengths: Numbers) -> Words:
    """The hashes of texts before their first words: a text that ends in zeros is another than without them."""
    hashed: Words = (lengths + 1).view(np.uint64) * _SECOND
    hashed ^= hashed >> _HALF
    return hashed
