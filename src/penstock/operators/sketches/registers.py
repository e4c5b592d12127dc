"""Sketches of sets in rows: made of hashes, merged and read (HyperLogLog; Ertl's estimate).

```
 many values    | 3 | 0 | 1 | 7 | ...  a byte for each of the 2^precision registers
 few            | 0:3 | 2:1 | 3:7      the registers that are not 0, ascending, each with its number
```

A sketch is bytes: whichever of both is shorter, so equal sets have equal bytes. The longer form has just as many bytes
as there are registers, and the other one has fewer. Sketches are merged by the largest value of every register: any
number of times, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.arrays import Numbers
from penstock.operators.key_words import Words

RANK_BITS: Final = 6
"""Bits of a rank in an entry of the short form."""
_RANKS: Final = 1 << RANK_BITS
ZEROS: Final = 32
"""The zeros of a hash are counted in so many of its last bits. Registers come from the first 18 at most."""
_SHORT_ENTRIES: Final = 10
"""The most bits of a register with which it and its rank fit into two bytes."""
_AT_ONCE: Final = 1 << 22
"""Registers, or counts of ranks, that are looked at at once when sketches are read."""
_MOST: Final = float(1 << 62)
"""What is said where every register is at its end, as only made up hashes can bring about."""
_ALPHA: Final = 0.721347520444481703680
"""1 / (2 ln 2)."""


def ranks(hashed: Words) -> npt.NDArray[np.uint8]:
    """One more than the zeros at the end of each hash.

    >>> ranks(np.array([1, 8, 2**40], np.uint64)).tolist()
    [1, 4, 33]
    """
    low = hashed.astype(np.uint32)
    found: npt.NDArray[np.uint8] = np.bitwise_count(~low & (low - np.uint32(1)))
    found += np.uint8(1)
    return found


def registers(hashed: Words, precision: int) -> Numbers:
    """The register of each hash: its first bits."""
    return (hashed >> np.uint64(64 - precision)).view(np.int64)


def entries_of(groups: Numbers, hashed: Words, precision: int) -> Numbers:
    """The entries of values that belong to groups: group, register and rank in one number each."""
    found = groups << precision
    found |= registers(hashed, precision)
    found <<= RANK_BITS
    found |= ranks(hashed)
    return found


def sketches_of(entries: Numbers, count: int, precision: int) -> pa.LargeBinaryArray:
    """The sketch of each of so many groups, by entries in any order."""
    return _Parts(count, precision, _largest(entries)).sketches()


def dense_sketches(table: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """The sketches whose registers are the rows of a table."""
    count, size = table.shape
    precision = size.bit_length() - 1
    filled = np.count_nonzero(table, axis=1)
    dense = _are_dense(filled, precision)
    rows, places = np.nonzero(table[~dense])
    values = table[~dense][rows, places]
    groups = np.flatnonzero(~dense)[rows]
    entries = (((groups << precision) | places) << RANK_BITS) | values
    return _Parts(count, precision, entries, np.flatnonzero(dense), table[dense]).sketches()


def merged(sketches: pa.ChunkedArray, groups: Numbers, count: int, precision: int) -> pa.LargeBinaryArray:
    """Sketches of the same group merged."""
    given = _Given.of(sketches, precision)
    entries = _largest(given.entries(groups))
    of_rows = groups[given.dense]
    if not len(of_rows):
        return _Parts(count, precision, entries).sketches()
    order = np.argsort(of_rows, kind="stable")
    owners, starts = np.unique(of_rows[order], return_index=True)
    table = np.maximum.reduceat(given.rows()[order], starts, axis=0)
    # What few registers say of groups that have all of them goes there.
    place = np.full(count, -1, np.int64)
    place[owners] = np.arange(len(owners))
    at = place[entries >> (precision + RANK_BITS)]
    there = entries[at >= 0]
    cells = (at[at >= 0] << precision) | ((there >> RANK_BITS) & ((1 << precision) - 1))
    flat = table.reshape(-1)
    flat[cells] = np.maximum(flat[cells], (there & (_RANKS - 1)).astype(np.uint8))
    return _Parts(count, precision, entries[at < 0], owners, table).sketches()


def estimates(sketches: pa.ChunkedArray, precision: int) -> Numbers:
    """How many different values each sketch has seen, about."""
    given = _Given.of(sketches, precision)
    found = np.empty(len(given.sizes), np.int64)
    step = max(1, _AT_ONCE >> max(precision, RANK_BITS))
    for at in range(0, len(found), step):
        found[at : at + step] = _estimated(given.only(at, at + step).multiplicities(), precision)
    return found


def _estimated(counts: Numbers, precision: int) -> Numbers:
    """Ertl's improved estimate by how often each rank occurs (arXiv 1702.01284, algorithm 6): right for few values, for
    many and for those between, without tables. Sums, products, quotients and roots only: all machines round them alike.
    """
    size = float(1 << precision)
    sums = size * _tau(1.0 - counts[:, ZEROS + 1] / size)
    for rank in range(ZEROS, 0, -1):
        sums = 0.5 * (sums + counts[:, rank])
    sums += size * _sigma(counts[:, 0] / size)
    found: Numbers = np.rint(_ALPHA * size * size / np.maximum(sums, _ALPHA * size * size / _MOST)).astype(np.int64)
    return found


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x + x^2 + 2 x^4 + 4 x^8 + ...; infinite for 1, where nothing has been seen."""
    found, factor, x = x.copy(), 1.0, np.where(x < 1.0, x, 0.0)
    empty = found == 1.0
    while True:
        x = x * x
        more = found + x * factor
        factor *= 2.0
        if bool((more == found).all()):
            break
        found = more
    found[empty] = np.inf
    return found


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - x - (1 - x^1/2)^2 / 2 - (1 - x^1/4)^2 / 4 - ...) / 3; 0 for 0 and for 1."""
    inside = (x > 0.0) & (x < 1.0)
    x = np.where(inside, x, 1.0)
    found, factor = 1.0 - x, 1.0
    while True:
        x = np.sqrt(x)
        factor *= 0.5
        less = found - (1.0 - x) * (1.0 - x) * factor
        if bool((less == found).all()):
            break
        found = less
    return np.where(inside, found / 3.0, 0.0)


def _largest(entries: Numbers) -> Numbers:
    """The largest rank of each register of each group, in order."""
    entries = np.sort(entries)
    if not len(entries):
        return entries
    about = entries >> RANK_BITS
    last: npt.NDArray[np.bool_] = np.append(about[1:] != about[:-1], True)
    found: Numbers = entries[last]
    return found


def _entry_kind(precision: int) -> np.dtype[Any]:
    return np.dtype("<u2" if precision <= _SHORT_ENTRIES else "<u4")


def _are_dense(filled: Numbers, precision: int) -> npt.NDArray[np.bool_]:
    """For which a byte for each register is not longer than an entry for each that is filled."""
    found: npt.NDArray[np.bool_] = filled * _entry_kind(precision).itemsize >= (1 << precision)
    return found


@dataclass(frozen=True)
class _Given:
    """Sketches as they are given, in one piece of memory."""

    sizes: Numbers
    """In entries of the short form; dense ones have as much room."""
    content: npt.NDArray[Any]
    precision: int

    @staticmethod
    def of(sketches: pa.ChunkedArray, precision: int) -> _Given:
        column = sketches.combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        kind = _entry_kind(precision)
        if not len(column):
            return _Given(np.zeros(0, np.int64), np.zeros(0, kind), precision)
        _, places, content = column.buffers()
        ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(content if content is not None else b"", np.uint8)[ends[0] : ends[-1]]
        return _Given(np.diff(ends) // kind.itemsize, data.view(kind), precision)

    @property
    def dense(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.sizes * self.content.itemsize == (1 << self.precision)
        return found

    def only(self, first: int, behind: int) -> _Given:
        start, sizes = int(self.sizes[:first].sum()), self.sizes[first:behind]
        return _Given(sizes, self.content[start : start + int(sizes.sum())], self.precision)

    def rows(self) -> npt.NDArray[np.uint8]:
        """The registers of the dense ones."""
        return self._of_dense(True).view(np.uint8).reshape(-1, 1 << self.precision)

    def entries(self, groups: Numbers) -> Numbers:
        """What the others hold, with their groups."""
        sparse = ~self.dense
        own = np.repeat(groups[sparse], self.sizes[sparse])
        found: Numbers = self._of_dense(False).astype(np.int64)
        found |= own << (self.precision + RANK_BITS)
        return found

    def multiplicities(self) -> Numbers:
        """How often each rank occurs in each sketch; a register that is not held is 0."""
        count, dense = len(self.sizes), self.dense
        sparse = np.flatnonzero(~dense)
        found = np.zeros((count, _RANKS), np.int64)
        entries = self._of_dense(False) & self.content.dtype.type(_RANKS - 1)
        own = np.repeat(np.arange(len(sparse)), self.sizes[sparse])
        found[sparse] = _counted(own, entries, len(sparse))
        found[sparse, 0] = (1 << self.precision) - self.sizes[sparse]
        rows = self.rows()
        found[dense] = _counted(np.repeat(np.arange(len(rows)), rows.shape[1]), rows.reshape(-1), len(rows))
        return found

    def _of_dense(self, wanted: bool) -> npt.NDArray[Any]:
        """What is held by the dense ones, or by the others."""
        chosen = self.dense == wanted
        found: npt.NDArray[Any] = self.content if chosen.all() else self.content[np.repeat(chosen, self.sizes)]
        return found


def _counted(rows: Numbers, values: npt.NDArray[Any], count: int) -> Numbers:
    found = np.bincount((rows << RANK_BITS) | values, minlength=count << RANK_BITS)
    return found.reshape(count, _RANKS)


@dataclass(frozen=True)
class _Parts:
    """What the sketches of groups are made of: entries in order, and all registers of some groups, ascending."""

    count: int
    precision: int
    entries: Numbers
    owners: Numbers | None = None
    table: npt.NDArray[np.uint8] | None = None

    def sketches(self) -> pa.LargeBinaryArray:
        kind, size = _entry_kind(self.precision), 1 << self.precision
        of_group = np.bincount(self.entries >> (self.precision + RANK_BITS), minlength=self.count)
        full = np.flatnonzero(_are_dense(of_group, self.precision))
        short = (self.entries & ((1 << (self.precision + RANK_BITS)) - 1)).astype(kind)
        owners, table = self.owners, self.table
        if len(full):
            short, owners, table = self._filled(of_group, full, short)
        sizes = of_group.copy()
        dense = np.zeros(self.count, np.bool_)
        if owners is not None and table is not None and len(owners):
            dense[owners] = True
            sizes[owners] = size // kind.itemsize
        content = short
        if dense.any() and table is not None:
            content = np.empty(int(sizes.sum()), kind)
            spread = np.repeat(dense, sizes)
            content[spread] = np.ascontiguousarray(table).view(kind).reshape(-1)
            content[~spread] = short
        ends = np.zeros(self.count + 1, np.int64)
        np.cumsum(sizes * kind.itemsize, out=ends[1:])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(content))]
        return pa.Array.from_buffers(pa.large_binary(), self.count, buffers)

    def _filled(
        self, of_group: Numbers, full: Numbers, short: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], Numbers, npt.NDArray[np.uint8]]:
        """Groups with so many entries that all their registers take no more room get these."""
        place = np.full(self.count, -1, np.int64)
        place[full] = np.arange(len(full))
        at = np.repeat(place, of_group)
        own = short[at >= 0].astype(np.int64)
        table = np.zeros((len(full), 1 << self.precision), np.uint8)
        table.reshape(-1)[(at[at >= 0] << self.precision) | (own >> RANK_BITS)] = own & (_RANKS - 1)
        if self.owners is not None and self.table is not None:
            order = np.argsort(np.append(self.owners, full), kind="stable")
            return short[at < 0], np.append(self.owners, full)[order], np.concatenate([self.table, table])[order]
        return short[at < 0], full, table
