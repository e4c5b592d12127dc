"""A direct-mapped table of partial aggregates (oop.md 6, heartbeat.md 4.4): a group has one place, by its hash.

A row that finds its own group and pane in its place is merged there; otherwise it takes the place, and the occupant is
ejected. A batch is placed as a whole, with the same outcome as row by row: rows are sorted by place and arrival, the
occupant first; neighbours of the same pane and group merge, the last one in a place stays, all others leave.

The table is kept in slots of `SLOT_PLACES` places each; those that a batch does not change are not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra import kernel
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.kernel import quote
from penstock.algebra.lowlevel import LowLevel
from penstock.operators.base import Slots
from penstock.operators.bubble import group_numbers
from penstock.operators.subaggregate import PANE

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

ENTRIES = "entries"
PLACE = "#place"
RUN = "#run"
SLOT_PLACES = 65_536
"""Places of one slot. Hashes spread a batch over all slots, so smaller ones would save little but for tiny batches."""


class DirectTable:
    """The table of one bucket, during one batch."""

    def __init__(self, box: LowLevel, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._changed: set[int] = set()
        merges = (*box.aggregation.counted_merges, (ARRIVED, f"min({quote(ARRIVED)})"))
        self._values = [name for name, _ in merges]
        merged = "".join(f", {sql} AS {quote(name)}" for name, sql in merges)
        self._merge = f"SELECT {quote(RUN)}{merged} FROM tuples GROUP BY {quote(RUN)}"
        self._parts = {n: pa.concat_tables(slots.chunks(n, ENTRIES)) for n in slots.numbers() if n >= 0}
        """The entries of every slot that has any."""

    def places(self) -> Numbers:
        """The place of every entry, slot by slot."""
        return self._numbers(PLACE)

    @property
    def panes(self) -> Numbers:
        """The pane of every entry, in the same order."""
        return self._numbers(PANE)

    def place(self, arrived: pa.Table) -> pa.Table:
        """Put partial aggregates into the table, in their order; what is ejected, by place and order."""
        arrived = arrived.select([PANE, *self._box.by, *self._values])
        places = self._hashed(arrived)
        touched = np.zeros(self._box.table, np.bool_)
        touched[places] = True
        slots = np.unique(places // SLOT_PLACES).tolist()
        runs, stays = self._runs(
            pa.concat_tables([*self._vacated(slots, touched), arrived.add_column(0, PLACE, pa.array(places))])
        )
        staying = runs.filter(pa.array(stays))
        cuts = np.searchsorted(staying.column(PLACE).to_numpy(), [*(n * SLOT_PLACES for n in slots), self._box.table])
        for slot, (start, end) in zip(slots, pairwise(cuts.tolist()), strict=True):
            own = [self._parts[slot]] if slot in self._parts else []
            self._parts[slot] = pa.concat_tables([*own, staying.slice(start, end - start)])
        self._changed.update(slots)
        return runs.filter(pa.array(~stays))

    def remove(self, leaving: Mask) -> list[pa.Table]:
        """Take entries out, slot by slot."""
        gone, at = [], 0
        for slot, part in sorted(self._parts.items()):
            own = leaving[at : at + part.num_rows]
            at += part.num_rows
            if own.any():
                gone.append(part.filter(pa.array(own)))
                self._parts[slot] = part.filter(pa.array(~own))
                self._changed.add(slot)
        return gone

    def save(self) -> None:
        """Write the slots that have changed."""
        for slot in sorted(self._changed):
            if self._parts[slot].num_rows:
                self._slots.replace(slot, ENTRIES, self._parts[slot].combine_chunks())
            else:
                self._slots.drop(slot)
        self._changed.clear()

    def _vacated(self, slots: Sequence[int], touched: Mask) -> list[pa.Table]:
        """The occupants of places that are touched, which are taken out of their slots."""
        occupants = []
        for slot in (n for n in slots if n in self._parts):
            part = self._parts[slot]
            met = touched[part.column(PLACE).to_numpy()]
            if met.any():
                occupants.append(part.filter(pa.array(met)))
                self._parts[slot] = part.filter(pa.array(~met))
        return occupants

    def _numbers(self, name: str) -> Numbers:
        parts = [part.column(name).to_numpy() for _, part in sorted(self._parts.items())]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def _hashed(self, rows: pa.Table) -> Numbers:
        """The place of every row's group."""
        by = self._box.by
        if not by:
            return np.zeros(rows.num_rows, np.int64)
        # Buckets take the low bits of the same hash.
        sql = f"SELECT CAST((hash({', '.join(map(quote, by))}) >> 32) % {self._box.table} AS BIGINT) AS place FROM rows"
        found: Numbers = kernel.run(sql, rows=rows.select(by)).column("place").to_numpy()
        return found

    def _runs(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        """Neighbours in a place merged, by place and arrival; and which of them are the last in their place."""
        places, count = rows.column(PLACE).to_numpy(), rows.num_rows
        order = _stable_order(places)
        ends = np.ones(count, np.bool_)
        ends[:-1] = ~self._same(rows, order)
        starts = np.concatenate(([True], ends[:-1]))
        firsts = order[starts]
        of_run = places[firsts]
        stays = np.concatenate((of_run[1:] != of_run[:-1], [True]))
        taken = rows.take(pa.array(firsts))
        if len(firsts) == count:
            return taken, stays
        run = np.cumsum(starts) - 1
        several = np.bincount(run) > 1
        shared = several[run]
        numbered = rows.select(self._values).take(pa.array(order[shared])).append_column(RUN, pa.array(run[shared]))
        merged = kernel.run(self._merge, tuples=numbered)
        # A run of one row is merged already: its values stand where those of longer runs are put in between.
        where = np.arange(len(firsts))
        where[merged.column(RUN).to_numpy()] = len(firsts) + np.arange(merged.num_rows)
        values = pa.concat_tables([taken.select(self._values), merged.drop_columns([RUN])]).take(pa.array(where))
        keys = taken.select([PLACE, PANE, *self._box.by])
        return pa.table([*keys.columns, *values.columns], schema=rows.schema), stays

    def _same(self, rows: pa.Table, order: Numbers) -> Mask:
        """Whether rows in that order have the place, pane and group of the one after them."""
        places, panes = (rows.column(name).to_numpy()[order] for name in (PLACE, PANE))
        same: Mask = (places[1:] == places[:-1]) & (panes[1:] == panes[:-1])
        for name in self._box.by:
            if not same.any():
                break
            same &= _equal_neighbours(rows, name, order)
        return same


def _equal_neighbours(rows: pa.Table, name: str, order: Numbers) -> Mask:
    """Whether the values of a column, in that order, are equal to those after them; NULLs are equal."""
    column = rows.column(name)
    if pa.types.is_integer(column.type) and not column.null_count:
        plain = column.to_numpy()[order]
        return np.asarray(plain[1:] == plain[:-1])
    codes = group_numbers(rows, [name])[order]
    return np.asarray(codes[1:] == codes[:-1])


def _stable_order(places: Numbers) -> Numbers:
    """Rows by place, those of one place in their order. Sorting packed numbers is several times as fast as argsort."""
    bits = max(len(places) - 1, 1).bit_length()
    packed = (places << bits) | np.arange(len(places))
    packed.sort()
    return packed & ((1 << bits) - 1)


def latest_pane(rows: Sequence[pa.Table]) -> int | None:
    """The latest pane among rows, if there are any."""
    found = [pc.max(table.column(PANE)).as_py() for table in rows if table.num_rows]
    return max(found, default=None)
