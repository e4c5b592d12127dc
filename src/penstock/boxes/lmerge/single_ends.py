"""LMerge of events of which each Vs and payload has one: case R3, and R3- (lmerge.md IV-D, VI-A).

Keeps every event that is not fully frozen in the leading input: once, with its end in each input and in the output. An
event is let go of when a stable point has frozen it.

All elements of a batch are taken together. What the output says of an event before the batch and behind it makes one
element at most: an insert, an adjust, or nothing.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.boxes.lmerge.arrivals import ABSENT, Arrivals
from penstock.boxes.lmerge.chains import legal
from penstock.boxes.lmerge.decisions import Events, Spoken, Step, freeze, speak
from penstock.boxes.lmerge.departing import departing, gathered
from penstock.boxes.lmerge.indexed import IndexedOp
from penstock.boxes.lmerge.stored_events import EndsByEvent, Piece, SeparateEvents, SharedEvents
from penstock.operators.arrays import Numbers, ticks_of
from penstock.operators.protocol import Departures


class SingleEndsOp(IndexedOp):
    """What R3 does, however its events are kept."""

    stored: ClassVar[type[EndsByEvent]]
    _store: EndsByEvent

    def _merged(self, arrivals: list[Arrivals], step: Step) -> Departures:
        every = np.concatenate([np.zeros(0, np.int64), *(a.vs for a in arrivals)])
        pieces = self._store.load(every, step.before, step.after)
        table = [a.tuples.select(self._store.columns) for a in arrivals]
        event, fresh = self._matched(pieces, table, every, step.before)
        tables = [*(piece.events for piece in pieces), *table]
        known = sum(piece.events.num_rows for piece in pieces)
        events = self._events(pieces, every[fresh])
        was = events.out.copy()
        spoken = self._take(arrivals, event, events)
        speak(events, spoken, step, self._box.policy)
        gone = freeze(events, step, revises=self._box.revises)
        changed = np.flatnonzero(events.out != was)
        rows = np.concatenate([np.arange(known), known + fresh])
        if len(changed):
            leaving = gathered(tables, rows[changed])
            yield 0, departing(self._box, leaving, events.vs[changed], was[changed], events.out[changed])
        held = (events.ends != ABSENT).any(axis=1) | (events.out != ABSENT) | (was != ABSENT)
        self.released += int((gone & held).sum())
        events.ends[gone] = ABSENT
        events.out[gone] = ABSENT
        self._keep(pieces, events, gathered(table, fresh) if len(fresh) else None)

    def _events(self, pieces: list[Piece], fresh: Numbers) -> Events:
        inputs = len(self._box.inputs)
        ends = np.concatenate([*(piece.ends for piece in pieces), np.full((len(fresh), inputs + 1), ABSENT)])
        vs = np.concatenate([*(ticks_of(piece.events, self._box.begin) for piece in pieces), fresh])
        return Events(vs, ends[:, :inputs].copy(), ends[:, inputs].copy())

    def _take(self, arrivals: list[Arrivals], event: Numbers, events: Events) -> Spoken:
        """Let every input say what it says, and refuse what it cannot say."""
        nothing = np.zeros(0, np.int64)
        inputs = events.ends.shape[1]
        source = np.concatenate([nothing, *(np.full(a.count, a.input) for a in arrivals)])
        asks = np.concatenate([nothing, *(a.vold for a in arrivals)])
        leaves = np.concatenate([nothing, *(a.ve for a in arrivals)])
        known = np.flatnonzero(event >= 0)
        chain = event[known] * inputs + source[known]
        flat = events.ends.reshape(-1)
        found = legal(chain, flat[chain], asks[known], leaves[known])
        self._refuse(arrivals, known[~found])
        taken = known[found]
        flat[event[taken] * inputs + source[taken]] = leaves[taken]  # of several the last one stays
        return Spoken(event[taken], source[taken], asks[taken] == ABSENT)

    def _keep(self, pieces: list[Piece], events: Events, fresh: pa.Table | None) -> None:
        whole = np.column_stack([events.ends, events.out])
        start, changed = 0, []
        for piece in pieces:
            rows = piece.events.num_rows
            now = whole[start : start + rows]
            changed.append(not np.array_equal(now, piece.ends))
            piece.ends = now
            start += rows
        rest = whole[start:]
        living = (rest != ABSENT).any(axis=1)
        if fresh is not None and not living.all():
            fresh, rest = fresh.filter(pa.array(living)), rest[living]
        self._store.save(pieces, changed, fresh, rest)


class SharedEndsOp(SingleEndsOp):
    """R3: payloads are kept once for all inputs."""

    stored: ClassVar[type[EndsByEvent]] = SharedEvents


class SeparateEndsOp(SingleEndsOp):
    """R3-: every input has its own."""

    stored: ClassVar[type[EndsByEvent]] = SeparateEvents
