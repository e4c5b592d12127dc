"""What is measured of the groups of `dense_groups.py`: an array for each measure, with a cell for each pane and group.

Only what needs no more than whole numbers: counts, sums of integers that cannot overflow, the smallest and the largest
integer or time, and the value at the first or the last time. Everything else is left to SQL, which these agree with to
the last bit: NULL is passed over, and what is measured of no tuple at all is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.aggregation import Measure

Numbers: TypeAlias = "np.ndarray[Any, Any]"
Moved: TypeAlias = Callable[[Numbers, int], Numbers]
"""An array in a table of another shape; new cells have a value."""

_MOST: Final = np.iinfo(np.int64).max
_LEAST: Final = np.iinfo(np.int64).min
_FIRST_PART: Final = 16
_WORTH_PARTING: Final = 1024


class Watcher(Protocol):
    """Is shown the tuples of every cell."""

    arrays: int
    """How many arrays it needs."""

    def move(self, moved: Moved) -> None:
        """The table gets another shape."""

    def takes(self, tuples: pa.RecordBatch) -> bool:
        """Whether it can measure these."""

    def add(self, cells: Numbers, tuples: pa.RecordBatch) -> None:
        """Measure tuples, which belong to these cells."""


class Meter(Watcher, Protocol):
    """Measures something of every cell."""

    def found(self, measure: Measure, cells: Numbers, counts: Numbers) -> tuple[Numbers, Numbers | None]:
        """What it has found in cells with so many tuples, and where that is NULL, if anywhere."""


class _OfColumn:
    """Counts where a column is NULL: in most it never is."""

    arrays = 1

    def __init__(self, column: str) -> None:
        self._column = column
        self._nulls = np.zeros(0, np.int64)

    def move(self, moved: Moved) -> None:
        self._nulls = moved(self._nulls, 0)

    def takes(self, tuples: pa.RecordBatch) -> bool:
        return True

    def add(self, cells: Numbers, tuples: pa.RecordBatch) -> None:
        column = tuples.column(self._column)
        if column.null_count:
            np.add.at(self._nulls, cells[pc.is_null(column).to_numpy(zero_copy_only=False)], 1)

    def found(self, measure: Measure, cells: Numbers, counts: Numbers) -> tuple[Numbers, Numbers | None]:
        return counts - self._nulls[cells], None

    def nowhere(self, cells: Numbers, counts: Numbers) -> Numbers | None:
        """Where a column is always NULL, if anywhere."""
        gone = self._nulls[cells] == counts
        return gone if gone.any() else None


class _Folded(_OfColumn):
    """A column folded by an operation that may be done in any order."""

    arrays = 2
    _OPERATIONS: Final[Mapping[str, tuple[np.ufunc, int]]] = {
        "sum": (np.add, 0),
        "min": (np.minimum, _MOST),
        "max": (np.maximum, _LEAST),
    }

    def __init__(self, kind: str, column: str) -> None:
        super().__init__(column)
        self._operation, self._neutral = self._OPERATIONS[kind]
        self._values = np.zeros(0, np.int64)

    def move(self, moved: Moved) -> None:
        super().move(moved)
        self._values = moved(self._values, self._neutral)

    def add(self, cells: Numbers, tuples: pa.RecordBatch) -> None:
        super().add(cells, tuples)
        cells, (values,) = _valid(cells, [tuples.column(self._column)])
        self._operation.at(self._values, cells, values)

    def found(self, measure: Measure, cells: Numbers, counts: Numbers) -> tuple[Numbers, Numbers | None]:
        return self._values[cells], self.nowhere(cells, counts)


class _AtEdge:
    """The least or the greatest value of one column, and the smallest value of another one there."""

    arrays = 3

    def __init__(self, measure: Measure) -> None:
        assert measure.column is not None
        assert measure.by is not None
        self._column, self._by, self._passes_null = measure.column, measure.by, measure.passes_null
        self._operation: np.ufunc = np.minimum if measure.lowest else np.maximum
        self._neutral = _MOST if measure.lowest else _LEAST
        self._edges = self._values = self._passed = np.zeros(0, np.int64)

    def move(self, moved: Moved) -> None:
        self._edges = moved(self._edges, self._neutral)
        self._values = moved(self._values, _MOST)
        self._passed = moved(self._passed, 0)

    def takes(self, tuples: pa.RecordBatch) -> bool:
        return self._passes_null or not tuples.column(self._column).null_count

    def add(self, cells: Numbers, tuples: pa.RecordBatch) -> None:
        columns = [tuples.column(self._by), tuples.column(self._column)]
        if any(column.null_count for column in columns):
            passed = pc.or_(*map(pc.is_null, columns)).to_numpy(zero_copy_only=False)
            np.add.at(self._passed, cells[passed], 1)
        cells, (by, values) = _valid(cells, columns)
        for part in self._in_turn(len(cells)):
            self._take(cells[part], by[part], values[part])

    def _in_turn(self, tuples: int) -> list[slice]:
        """Tuples come in order of time, more or less: who looks for the last takes those at the end first, and then has
        little to do with the others."""
        few = tuples // _FIRST_PART
        if few < _WORTH_PARTING:
            return [slice(None)]
        if self._operation is np.minimum:
            return [slice(few), slice(few, None)]
        return [slice(tuples - few, None), slice(tuples - few)]

    def _take(self, cells: Numbers, by: Numbers, values: Numbers) -> None:
        before = self._edges[cells]
        at_stake = by <= before if self._operation is np.minimum else by >= before
        if 2 * np.count_nonzero(at_stake) < len(cells):  # those that come later are not the first
            cells, by, values, before = cells[at_stake], by[at_stake], values[at_stake], before[at_stake]
        self._operation.at(self._edges, cells, by)
        now = self._edges[cells]
        self._values[cells[before != now]] = _MOST  # those before were at another edge
        there = by == now
        np.minimum.at(self._values, cells[there], values[there])

    def found(self, measure: Measure, cells: Numbers, counts: Numbers) -> tuple[Numbers, Numbers | None]:
        gone = self._passed[cells] == counts
        values = self._edges if measure.kind == "edge" else self._values
        return values[cells], gone if gone.any() else None


def meters(measures: Sequence[Measure | None], kinds: pa.Schema, partials: pa.Schema) -> list[Meter | None] | None:
    """What measures each partial, None for what counts tuples; no list if one of the partials needs SQL."""
    known: dict[tuple[object, ...], Meter] = {}
    found: list[Meter | None] = []
    for measure, partial in zip(measures, partials, strict=True):
        if measure is None or not _simple(measure, kinds, partial.type):
            return None
        if measure.column is None:
            found.append(None)
            continue
        made = _made(measure)
        found.append(known.setdefault(_key(measure), made))
    return found


def column_of(numbers: Numbers, gone: Numbers | None, kind: pa.DataType) -> pa.Array:
    """Whole numbers as a column of a type."""
    values = pa.array(numbers, mask=gone)
    if pa.types.is_timestamp(kind):
        return values.view(kind)
    return values.cast(kind)


def _made(measure: Measure) -> Meter:
    assert measure.column is not None
    if measure.kind == "count":
        return _OfColumn(measure.column)
    return _AtEdge(measure) if measure.by is not None else _Folded(measure.kind, measure.column)


def _key(measure: Measure) -> tuple[object, ...]:
    """Measures of one key are taken by one meter."""
    kind = measure.kind if measure.by is None else "edge"
    return kind, measure.column, measure.by, measure.lowest, measure.passes_null


def _simple(measure: Measure, kinds: pa.Schema, partial: pa.DataType) -> bool:
    """Whether whole numbers of 64 bits are enough, and SQL has no other type for it."""
    if measure.kind == "count":
        return True
    kind = kinds.field(measure.column).type
    if measure.kind == "sum":
        return bool(pa.types.is_integer(kind) and kind.bit_width <= 32)
    about = kinds.field(measure.by).type if measure.kind == "edge" else kind
    return about == partial and all(_whole(kinds.field(name).type) for name in (measure.column, measure.by) if name)


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()))


def _valid(cells: Numbers, columns: Sequence[pa.Array]) -> tuple[Numbers, list[Numbers]]:
    """Cells and values of the tuples that have all values."""
    if any(column.null_count for column in columns):
        valid = pc.is_valid(columns[0])
        for column in columns[1:]:
            valid = pc.and_(valid, pc.is_valid(column))
        cells, columns = cells[valid.to_numpy(zero_copy_only=False)], [column.filter(valid) for column in columns]
    return cells, [_numbers(column) for column in columns]


def _numbers(column: pa.Array) -> Numbers:
    whole = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    numbers: Numbers = whole.to_numpy()
    return numbers.astype(np.int64, copy=False)
