"""A vocabulary: values that a process has met, each with a number, so that what follows compares numbers.

```
 "host-000123.example" ─> words ─> number 4711          a number is this process's own affair
 rank 4711 of those known now: by hash, the same order wherever the same values are compared
```

To look a value up costs the same however many are known, and those that come are added, which no hash table of Arrow or
DuckDB allows. It is a memory and nothing else: who has none, or another one, gets the same answers, only later. Words
that are there are compared, never hashes alone. Threads share it: who adds has the lock; who looks up needs none, for
an entry is found only once it is written, and an array that has become too small is replaced, not changed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.operators.arrays import Mask, Numbers
from penstock.operators.key_index import BLOCK, MOST_AT_A_PLACE, NONE, ROOM, Places, hashes
from penstock.operators.key_words import Layout, Words, width_of

MOST_VALUES: Final = 1 << 20
"""Values of a vocabulary that somebody begins a train with: with more, many of them are of no use any more."""
FIRST_ROOM: Final = 1 << 12
SNAPSHOTS: Final = 4
"""Ordered vocabularies whose entries are recognized: trains of a few threads are on their way at a time."""
_FOLD: Final = np.uint64(29)
_FACTORS: Final = np.array([0xD6E8FEB86659FD93, *(0x9E3779B97F4A7C15 + 2 * n * n for n in range(1, 9))], np.uint64)
"""Odd numbers, for the length of a value and for each of its words."""
_LENGTH: Final = np.uint64(56)
_TEXT: Final = np.uint64((1 << 56) - 1)


@dataclass(frozen=True)
class Ordered:
    """The values of a vocabulary by rank, an order that depends on the values alone."""

    entries: pa.Array
    numbers: Places
    """The number of each entry."""
    ranks: Places
    """The rank of each number."""


class Vocabulary:
    """The values of one type."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._table = _Table(1, FIRST_ROOM)
        self._entries: list[pa.Array] = []
        self._ordered: deque[Ordered] = deque(maxlen=SNAPSHOTS)

    def __len__(self) -> int:
        return self._table.count

    def numbers(self, values: pa.Array) -> Places | None:
        """The number of every value, none of them NULL; those that are new get one. None if that does not pay: a text
        is too long, or hashes are so alike that somebody must have chosen the values so.

        >>> Vocabulary(pa.string()).numbers(pa.array(["x", "y", "x"])).tolist()
        [0, 1, 0]
        """
        found = np.empty(len(values), np.int32)
        for start in range(0, len(values), BLOCK):
            block = values.slice(start, BLOCK)
            if (own := self._numbers(block)) is None:
                return None
            found[start : start + BLOCK] = own
        return found

    def ordered(self) -> Ordered:
        """All values that are known now, by rank."""
        with self._lock:
            if not self._ordered or len(self._ordered[-1].numbers) != self._table.count:
                order = self._table.order()
                ranks = np.empty(len(order), np.int32)
                ranks[order] = np.arange(len(order), dtype=np.int32)
                self._entries = [pa.concat_arrays([pa.array([], self._kind), *self._entries])]
                entries = self._entries[0].take(pa.array(order))
                self._ordered.append(Ordered(entries, order.astype(np.int32), ranks))
            return self._ordered[-1]

    def numbers_of_entries(self, entries: pa.Array) -> Places | None:
        """The same as `numbers`, where values may be entries that this vocabulary has given away itself."""
        for known in list(self._ordered):
            if _same_memory(known.entries, entries):
                return known.numbers
        return self.numbers(entries)

    def _numbers(self, values: pa.Array) -> Places | None:
        width = width_of(values)
        if width is None:
            return None
        if width > self._table.width:
            with self._lock:
                self._widen(width)
        table = self._table
        found = table.find(table.words(values))
        missing = np.flatnonzero(found == NONE)
        if len(missing):
            with self._lock:
                added = self._added(values.take(pa.array(missing)))
            if added is None:
                return None
            found[missing] = added
        return found

    def _added(self, values: pa.Array) -> Places | None:
        """The numbers of values of which few are known, if any."""
        found, left = np.empty(len(values), np.int32), np.arange(len(values))
        words = self._table.words(values)
        # A round adds one value for each place that is asked for, so a few do for all.
        for _ in range(MOST_AT_A_PLACE + 1):
            own = [word[left] for word in words]
            known = self._table.find(own)
            found[left] = known
            new = np.flatnonzero(known == NONE)
            if not len(new):
                return found
            left, own = left[new], [word[new] for word in own]
            if self._table.count + len(left) > self._table.room:
                self._table = self._table.resized(self._table.width, 2 * (self._table.count + len(left)))
            first = self._table.first_of_places(own)
            self._table.add([word[first] for word in own])
            self._entries.append(values.take(pa.array(left[first])))
            if self._table.deepest > MOST_AT_A_PLACE:
                return None
        return None

    def _widen(self, width: int) -> None:
        if width > self._table.width:
            self._table = self._table.resized(width, self._table.room)


