"""A direct-mapped table of partial aggregates (oop.md 6, heartbeat.md 4.4): a group has one place, by its hash.

A row that finds its own group and pane in its place is merged there; otherwise it takes the place, and the occupant is
ejected. A batch is placed as a whole, with the same outcome as row by row: rows are sorted by place and arrival, the
occupant first; neighbours of the same pane and group merge, the last one in a place stays, all others leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.aggregate.low_level.entries import PLACE, Entries
from penstock.operators.groups import group_numbers
from penstock.operators.protocol import Slots

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

RUN = "#run"
PLAIN_MERGES: Final[dict[str, Callable[..., Any]]] = {
    "CAST(sum({}) AS BIGINT)": np.add.reduceat,
    "min({})": np.minimum.reduceat,
    "max({})": np.maximum.reduceat,
}
"""Merges of whole numbers that need no query; a sum that is cast to BIGINT has room there."""


class DirectTable:
    """The table of one bucket, during one batch."""

    def __init__(self, box: LowLevel, slots: Slots) -> None:
        self._box = box
        self.entries = Entries(slots, box.table)
        self._merges = (*box.aggregation.counted_merges, (ARRIVED, f"min({quote(ARRIVED)})"))
        self._values = [name for name, _ in self._merges]

    def place(self, arrived: pa.Table) -> pa.Table:
        """Put partial aggregates into the table, in their order; what is ejected, by place and order."""
        arrived = arrived.select([PANE, *self._box.by, *self._values])
        places = self._hashed(arrived)
        rows, met = arrived.add_column(0, PLACE, pa.array(places)), self.entries.at(places)
        if len(met):
            rows = pa.concat_tables([self.entries.lift(met), rows])
        runs, stays = self._runs(rows.combine_chunks())
        if stays.all():
            self.entries.put(runs)
            return runs.slice(0, 0)
        self.entries.put(runs.filter(pa.array(stays)))
        return runs.filter(pa.array(~stays))

    def _hashed(self, rows: pa.Table) -> Numbers:
        """The place of every row's group: decided by the types of the keys alone, so that a group stays where it is."""
        by, table = self._box.by, self._box.table
        if not by:
            return np.zeros(rows.num_rows, np.int64)
        if all(pa.types.is_signed_integer(rows.schema.field(name).type) for name in by):
            columns = [rows.column(name) for name in by]
            return _mixed([(c.fill_null(0) if c.null_count else c).to_numpy() for c in columns], table)
        # Buckets take the low bits of the same hash.
        sql = f"SELECT CAST((hash({', '.join(map(quote, by))}) >> 32) % {table} AS BIGINT) AS place FROM rows"
        found: Numbers = kernel.run(sql, rows=rows.select(by)).column("place").to_numpy()
        return found

    def _runs(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        """Neighbours in a place merged, by place and arrival; and which of them are the last in their place."""
        places = rows.column(PLACE).to_numpy()
        order = _stable_order(places)
        starts = np.ones(rows.num_rows, np.bool_)
        starts[1:] = ~self._same(rows, order)
        firsts = order[starts]
        of_run = places[firsts]
        stays = np.concatenate((of_run[1:] != of_run[:-1], [True]))
        if len(firsts) == rows.num_rows:
            return rows.take(pa.array(order)), stays
        keys = rows.select([PLACE, PANE, *self._box.by]).take(pa.array(firsts))
        values = self._merged(rows, order, starts)
        return pa.table([*keys.columns, *values], schema=rows.schema), stays

    def _merged(self, rows: pa.Table, order: Numbers, starts: Mask) -> Sequence[pa.ChunkedArray | pa.Array]:
        """The values of rows in that order, those of a run as one."""
        plain = [_plain_merge(rows.column(name), name, sql) for name, sql in self._merges]
        if all(plain):
            where = np.flatnonzero(starts)
            columns = zip(plain, (rows.column(name) for name in self._values), strict=True)
            return [pa.array(merge(column.to_numpy()[order], where), column.type) for merge, column in columns if merge]
        run = np.cumsum(starts) - 1
        shared = (np.bincount(run) > 1)[run]
        numbered = rows.select(self._values).take(pa.array(order[shared])).append_column(RUN, pa.array(run[shared]))
        merges = "".join(f", {sql} AS {quote(name)}" for name, sql in self._merges)
        merged = kernel.run(f"SELECT {quote(RUN)}{merges} FROM tuples GROUP BY {quote(RUN)}", tuples=numbered)
        # A run of one row is merged already: its values stand where those of longer runs are put in between.
        single = rows.select(self._values).take(pa.array(order[starts]))
        where = np.arange(single.num_rows)
        where[merged.column(RUN).to_numpy()] = single.num_rows + np.arange(merged.num_rows)
        both = pa.concat_tables([single, merged.drop_columns([RUN])])
        return list(both.take(pa.array(where)).columns)

    def _same(self, rows: pa.Table, order: Numbers) -> Mask:
        """Whether rows in that order, but the first, have the place, pane and group of the one before them."""
        places, panes = (rows.column(name).to_numpy()[order] for name in (PLACE, PANE))
        same: Mask = (places[1:] == places[:-1]) & (panes[1:] == panes[:-1])
        for name in self._box.by:
            if not same.any():
                break
            same &= _equal_neighbours(rows, name, order)
        return same


def _equal_neighbours(rows: pa.Table, name: str, order: Numbers) -> Mask:
    """Whether the values of a column, in that order, are equal to those before them; NULLs are equal."""
    column = rows.column(name)
    if pa.types.is_integer(column.type) and not column.null_count:
        plain = column.to_numpy()[order]
        return np.asarray(plain[1:] == plain[:-1])
    codes = group_numbers(rows, [name])[order]
    return np.asarray(codes[1:] == codes[:-1])


def _plain_merge(column: pa.ChunkedArray, name: str, sql: str) -> Callable[..., Any] | None:
    """How numbers are merged without a query, if they can be."""
    plain = pa.types.is_integer(column.type) and not column.null_count
    return PLAIN_MERGES.get(sql.replace(quote(name), "{}").replace(f"({name})", "({})")) if plain else None


def _mixed(keys: Sequence[npt.NDArray[Any]], table: int) -> Numbers:
    """Places for groups of whole numbers, every bit of which counts.

    >>> _mixed([np.arange(5), np.arange(5)], 1000).tolist() == _mixed([np.arange(5), np.arange(5)], 1000).tolist()
    True
    """
    mixed = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        mixed ^= key.astype(np.int64).view(np.uint64)
        for factor, shift in ((0xBF58476D1CE4E5B9, 32), (0x94D049BB133111EB, 29)):
            mixed *= np.uint64(factor)
            mixed ^= mixed >> np.uint64(shift)
    return (mixed % np.uint64(table)).astype(np.int64)


def _stable_order(places: Numbers) -> Numbers:
    """Rows by place, those of one place in their order. Sorting packed numbers is several times as fast as argsort."""
    bits = max(len(places) - 1, 1).bit_length()
    packed = (places << bits) | np.arange(len(places))
    packed.sort()
    return packed & ((1 << bits) - 1)
