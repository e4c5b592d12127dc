"""Which old entries leave a low-level table, besides those that collisions eject (oop.md 6).

Decided once in a batch, after its tuples have been placed. Nothing is searched for if no pane has old entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level.box import Flush, InOrder, Slow
from penstock.boxes.aggregate.low_level.entries import Entries

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Turn:
    """Where a slow flush has come to."""

    position: int = 0
    """The place in the table at which it goes on: the paper's flush_pos."""
    spare: int = 0
    """Tuples that have arrived since it was last an entry's turn."""


@dataclass(frozen=True)
class Moment:
    """What a batch brought: how far its input is, how many tuples came, and what collisions ejected."""

    mark: int
    tuples: int = 0
    ejected: int | None = None
    """The latest pane of which a collision has ejected an entry."""


class Flushing:
    """At once and lazy: what no policy may keep any longer."""

    def __init__(self, flush: Flush, window: Window) -> None:
        self._flush = flush
        self._window = window

    def flush(self, entries: Entries, moment: Moment, turn: Turn) -> tuple[list[pa.Table], Turn]:
        """The entries that leave at the end of a batch."""
        return _remove_below(entries, self._flush.first_kept(self._window, moment.mark)), turn

    def arranged(self, rows: pa.Table) -> pa.Table:
        """Partial aggregates in the order in which they are placed, or leave."""
        return rows


class SlowFlushing(Flushing):
    """And one old entry for every few tuples, going round the table."""

    def __init__(self, flush: Slow, window: Window) -> None:
        super().__init__(flush, window)
        self._every = flush.every

    def flush(self, entries: Entries, moment: Moment, turn: Turn) -> tuple[list[pa.Table], Turn]:
        gone, _ = super().flush(entries, moment, turn)
        turns, spare = divmod(turn.spare + moment.tuples, self._every)
        complete = moment.mark if moment.mark in (BEGINNING, END) else moment.mark // self._window.pane
        old = {pane: number for pane, number in entries.panes.items() if pane < complete}
        if sum(old.values()) <= turns:
            return gone + _remove_below(entries, complete), Turn(0, spare)
        if not turns:
            return gone, Turn(turn.position, spare)
        chosen = self._chosen(entries, sorted(old), turns, turn.position)
        return [*gone, entries.remove(entries.at(chosen))], Turn(int(chosen[-1]) + 1, spare)

    def _chosen(self, entries: Entries, old: list[int], turns: int, position: int) -> Numbers:
        """The places whose turn it is, one after the other: round the table, from where the flush has come to."""
        return entries.turn(old[0], old[-1], turns, position)


class InOrderFlushing(SlowFlushing):
    """And, as what leaves must be in order, all entries of panes before one of which an entry has left."""

    def arranged(self, rows: pa.Table) -> pa.Table:
        panes = rows.column(PANE).to_numpy()
        if (panes[1:] >= panes[:-1]).all():
            return rows
        return rows.take(pa.array(np.argsort(panes, kind="stable")))

    def flush(self, entries: Entries, moment: Moment, turn: Turn) -> tuple[list[pa.Table], Turn]:
        before = [] if moment.ejected is None else _remove_below(entries, moment.ejected)
        gone, turn = super().flush(entries, moment, turn)
        return before + gone, turn

    def _chosen(self, entries: Entries, old: list[int], turns: int, position: int) -> Numbers:
        chosen: list[Numbers] = []
        for pane in old:  # few: those that are old, but not overdue
            left = turns - sum(len(each) for each in chosen)
            chosen += [entries.turn(pane, pane, left, position)] if left else []
        return np.concatenate(chosen)


def flushing(flush: Flush, window: Window) -> Flushing:
    """The policy of a box at work."""
    match flush:
        case InOrder():
            return InOrderFlushing(flush, window)
        case Slow():
            return SlowFlushing(flush, window)
    return Flushing(flush, window)


def _remove_below(entries: Entries, pane: int) -> list[pa.Table]:
    """Take out all entries of panes before one."""
    return [entries.remove(entries.below(pane))] if any(held < pane or pane == END for held in entries.panes) else []
