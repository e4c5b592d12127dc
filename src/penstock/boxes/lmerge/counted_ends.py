"""LMerge without any promise: case R4 (lmerge.md IV-E).

A Vs and a payload may have several events, with the same end or with others. Keeps of every event that is not fully
frozen in the leading input how many there are with each end, in each input and in the output. What the output says
before a batch and behind it is compared: each event of an end that is too many becomes one of an end that is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import END
from penstock.boxes.lmerge.arrivals import ABSENT, Arrivals
from penstock.boxes.lmerge.decisions import Spoken, Step
from penstock.boxes.lmerge.departing import departing, gathered
from penstock.boxes.lmerge.indexed import IndexedOp
from penstock.boxes.lmerge.pairing_ends import Pairs, pairs
from penstock.boxes.lmerge.policy import EAGER, EVERY, HALF_FROZEN, LEADING
from penstock.boxes.lmerge.stored_events import CountedEvents, Piece
from penstock.boxes.lmerge.tokens import affordable
from penstock.operators.arrays import Mask, Numbers, ticks_of
from penstock.operators.protocol import Departures


@dataclass
class Counts:
    """Rows by event and end, each once."""

    event: Numbers
    end: Numbers
    inputs: npt.NDArray[np.int64]
    """How many events of this end each input has."""
    out: Numbers
    """How many the output has."""
    vs: Numbers
    """Of every event."""

    def totals(self) -> npt.NDArray[np.int64]:
        """How many events of its Vs and payload each input has, for every event."""
        sums = np.zeros((len(self.vs), self.inputs.shape[1]), np.int64)
        np.add.at(sums, self.event, self.inputs)
        return sums

    def out_totals(self) -> Numbers:
        return np.bincount(self.event, self.out, len(self.vs)).astype(np.int64)

    def move(self, moved: Pairs) -> None:
        """Let the output have other ends."""
        np.subtract.at(self.out, moved.from_row[moved.from_row >= 0], 1)
        np.add.at(self.out, moved.to_row[moved.to_row >= 0], 1)


class CountedEndsOp(IndexedOp):
    """What R4 does."""

    stored: ClassVar[type[CountedEvents]] = CountedEvents
    _store: CountedEvents

    def _merged(self, arrivals: list[Arrivals], step: Step) -> Departures:
        every = np.concatenate([np.zeros(0, np.int64), *(a.vs for a in arrivals)])
        pieces = self._store.load(every, step.before, step.after)
        brought = [a.tuples.select(self._store.columns) for a in arrivals]
        event, fresh = self._matched(pieces, brought, every, step.before)
        held = sum(piece.events.num_rows for piece in pieces)
        vs = np.concatenate([*(ticks_of(piece.events, self._box.begin) for piece in pieces), every[fresh]])
        counts, spoken = self._take(arrivals, event, _counts(pieces, vs, len(self._box.inputs)))
        was = counts.out.copy()
        self._speak(counts, spoken, step)
        gone = self._freeze(counts, step)
        new = gathered(brought, fresh) if len(fresh) else None
        rows = np.concatenate([np.arange(held), held + np.arange(len(fresh))])
        tables = [*(piece.events for piece in pieces), *([] if new is None else [new])]
        yield from self._departing(tables, rows, counts, was)
        self.released += int(np.isin(np.flatnonzero(gone), counts.event).sum())
        keep = ~gone[counts.event] & ((counts.inputs != 0).any(axis=1) | (counts.out != 0))
        ends = np.column_stack([counts.end, counts.inputs, counts.out])[keep]
        empty = pa.table({}) if new is None else new
        self._store.save(pieces, empty, counts.event[keep], ends)

    def _take(self, arrivals: list[Arrivals], event: Numbers, counts: Counts) -> tuple[Counts, Spoken]:
        """Let every input say what it says, and refuse what it cannot say."""
        nothing = np.zeros(0, np.int64)
        inputs = counts.inputs.shape[1]
        source = np.concatenate([nothing, *(np.full(a.count, a.input) for a in arrivals)])
        asks = np.concatenate([nothing, *(a.vold for a in arrivals)])
        leaves = np.concatenate([nothing, *(a.ve for a in arrivals)])
        known = np.flatnonzero(event >= 0)
        row, column = np.nonzero(counts.inputs)
        there = counts.event[row] * inputs + column, counts.end[row], counts.inputs[row, column]
        found = affordable(event[known] * inputs + source[known], asks[known], leaves[known], there)
        self._refuse(arrivals, known[~found])
        taken = known[found]
        give, take = taken[leaves[taken] != ABSENT], taken[asks[taken] != ABSENT]
        rows = np.concatenate([give, take])
        ends = np.concatenate([leaves[give], asks[take]])
        change = np.concatenate([np.ones(len(give), np.int64), np.full(len(take), -1)])
        changed = _changed(counts, event[rows], ends, source[rows], change)
        return changed, Spoken(event[taken], source[taken], asks[taken] == ABSENT)

    def _speak(self, counts: Counts, spoken: Spoken, step: Step) -> None:
        """Let the output say what the policy says at once."""
        policy, events = self._box.policy, len(counts.vs)
        if not len(spoken.event):
            return
        latest = np.full(events, -1)
        latest[spoken.event] = spoken.input  # of several the last one stays
        if policy.adjust == EVERY:
            target = counts.inputs[np.arange(len(counts.event)), np.maximum(latest, 0)[counts.event]]
            self._bring(counts, target, latest >= 0, step, inserts=False)
        if policy.insert == HALF_FROZEN:
            return
        told = spoken.insert if policy.insert != LEADING else spoken.input == step.leader
        fresh = np.zeros(events, bool)
        fresh[spoken.event[told]] = True
        fresh &= counts.vs >= step.before
        totals = counts.totals()
        if policy.insert == LEADING:
            chosen = np.full(events, step.leader)
            wanted = totals[:, step.leader]
        else:
            needed = 1 if policy.insert == EAGER else math.ceil(float(policy.insert) * totals.shape[1])
            # As many as that many inputs have at least; from the first that has them.
            wanted = np.sort(totals, axis=1)[:, totals.shape[1] - needed]
            chosen = np.argmax(totals >= wanted[:, None], axis=1)
        missing = np.where(fresh, np.maximum(wanted - counts.out_totals(), 0), 0)
        own = counts.inputs[np.arange(len(counts.event)), chosen[counts.event]]
        extra = np.maximum(own - counts.out, 0)
        before = np.cumsum(extra) - extra
        first = np.searchsorted(counts.event, np.arange(events))
        before -= np.append(before, 0)[first][counts.event]
        counts.out += np.clip(missing[counts.event] - before, 0, extra)

    def _freeze(self, counts: Counts, step: Step) -> Mask:
        """Bring the output to the leading input where a stable point would make a difference last; what is let go."""
        due = counts.vs < step.after
        if not due.any():
            return due
        totals = counts.totals()
        told = np.full(len(counts.vs), step.leader)
        # What was half frozen stays, even if the input that leads now has never had it: others say how long.
        for other in reversed(step.inputs[1:]) if self._box.revises else ():
            lacks = (counts.vs < step.before) & (totals[:, step.leader] == 0) & (totals[:, other] > 0)
            told[lacks] = other
        target = counts.inputs[np.arange(len(counts.event)), told[counts.event]]
        self._bring(counts, target, due, step, after=step.after)
        last = np.full(len(counts.vs), ABSENT)
        np.maximum.at(last, counts.event, np.where(target > 0, counts.end, ABSENT))
        return due & ((last < step.after) | (not self._box.revises) | (step.after == END))

    def _bring(
        self, counts: Counts, target: Numbers, some: Mask, step: Step, *, inserts: bool = True, after: int | None = None
    ) -> None:
        """Bring the output of some events to a target: its ends before `after`, and how many there are of others."""
        wanted = np.where(some[counts.event], target, counts.out)
        moved = pairs(counts.event, counts.out, wanted)
        new = counts.vs[moved.event] >= step.before
        came, goes = moved.from_row >= 0, moved.to_row >= 0
        was, becomes = counts.end[moved.from_row], counts.end[moved.to_row]
        adjust = came & goes & (new | ((was >= step.before) & (becomes >= step.before)))
        if after is not None:
            adjust &= (was < after) | (becomes < after)
        removes = came & ~goes & new & self._box.revises
        counts.move(moved.only(adjust | removes | (goes & ~came & new & inserts)))

    def _departing(self, tables: list[pa.Table], rows: Numbers, counts: Counts, was: Numbers) -> Departures:
        moved = pairs(counts.event, was, counts.out)
        if not len(moved.event):
            return
        events, again = np.unique(moved.event, return_inverse=True)
        leaving = gathered(tables, rows[events]).take(pa.array(again))
        ends = [np.where(at >= 0, counts.end[at], ABSENT) for at in (moved.from_row, moved.to_row)]
        yield 0, departing(self._box, leaving, counts.vs[moved.event], *ends)


def _counts(pieces: list[Piece], vs: Numbers, inputs: int) -> Counts:
    starts = np.cumsum([0, *(piece.events.num_rows for piece in pieces)])
    rows = np.concatenate([np.zeros((0, inputs + 3), np.int64), *(piece.ends for piece in pieces)])
    sizes = [len(piece.ends) for piece in pieces]
    event = rows[:, 0] + np.repeat(starts[:-1], sizes)
    return Counts(event, rows[:, 1], rows[:, 2 : 2 + inputs], rows[:, 2 + inputs], vs)


def _changed(counts: Counts, event: Numbers, end: Numbers, source: Numbers, change: Numbers) -> Counts:
    """Counts with what the inputs have said, by event and end again."""
    inputs = counts.inputs.shape[1]
    events, ends = np.concatenate([counts.event, event]), np.concatenate([counts.end, end])
    order = np.lexsort((ends, events))
    events, ends = events[order], ends[order]
    first = np.append(True, (events[1:] != events[:-1]) | (ends[1:] != ends[:-1]))[: len(events)]
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(first) - 1
    known = len(counts.event)
    found = np.zeros((int(first.sum()), inputs), np.int64)
    found[place[:known]] = counts.inputs
    np.add.at(found, (place[known:], source), change)
    out = np.zeros(len(found), np.int64)
    out[place[:known]] = counts.out
    return Counts(events[first], ends[first], found, out, counts.vs)