class _Table:
    """Words by number, and where to look for them: a place has a chain of numbers, the latest first."""

    def __init__(self, width: int, room: int) -> None:
        self.width = width
        self.room = room
        self.count = 0
        self.deepest = 0
        """Numbers in the longest chain."""
        bits = max(1, (ROOM * room - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._layout = Layout((width,))
        self._words = [np.zeros(room, np.uint64) for _ in range(width)]
        self._alike = [True] * width
        """Whether all values agree in a word, as in the end of a name: then it is compared, but not looked up. It is
        said of a value before it can be found."""
        self._heads = np.full(1 << bits, NONE, np.int32)
        self._next = np.full(room, NONE, np.int32)
        self._depths = np.zeros(1 << bits, np.uint8)

    def words(self, values: pa.Array) -> list[Words]:
        return self._layout.words([values])

    def find(self, words: list[Words]) -> Places:
        found = self._heads.take(self._places(words))
        # What has no key compares itself with the last one, and is no key whatever comes of it.
        wrong = np.flatnonzero(~self._same(found, words))
        while len(wrong):
            following = np.where(found[wrong] == NONE, np.int32(NONE), self._next[found[wrong]])
            found[wrong] = following
            wrong, following = wrong[following != NONE], following[following != NONE]
            wrong = wrong[~self._same(following, [word[wrong] for word in words])]
        return found

    def first_of_places(self, words: list[Words]) -> Numbers:
        """One of the rows of each place."""
        first: Numbers = np.unique(self._places(words), return_index=True)[1]
        return first

    def add(self, words: list[Words]) -> None:
        """Add values that are not known, with places that differ."""
        places, fresh = self._places(words), slice(self.count, self.count + len(words[0]))
        for at, (known, word) in enumerate(zip(self._words, words, strict=True)):
            known[fresh] = word
            self._alike[at] = self._alike[at] and bool((word == known[0]).all())
        self._next[fresh] = self._heads[places]
        self._heads[places] = np.arange(fresh.start, fresh.stop, dtype=np.int32)
        self._depths[places] += 1
        self.deepest = max(self.deepest, int(self._depths[places].max(initial=0)))
        self.count = fresh.stop

    def resized(self, width: int, room: int) -> _Table:
        """The same values with the same numbers, in a table with room for more or for longer ones."""
        made = _Table(width, room)
        if not self.count:
            return made
        words = [word[: self.count] for word in self._words]
        if width > self.width:
            # The length stands in the last byte of the last word, wherever that is.
            lengths = words[-1] & ~_TEXT
            nothing = np.zeros(self.count, np.uint64)
            words = [*words[:-1], words[-1] & _TEXT, *[nothing] * (width - self.width - 1), lengths]
        made._words = [np.append(word, np.zeros(room - self.count, np.uint64)) for word in words]
        made._alike = [bool((word == word[0]).all()) for word in words]
        places = made._places(words)
        order = np.argsort(places, kind="stable").astype(np.int32)
        ordered = places[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        made._heads[ordered[first]] = order[first]
        follows = np.flatnonzero(ordered[1:] == ordered[:-1])
        made._next[order[follows]] = order[follows + 1]
        depths = np.diff(first, append=self.count)
        made._depths[ordered[first]] = np.minimum(depths, np.iinfo(np.uint8).max)
        made.deepest, made.count = int(depths.max()), self.count
        return made

    def order(self) -> Numbers:
        """All numbers in an order that depends on the values alone, and not on how many words they have."""
        words = [word[: self.count] for word in self._words]
        mixed = hashes([_folded(words)])
        order = np.argsort(mixed)
        ordered = mixed[order]
        # Whoever has the same hash as another follows him by his words.
        return np.lexsort([*words, mixed]) if bool((ordered[1:] == ordered[:-1]).any()) else order

    def _places(self, words: list[Words]) -> Numbers:
        return (hashes(words) >> self._shift).astype(np.int64)

    def _same(self, numbers: Places, words: list[Words]) -> Mask:
        places = numbers.astype(np.int64)  # numpy takes from places of this type without a copy of its own
        same: Mask = np.ones(len(places), np.bool_)
        for known, alike, word in zip(self._words, self._alike, words, strict=True):
            same &= (known[0] if alike else known.take(places)) == word
        return same


def _folded(words: list[Words]) -> Words:
    """The words of each value made one, to which words of nothing but zeros add nothing."""
    folded: Words = (words[-1] >> _LENGTH) * _FACTORS[0]
    for word, factor in zip([*words[:-1], words[-1] & _TEXT], _FACTORS[1:], strict=False):
        folded += ((word ^ (word >> _FOLD)) * factor).astype(np.uint64)
    return folded


def _same_memory(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are the same place in memory, of which one is known to be kept."""
    if len(one) != len(other) or one.offset != other.offset or one.type != other.type:
        return False
    where = [[_place(buffer) for buffer in array.buffers()] for array in (one, other)]
    return bool(where[0] == where[1])


def _place(buffer: pa.Buffer | None) -> tuple[int, int] | None:
    return None if buffer is None else (buffer.address, buffer.size)


# A forked worker must use neither its parent's locks nor what its threads were about to write.
_vocabularies: dict[tuple[int, pa.DataType], Vocabulary] = {}


def vocabulary(kind: pa.DataType) -> Vocabulary:
    """That of this process for values of a type."""
    key = (os.getpid(), kind)
    known = _vocabularies.get(key)
    return known if known is not None else _vocabularies.setdefault(key, Vocabulary(kind))


def vocabulary_with_room(kind: pa.DataType) -> Vocabulary:
    """The same for whoever is about to add values: one that has grown large is given up for an empty one."""
    known = vocabulary(kind)
    if len(known) > MOST_VALUES:
        known = _vocabularies[(os.getpid(), kind)] = Vocabulary(kind)
    return known
