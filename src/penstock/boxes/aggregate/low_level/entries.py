"""The entries of a direct-mapped table, by place, and how they are kept across batches.

A batch adds what it has changed to a log and does not rewrite the table, so that its cost follows its own size.

```
 slots 0, 1, 2 ...     the entries of SLOT_PLACES places each, as they were when the slot was last folded
 slots -3, -4, ...     the log: the entries that a batch has put, and then the places that it has cleared
 slot  -1              how many slots have been folded so far, what is due to the next, how many entries each pane has
```

Slots are folded in turn, a few in every batch: the entries that are valid there are written anew. A piece of the log is
dropped when every slot has been folded since. The pieces of one log slot were added after the same number of folds, so
its number tells when that was. Folding is spread because a table that is rewritten at once would be the very pause that
slow flushes avoid.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import END
from penstock.boxes.aggregate.entry import PANE
from penstock.errors import WorldError
from penstock.operators.protocol import Slots

Numbers: TypeAlias = npt.NDArray[np.int64]

ENTRIES = "entries"
CLEARED = "cleared"
LEDGER = "ledger"
PANES = "panes"
PLACE = "#place"
LEDGER_SLOT = -1
TURN_SLOT = -2
"""Not used here: a flush remembers there where it has come to."""
FIRST_LOG_SLOT = -3
SLOT_PLACES = 65_536
"""Places of one slot: as many entries are written in one go."""
LOG_SHARE = 4
"""The log has about a quarter as many rows as the table has places, however large batches are."""
LOG_PIECES = 32
"""And no more pieces than that, however small."""
SEARCHED = 16
"""Places that are searched first for every entry whose turn it is; then twice as many, and so on."""
MANY = 8
"""More rows than this share of a table are taken out by a mask, and their panes looked up in one array of all."""


class Entries:
    """Rows by place, during one batch. A row is called by its number among all rows that the slots hold."""

    def __init__(self, slots: Slots, places: int) -> None:
        self._slots = slots
        self._places = places
        self._slot_places = min(SLOT_PLACES, places)
        self._count = -(-places // self._slot_places)
        self._tables: list[pa.Table] = []
        self._starts = [0]
        self._row_at = np.full(places, -1, np.int64)
        self._put: list[pa.Table] = []
        self._cleared: list[Numbers] = []
        self._all_panes: Numbers | None = None
        self._folds = self._due = 0
        self.panes: dict[int, int] = {}
        """How many entries there are of each pane that has any."""
        self._load()

    @property
    def number(self) -> int:
        """How many entries there are."""
        return sum(self.panes.values())

    def at(self, places: Numbers) -> Numbers:
        """The rows of entries at some places, ascending; a place may be named more than once."""
        found = self._row_at[places]
        found = np.sort(found[found >= 0])
        return found[np.concatenate(([True], found[1:] != found[:-1]))] if len(found) else found

    def below(self, pane: int) -> Numbers:
        """The rows of all entries of earlier panes, ascending; the end of the input is above the last pane, too."""
        rows = self._row_at[self._row_at >= 0]
        return self._ascending(rows if pane == END else rows[self._pane_of(rows) < pane])

    def turn(self, first: int, last: int, most: int, position: int) -> Numbers:
        """The places of entries of the panes first..last, round the table from a position, so many at most."""
        found: list[Numbers] = []
        for start, end in _stretches(position, self._places, SEARCHED * most):
            rows = self._row_at[start:end]
            filled = np.flatnonzero(rows >= 0)
            panes = self._pane_of(rows[filled])
            chosen = filled[(panes >= first) & (panes <= last)][:most]
            found.append(chosen + start)
            most -= len(chosen)
            if not most:
                break
        return np.concatenate([np.zeros(0, np.int64), *found])

    def lift(self, rows: Numbers) -> pa.Table:
        """Take entries out, by their rows, ascending; others are put in their places."""
        lifted = self._taken(rows)
        self._row_at[lifted.column(PLACE).to_numpy()] = -1
        self._tally(lifted, -1)
        return lifted

    def remove(self, rows: Numbers) -> pa.Table:
        """Take entries out, by their rows, ascending; their places are empty from now on."""
        removed = self.lift(rows)
        self._cleared.append(removed.column(PLACE).to_numpy())
        return removed

    def put(self, entries: pa.Table) -> None:
        """Put entries into the places that they name, which are empty; nothing has been removed in this batch yet."""
        entries = entries.combine_chunks()
        self._row_at[entries.column(PLACE).to_numpy()] = self._add(entries)
        self._tally(entries, 1)
        self._put.append(entries)

    def save(self) -> None:
        """Write what has changed, and fold the slots whose turn it is."""
        if not self._put and not self._cleared:
            return
        if not self.panes:
            for slot in (n for n in self._slots.numbers() if n != TURN_SLOT):
                self._slots.drop(slot)
            return
        put = pa.concat_tables(self._put) if self._put else self._tables[0].slice(0, 0)
        cleared = np.concatenate([np.zeros(0, np.int64), *self._cleared])
        log = FIRST_LOG_SLOT - self._folds
        self._slots.append(log, ENTRIES, put.combine_chunks())
        self._slots.append(log, CLEARED, pa.table({PLACE: cleared}))
        self._due += max(put.num_rows, -(-self._places // (LOG_SHARE * LOG_PIECES)))
        folds, self._due = divmod(self._due, max(1, self._slot_places // LOG_SHARE))
        for _ in range(min(folds, self._count)):
            self._fold(self._folds % self._count)
            self._folds += 1
        for slot in self._slots.numbers():
            if slot <= FIRST_LOG_SLOT and self._folds - (FIRST_LOG_SLOT - slot) >= self._count:
                self._slots.drop(slot)
        panes = {PANE: sorted(self.panes), "entries": [self.panes[pane] for pane in sorted(self.panes)]}
        self._slots.replace(LEDGER_SLOT, LEDGER, pa.table({"folds": [self._folds], "due": [self._due]}))
        self._slots.replace(LEDGER_SLOT, PANES, pa.table(panes))

    def _load(self) -> None:
        if self._slots.numbers() and not self._slots.count(LEDGER_SLOT, LEDGER):
            # Without its ledger nothing would be known of any entry, and all would be lost without a word.
            raise WorldError(
                "the checkpoint holds a low-level table of an earlier version, whose layout is no longer known",
                hint="let that version run to the end of its inputs, or start with a new checkpoint",
            )
        for kept in self._slots.chunks(LEDGER_SLOT, LEDGER):
            self._folds, self._due = kept["folds"][0].as_py(), kept["due"][0].as_py()
        for kept in self._slots.chunks(LEDGER_SLOT, PANES):
            self.panes = dict(zip(kept[PANE].to_pylist(), kept["entries"].to_pylist(), strict=True))
        # What was added and what was folded, in the order in which it happened.
        for fold in range(self._folds - self._count, self._folds + 1):
            log = FIRST_LOG_SLOT - fold
            if fold >= 0:
                pieces = zip(self._slots.chunks(log, ENTRIES), self._slots.chunks(log, CLEARED), strict=True)
                for put, cleared in pieces:
                    self._row_at[put.column(PLACE).to_numpy()] = self._add(put)
                    self._row_at[cleared.column(PLACE).to_numpy()] = -1
            if fold < self._folds:
                slot = fold % self._count
                self._row_at[self._range(slot)] = -1
                for entries in self._slots.chunks(slot, ENTRIES):
                    self._row_at[entries.column(PLACE).to_numpy()] = self._add(entries)

    def _fold(self, slot: int) -> None:
        rows = self._row_at[self._range(slot)]
        rows = self._ascending(rows[rows >= 0])
        if len(rows):
            self._slots.replace(slot, ENTRIES, self._taken(rows).combine_chunks())
        else:
            self._slots.drop(slot)

    def _ascending(self, rows: Numbers) -> Numbers:
        """Many rows in order: marking them on a map of all rows is faster than sorting."""
        marked = np.zeros(self._starts[-1], np.bool_)
        marked[rows] = True
        return np.flatnonzero(marked)

    def _range(self, slot: int) -> slice:
        return slice(slot * self._slot_places, (slot + 1) * self._slot_places)

    def _add(self, entries: pa.Table) -> Numbers:
        """The numbers of rows that are new here."""
        start = self._starts[-1]
        self._tables.append(entries)
        self._starts.append(start + entries.num_rows)
        self._all_panes = None
        return np.arange(start, self._starts[-1])

    def _pane_of(self, rows: Numbers) -> Numbers:
        if self._all_panes is None and MANY * len(rows) < self._starts[-1]:
            return self._few_panes(rows)
        if self._all_panes is None:
            self._all_panes = np.concatenate([table.column(PANE).to_numpy() for table in self._tables])
        return self._all_panes[rows]

    def _few_panes(self, rows: Numbers) -> Numbers:
        panes = np.empty_like(rows)
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            own = owners == owner
            panes[own] = self._tables[owner].column(PANE).to_numpy()[rows[own] - self._starts[owner]]
        return panes

    def _taken(self, rows: Numbers) -> pa.Table:
        cuts = np.searchsorted(rows, self._starts)
        parts = [
            _rows_of(table, rows[a:b] - start)
            for table, start, (a, b) in zip(self._tables, self._starts, pairwise(cuts.tolist()), strict=False)
            if a < b
        ]
        return pa.concat_tables(parts) if parts else self._tables[0].slice(0, 0)

    def _tally(self, entries: pa.Table, sign: int) -> None:
        for pane, number in _counts(entries.column(PANE).to_numpy()):
            left = self.panes.pop(pane, 0) + sign * number
            if left:
                self.panes[pane] = left


def _rows_of(table: pa.Table, rows: Numbers) -> pa.Table:
    """Some rows of a table, ascending; many of them are faster to filter than to take."""
    if len(rows) == table.num_rows:
        return table
    if MANY * len(rows) < table.num_rows:
        return table.take(pa.array(rows))
    wanted = np.zeros(table.num_rows, np.bool_)
    wanted[rows] = True
    return table.filter(pa.array(wanted))


def _stretches(position: int, places: int, first: int) -> Iterator[tuple[int, int]]:
    """The places from a position on, and then those before it, in stretches that grow.

    >>> list(_stretches(5, 12, 2))
    [(5, 7), (7, 11), (11, 12), (0, 5)]
    """
    length = max(1, first)
    for start, end in ((position, places), (0, min(position, places))):
        while start < end:
            yield start, min(start + length, end)
            start += length
            length *= 2


def _counts(panes: Numbers) -> list[tuple[int, int]]:
    """How often every pane occurs."""
    if not len(panes):
        return []
    if (panes == panes[0]).all():
        return [(int(panes[0]), len(panes))]
    found, numbers = np.unique(panes, return_counts=True)
    return list(zip(found.tolist(), numbers.tolist(), strict=True))
