"""Which old entries leave a low-level table, besides those that collisions eject (oop.md 6).

Decided once in a batch, over the panes and places of all entries that are left in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.lowlevel import Flush, InOrder, Slow
from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.operators.subaggregate import PANE

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Turn:
    """Where a slow flush has come to."""

    position: int = 0
    """The place in the table at which it goes on: the paper's flush_pos."""
    spare: int = 0
    """Tuples that have arrived since it was last an entry's turn."""


@dataclass(frozen=True)
class Table:
    """What is in the table after a batch has been placed: the pane and the place of every entry."""

    panes: Numbers
    places: Callable[[], Numbers]
    ejected: int | None
    """The latest pane of which a collision has ejected an entry in this batch."""


class Flushing:
    """At once and lazy: what no policy may keep any longer."""

    def __init__(self, flush: Flush, window: Window) -> None:
        self._flush = flush
        self._window = window

    def leaving(self, table: Table, mark: int, tuples: int, turn: Turn) -> tuple[Mask, Turn]:
        """Which entries leave at a low-water mark, after a batch of so many tuples."""
        return _below(table.panes, self._flush.first_kept(self._window, mark)), turn

    def arranged(self, rows: pa.Table) -> pa.Table:
        """Partial aggregates in the order in which they are placed, or leave."""
        return rows


class SlowFlushing(Flushing):
    """And one old entry for every few tuples, going round the table."""

    def __init__(self, flush: Slow, window: Window) -> None:
        super().__init__(flush, window)
        self._every = flush.every

    def leaving(self, table: Table, mark: int, tuples: int, turn: Turn) -> tuple[Mask, Turn]:
        overdue, _ = super().leaving(table, mark, tuples, turn)
        turns, spare = divmod(turn.spare + tuples, self._every)
        complete = mark if mark in (BEGINNING, END) else mark // self._window.pane
        old = np.flatnonzero(_below(table.panes, complete) & ~overdue)
        if len(old) <= turns:
            overdue[old] = True
            return overdue, Turn(0, spare)
        if not turns:
            return overdue, Turn(turn.position, spare)
        places = table.places()[old]
        chosen = self._chosen(places, table.panes[old], turns, turn.position)
        turn_of = np.zeros(int(places.max()) + 1, np.bool_)
        turn_of[chosen] = True
        overdue[old] = turn_of[places]
        return overdue, Turn(int(chosen[-1]) + 1, spare)

    def _chosen(self, places: Numbers, panes: Numbers, turns: int, position: int) -> Numbers:
        """The places whose turn it is, one after the other: round the table, from where the flush has come to."""
        # A map of the table costs the same whatever the order of the entries; sorting or selecting does not.
        filled = np.zeros(max(int(places.max()), position) + 1, np.bool_)
        filled[places] = True
        ahead = position + np.flatnonzero(filled[position:])
        return np.concatenate((ahead, np.flatnonzero(filled[:position])))[:turns]


class InOrderFlushing(SlowFlushing):
    """And, as what leaves must be in order, all entries of panes before one of which an entry has left."""

    def arranged(self, rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(np.argsort(rows.column(PANE).to_numpy(), kind="stable")))

    def leaving(self, table: Table, mark: int, tuples: int, turn: Turn) -> tuple[Mask, Turn]:
        leaving, turn = super().leaving(table, mark, tuples, turn)
        return leaving if table.ejected is None else leaving | (table.panes < table.ejected), turn

    def _chosen(self, places: Numbers, panes: Numbers, turns: int, position: int) -> Numbers:
        chosen: list[Numbers] = []
        for pane in np.unique(panes).tolist():  # few: those that are old, but not overdue
            left = turns - sum(len(each) for each in chosen)
            chosen += [super()._chosen(places[panes == pane], panes, left, position)] if left else []
        return np.concatenate(chosen)


def flushing(flush: Flush, window: Window) -> Flushing:
    """The policy of a box at work."""
    match flush:
        case InOrder():
            return InOrderFlushing(flush, window)
        case Slow():
            return SlowFlushing(flush, window)
    return Flushing(flush, window)


def _below(panes: Numbers, bound: int) -> Mask:
    # The end of the input is above every pane, the last possible one included.
    return np.ones(len(panes), np.bool_) if bound == END else panes < bound
