"""Join of temporal streams (lmerge.md III): pairs of events, for as long as both are valid.

In every batch the elements of each side are turned into changes of its events, these into changes of the pairs, and
these into elements. It keeps the events of both sides that can still change or find a partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from penstock.algebra.error_records import reject_table
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.temporal.elements import SYNC
from penstock.boxes.temporal_join.box import TemporalJoin
from penstock.boxes.temporal_join.element_changes import changes
from penstock.boxes.temporal_join.events import event_schema
from penstock.boxes.temporal_join.held_events import HeldEvents
from penstock.boxes.temporal_join.pair_changes import PairChanges
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.protocol import Departures, Holder, Slots


class TemporalJoinOp(Holder):
    """Receives elements, by the name of their side."""

    def __init__(self, box: TemporalJoin, slots: Slots) -> None:
        self._box, self._slots = box, slots
        self._payloads = box.pairing.left, box.pairing.right
        self._held = [HeldEvents(slots, side, self._payloads[side], box.keys(side)) for side in (0, 1)]
        self._pairs = PairChanges(box)
        self._arrived: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        side = self._box.slot_of(part)
        # The order of hidden columns depends on where they were added.
        self._arrived[side].append(tuples.select([*self._box.inputs[side].schema.names, SEQ, ARRIVED]))

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        arrived, self._arrived = self._arrived, ([], [])
        fresh = []
        for side, tables in enumerate(arrived):
            fresh.append(event_schema(self._payloads[side]).empty_table())
            if tables:
                elements = in_arrival_order(tables)
                found = changes(elements, self._payloads[side], partial(self._near, side, of=side))
                fresh[side] = found.events
                if found.refused.num_rows:
                    yield TemporalJoin.ERRORS, self._refused(found.refused, found.reasons)
        held = [self._near(side, fresh[1 - side], 1 - side) for side in (0, 1)]
        elements = self._pairs.elements(held, fresh)
        if elements is not None:
            yield 0, elements
        stable = min(stated.of(SYNC) for stated in marks)
        for side, held_events in enumerate(self._held):
            held_events.add(fresh[side])
            held_events.purge(stable)
            self.released += held_events.released
        self._slots.set_mark(max(stable, self._slots.get_mark()))

    def _near(self, side: int, events: pa.Table, of: int) -> pa.Table:
        """What is held of a side with the keys of some events, which are of the same side or of the other."""
        return self._held[side].near(events, self._box.keys(of))

    def _refused(self, elements: pa.Table, reasons: pa.Array) -> pa.Table:
        shown = elements.drop_columns([SEQ, ARRIVED])
        return reject_table(shown, self._box.name, reasons).append_column(ARRIVED, elements.column(ARRIVED))
