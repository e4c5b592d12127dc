"""An index over keys: made once, asked as often as there are trains.

Neither Arrow nor DuckDB has a hash table that stays, so each makes one for every query. This one is arrays of numpy:

```
 hash of the words ─> heads[...] ─> a key ─> are its words those that are looked for?
                                     └────── no: the next key with this place, if there is one
```

Where one integer is the key, and the values are dense, its place is plain arithmetic and nothing is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import group_numbers
from penstock.operators.key_words import Layout, Words, complete, has_words

NONE: Final = -1
"""The number of no key, and of no row."""
DENSE: Final = 4
"""Places to a key, at most, where a value is its own place."""
ROOM: Final = 4
"""Places to a key, at least, where a hash says the place: about one of eight keys has to wait for another then."""
MOST_AT_A_PLACE: Final = 16
"""Keys with one place. Hashes that are any good do not come near: with more, somebody has chosen the keys so."""
BLOCK: Final = 1 << 15
"""Keys looked up at a time: what is made of them on the way stays in the cache of a core, which saves a third."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)

Places = npt.NDArray[np.int32]


class _Search(Protocol):
    def find(self, words: list[Words]) -> Places:
        """The number of the key with these words; `NONE` where there is none."""


class _Direct:
    """One integer, whose values are dense."""

    def __init__(self, words: Words, least: np.uint64, span: int) -> None:
        self._least, self._span = least, np.uint64(span)
        self._keys = np.full(span + 1, NONE, np.int32)
        self._keys[(words - least).astype(np.int64)] = np.arange(len(words))

    def find(self, words: list[Words]) -> Places:
        # Values below the least come out as very large ones.
        found: Places = self._keys.take(np.minimum(words[0] - self._least, self._span).astype(np.int64))
        return found


class _Hashed:
    """Any keys."""

    def __init__(self, words: list[Words]) -> None:
        count = len(words[0])
        bits = max(1, (ROOM * count - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._words = words
        places = self._places(words)
        order = np.argsort(places, kind="stable").astype(np.int32)
        ordered = places[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        self.most = int(np.diff(first, append=count).max())
        self._heads = np.full(1 << bits, NONE, np.int32)
        self._heads[ordered[first]] = order[first]
        self._next = np.full(count, NONE, np.int32)
        follows = np.flatnonzero(ordered[1:] == ordered[:-1])
        self._next[order[follows]] = order[follows + 1]

    def _places(self, words: list[Words]) -> Numbers:
        return (hashes(words) >> self._shift).astype(np.int64)

    def find(self, words: list[Words]) -> Places:
        found = self._heads.take(self._places(words))
        # What has no key compares itself with the last one, and is no key whatever comes of it.
        wrong = np.flatnonzero(~self._same(found, words))
        while len(wrong):
            candidates = found[wrong]
            following = np.where(candidates == NONE, np.int32(NONE), self._next[candidates])
            found[wrong] = following
            wrong, following = wrong[following != NONE], following[following != NONE]
            wrong = wrong[~self._same(following, [word[wrong] for word in words])]
        return found

    def _same(self, keys: Places, words: list[Words]) -> Mask:
        places = keys.astype(np.int64)  # numpy takes from places of this type without a copy of its own
        same: Mask = self._words[0].take(places) == words[0]
        for known, word in zip(self._words[1:], words[1:], strict=True):
            same &= known.take(places) == word
        return same


def hashes(words: list[Words]) -> Words:
    """A hash of each row's words; its high bits are the best."""
    mixed = words[0] * _MIX
    for word in words[1:]:
        mixed ^= mixed >> _HALF
        mixed ^= word
        mixed *= _MIX
    mixed ^= mixed >> _HALF
    mixed *= _MIX
    return mixed


@dataclass(frozen=True)
class KeyIndex:
    """The rows of a table by their keys; rows with a NULL in their key are left out."""

    layout: Layout
    search: _Search
    rows: Numbers
    """All rows, those of a key together, in their order."""
    first: Numbers | None
    """Where the rows of each key begin, and where the last ones end; None if every key has one row."""

    @staticmethod
    def of(keys: pa.Table) -> KeyIndex | None:
        """None if the keys are not for an index: of another type, too long, or with hashes that are all alike."""
        if not keys.num_columns or not all(map(has_words, keys.schema.types)):
            return None
        whole = [pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type) for column in keys]
        valid, rows = complete(whole), np.arange(keys.num_rows)
        if valid is not None:
            rows = np.flatnonzero(valid)
            whole = [column.take(pa.array(rows)) for column in whole]
        if not len(rows) or keys.num_rows >= np.iinfo(np.int32).max:
            return None
        present = pa.table(whole, names=keys.column_names)
        if (layout := Layout.of(present)) is None:
            return None
        first_row, rows, first = _by_key(group_numbers(present, present.column_names), rows)
        whole = whole if first is None else [column.take(pa.array(first_row)) for column in whole]
        search = _search(whole, layout.words(whole))
        return None if search is None else KeyIndex(layout, search, rows, first)

    def find(self, keys: list[pa.Array]) -> Places:
        """The number of each row's key; `NONE` where it is not known."""
        rows = len(keys[0])
        found = np.empty(rows, np.int32)
        for start in range(0, rows, BLOCK):
            block = [column.slice(start, BLOCK) for column in keys]
            found[start : start + BLOCK] = self.search.find(self.layout.words(block))
        if (valid := complete(keys)) is not None:
            found[~valid] = NONE
        return found


def _by_key(numbers: Numbers, rows: Numbers) -> tuple[Numbers, Numbers, Numbers | None]:
    """For each key the place of its first row; then the rows of the table by key, and where those of each begin."""
    count = int(numbers.max()) + 1
    if count == len(numbers):
        return numbers, rows, None
    order = np.argsort(numbers, kind="stable")
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=count))
    return order[first[:-1]], rows[order], first


def _search(keys: list[pa.Array], words: list[Words]) -> _Search | None:
    if len(words) == 1 and pa.types.is_integer(keys[0].type):
        values = words[0] if pa.types.is_unsigned_integer(keys[0].type) else words[0].view(np.int64)
        span = int(values.max()) - int(values.min()) + 1
        if span <= DENSE * len(values):
            return _Direct(words[0], words[0][int(values.argmin())], span)
    hashed = _Hashed(words)
    return hashed if hashed.most <= MOST_AT_A_PLACE else None
