"""Direct-addressed groups: counting and measuring without a hash table, where the keys allow it.

Gigascope's low level uses a direct-mapped table for speed (oop.md 6). Here every value of a key column gets a small
number when it is first seen; as long as the combinations of all columns and panes fit into a table that is not much
larger than the train, a tuple's place in it is plain arithmetic, and its count is one addition; so are other simple
measures (`dense_measures.py`). Tuples are counted as they come, so a train needs no memory beyond the table. Where the
table would be sparse, the caller groups by hashing; on 4 million tuples with 262,144 groups that takes three times as
long (`penstock bench q4`). To number a column is to look its values up, which is only cheap while they are few: one
with many values is left to hashing, too.

Tuples may bring the time of their arrival, as those of a history do. A group has the smallest of its tuples. Tuples
come in order of arrival, so that is the time of the first: it is noted in cells that are new when the time changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.aggregation import Measure
from penstock.boxes.aggregate.dense_measures import Meter, Numbers, Watcher, column_of, meters
from penstock.boxes.aggregate.sketches.entering import Registers

CELLS_PER_TUPLE = 4
"""A sparser table would cost more to search for its filled cells than hashing costs."""
MOST_VALUES = 8192
"""Values of a column that are numbered: with more of them, looking one up costs more than hashing the tuple."""
SAMPLE = 16_384
"""Values of a column that are looked at before it is numbered. Shorter chunks are numbered without a look."""
MOST_IN_SAMPLE = SAMPLE // 4
"""Different values among them. A column with 4,096 values, evenly drawn, has a few less than so many."""
_NEVER = np.iinfo(np.int64).max
"""The time of cells of which it is not noted yet."""


@dataclass(frozen=True)
class Cells:
    """What the cells of a table stand for."""

    first: int
    """The first pane."""
    shape: tuple[int, ...]
    values: tuple[pa.Array, ...]
    """Of each key column, by number."""

    def columns(self, cells: Numbers) -> list[pa.Array]:
        """The pane and the keys of cells."""
        if (every := math.prod(self.shape)) < len(cells):
            return [column.take(pa.array(cells)) for column in self.columns(np.arange(every))]
        pane, *codes = np.unravel_index(cells, self.shape)
        keys = [values.take(pa.array(own)) for values, own in zip(self.values, codes, strict=True)]
        return [pa.array(pane + self.first), *keys]

    def same_places(self, other: Cells) -> bool:
        """Whether a cell stands for the same in both: numbered values keep their numbers."""
        return self.first == other.first and self.shape == other.shape


@dataclass(frozen=True)
class Placed:
    """Tuples in a table."""

    cells: Numbers
    """That of each."""
    table: Cells


class DenseGroups:
    """Counts and measures tuples per (pane, group), in arrays with a dimension for the panes and one for each key."""

    def __init__(
        self, kinds: Sequence[pa.DataType], pane: int, measured: Measured | None = None, *, by_codes: bool = False
    ) -> None:
        self._pane = pane
        self._by_codes = by_codes
        """Whether the codes of a column are the numbers of its values, as in one train they are."""
        self._measured = measured or Measured.of_counts()
        self._values = [pa.array([], kind) for kind in kinds]
        self._first = 0
        self._counts = np.zeros((0,) * (1 + len(kinds)), np.int64)
        self._tuples = 0
        self._arrived: int | None = None
        """When the tuples of the last train arrived, where they say so."""
        self._since = np.full(self._counts.shape, _NEVER)
        self.placed: Placed | None = None
        """Where the tuples that were counted last are."""
        self._cells_per_tuple = CELLS_PER_TUPLE / (1 + sum(meter.arrays for meter in self._measured.meters))

    @staticmethod
    def suits(kinds: Sequence[pa.DataType]) -> bool:
        """Whether values of these types can be numbered."""
        return all(_small_domain(kind) for kind in kinds)

    def add(
        self,
        keys: Sequence[pa.Array],
        ticks: pa.Array,
        arrived: int | None = None,
        tuples: pa.RecordBatch | None = None,
    ) -> bool:
        """Count tuples, all of which arrived at one time, if they bring it; or False, and nothing is counted, if a
        column has many values, the table would be sparse, others have arrived later, or they cannot be measured."""
        if not self._by_codes and not self._tuples and any(map(_has_many_values, keys)):
            return False
        if arrived is not None and self._arrived is not None and arrived < self._arrived:
            return False
        if tuples is not None and not all(meter.takes(tuples) for meter in self._measured.meters):
            return False
        limit = int(self._cells_per_tuple * (self._tuples + len(ticks)))
        places: list[np.ndarray] = []
        values: list[pa.Array] = []
        for known, column in zip(self._values, keys, strict=True):
            coded = self._by_codes and pa.types.is_dictionary(column.type)
            numbered, codes = _with_null(column) if coded else _numbered(known, column, min(limit, MOST_VALUES))
            if codes is None:
                return False
            values.append(numbered)
            places.append(codes)
        panes = np.floor_divide(ticks.to_numpy(), self._pane)
        first, last = int(panes.min()), int(panes.max())
        if self._tuples:
            first, last = min(first, self._first), max(last, self._first + self._counts.shape[0] - 1)
        shape = (last - first + 1, *(len(v) for v in values))
        if math.prod(shape) > limit:
            return False
        if arrived != self._arrived:
            self._note_arrival()
        self._arrived = arrived
        self._grow(first, shape)
        self._values = values
        self._tuples += len(ticks)
        panes -= first
        for codes, size in zip(places, shape[1:], strict=True):
            panes *= size
            panes += codes
        np.add.at(self._counts.reshape(-1), panes, 1)
        if tuples is not None:
            for meter in self._measured.meters:
                meter.add(panes, tuples)
        self.placed = Placed(panes, Cells(self._first, shape, tuple(values)))
        return True

    @property
    def empty(self) -> bool:
        """Whether nothing has been counted yet."""
        return not self._tuples

    def flush(self, names: Sequence[str], arrival: str = "") -> pa.Table | None:
        """What was found so far, with these names for the pane, the keys and the measures, and one for the time of
        arrival, if tuples bring it; sketches have names of their own. None if nothing was counted."""
        if not self._tuples:
            return None
        self._note_arrival()
        filled = np.flatnonzero(self._counts)
        keys = Cells(self._first, self._counts.shape, tuple(self._values)).columns(filled)
        columns = self._measured.found(filled, self._counts.reshape(-1)[filled])
        if self._arrived is not None:
            columns.append(pa.array(self._since.reshape(-1)[filled]))
            names = [*names, arrival]
        self._counts = np.zeros((0,) * self._counts.ndim, np.int64)
        self._since = np.full(self._counts.shape, _NEVER)
        self._tuples, self._arrived, self.placed = 0, None, None
        for name, registers in self._measured.registers:
            columns.append(registers.sketches(filled))
            names = [*names, name]
        return pa.table([*keys, *columns], names=list(names))

    def _note_arrival(self) -> None:
        if self._arrived is not None:
            self._since[(self._counts > 0) & (self._since == _NEVER)] = self._arrived

    def _grow(self, first: int, shape: tuple[int, ...]) -> None:
        if self._tuples and first == self._first and shape == self._counts.shape:
            return
        old = None
        if self._tuples:
            shift = self._first - first
            panes, *sizes = self._counts.shape
            old = (slice(shift, shift + panes), *(slice(size) for size in sizes))
        before = self._counts.shape

        def moved(array: Numbers, fill: int) -> Numbers:
            whole = np.full(shape, fill, np.int64)
            if old is not None:
                whole[old] = array.reshape(before)
            return whole.reshape(-1)

        for meter in self._measured.meters:
            meter.move(moved)
        self._counts, self._since = (moved(a, f).reshape(shape) for a, f in ((self._counts, 0), (self._since, _NEVER)))
        self._first = first


@dataclass(frozen=True)
class Measured:
    """What is found of every group: for each column of it the measure, its meter if it is no count of tuples, and its
    type."""

    columns: tuple[tuple[Measure, Meter | None, pa.DataType], ...]
    registers: Registers = ()

    @staticmethod
    def of_counts() -> Measured:
        return Measured(((Measure("count"), None, pa.int64()),))

    @staticmethod
    def of(
        measures: Sequence[Measure | None], kinds: pa.Schema, partials: pa.Schema, registers: Registers = ()
    ) -> Measured | None:
        """None if something needs SQL."""
        found = meters(measures, kinds, partials)
        if found is None:
            return None
        known = [measure for measure in measures if measure is not None]
        return Measured(tuple(zip(known, found, partials.types, strict=True)), registers)

    @property
    def meters(self) -> list[Watcher]:
        """Each of them once."""
        own: dict[int, Watcher] = {id(meter): meter for _, meter, _ in self.columns if meter is not None}
        return [*own.values(), *(registers for _, registers in self.registers)]

    def found(self, cells: Numbers, counts: Numbers) -> list[pa.Array]:
        return [
            column_of(*(meter.found(measure, cells, counts) if meter is not None else (counts, None)), kind)
            for measure, meter, kind in self.columns
        ]


def _has_many_values(column: pa.Array) -> bool:
    if pa.types.is_dictionary(column.type):
        return len(column.dictionary) > MOST_IN_SAMPLE
    return len(column) >= SAMPLE and len(pc.unique(column.slice(0, SAMPLE))) > MOST_IN_SAMPLE


def _numbered(known: pa.Array, column: pa.Array, limit: int) -> tuple[pa.Array, np.ndarray | None]:
    """The number of every value of a column, and all numbered values; no numbers if there would be too many."""
    if pa.types.is_dictionary(column.type):
        return _codes_numbered(known, column, limit)
    codes = pc.index_in(column, value_set=known)
    if codes.null_count:
        # NULL is a group like any other: once it is among the known values, it has a number too.
        fresh = pc.unique(column.filter(pc.is_null(codes)))
        if len(known) + len(fresh) > limit:
            return known, None
        known = pa.concat_arrays([known, fresh])
        codes = pc.index_in(column, value_set=known)
    return known, codes.to_numpy()


def _codes_numbered(known: pa.Array, column: pa.DictionaryArray, limit: int) -> tuple[pa.Array, np.ndarray | None]:
    """The same where values come as codes: only those of the dictionary are looked up."""
    entries, codes = _with_null(column)
    known, numbers = _numbered(known, entries, limit)
    return known, None if numbers is None else numbers[codes]


def _with_null(column: pa.DictionaryArray) -> tuple[pa.Array, np.ndarray]:
    """The dictionary of a column, with NULL if it is among the values, and the code of every value."""
    entries, codes = column.dictionary, column.indices
    if column.null_count:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
        codes = pc.fill_null(codes, pa.scalar(len(entries) - 1, codes.type))
    return entries, codes.to_numpy()


def _small_domain(kind: pa.DataType) -> bool:
    # Not floats: two zeros and many NaNs are one group, which equality by bits does not know. And only what the
    # kernel hands back in the same type: the next train may be grouped there, and its partials must fit to these.
    plain_time = pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind) or plain_time)
