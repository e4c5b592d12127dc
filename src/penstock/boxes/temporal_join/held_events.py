"""What a join of temporal streams holds of one side, and until when.

An event is held until the stable points of both streams have passed its end: then nobody adjusts it, and nothing that
comes is valid while it is. Slots are shares of the keys. A change of an event is added to its slot as rows that
count more or fewer of it, so a slot is not written again for it. Rows are added up when there are many chunks of them,
and when about half of the slot has passed: a note says at which tick, so slots are not read to find out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.temporal_join.events import STOP, added_up, event_schema, numbers_of
from penstock.operators.arrays import Numbers
from penstock.operators.groups import group_slots, parted
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.ledger import Ledger

EVENTS: Final = "events"
SIDES: Final = 2


class HeldEvents:
    """The events of one side."""

    def __init__(self, slots: Slots, side: int, payload: pa.Schema, by: Sequence[str]) -> None:
        self._slots, self._side = slots, side
        self._payload, self._by = payload.names, list(by)
        self._schema = event_schema(payload)
        self._ledger = Ledger(slots, part=f"half over {side}")
        self._noted: dict[str, int] = self._ledger.read() or {}
        self._half_over = {int(slot): tick for slot, tick in self._noted.items()}
        """For every slot that holds anything: the tick that the stable point has to pass for about half to be over."""
        self._passed = slots.get_mark()
        self.released = 0
        """Rows that were let go of."""

    def near(self, events: pa.Table, by: Sequence[str]) -> pa.Table:
        """What is held with keys like those of some events, or a little more; `by` are their keys."""
        homes = np.unique(group_slots(events, by)).tolist() if events.num_rows else []
        chunks = [chunk for home in homes for chunk in self._slots.chunks(self._slot(home), EVENTS)]
        return pa.concat_tables([self._schema.empty_table(), *chunks])

    def add(self, changes: pa.Table) -> None:
        for home, chunk in parted(changes, group_slots(changes, self._by)):
            slot = self._slot(home)
            add_chunk(self._slots, slot, EVENTS, chunk, merge=self._still_held)
            self._half_over[slot] = max(self._half_over.get(slot, BEGINNING), _half_over(chunk))

    def purge(self, stable: int) -> None:
        """Let go of events whose end both streams have passed."""
        self._passed = max(self._passed, stable)
        for slot in [s for s, tick in self._half_over.items() if tick < self._passed or self._passed == END]:
            whole = pa.concat_tables(self._slots.chunks(slot, EVENTS))
            kept = self._still_held(whole)
            if kept.num_rows:
                self._slots.replace(slot, EVENTS, kept.combine_chunks())
                self._half_over[slot] = _half_over(kept)
            else:
                self._slots.drop(slot)
                del self._half_over[slot]
        note = {str(slot): tick for slot, tick in sorted(self._half_over.items())}
        if note != self._noted:
            self._ledger.write(note)

    def _still_held(self, events: pa.Table) -> pa.Table:
        """Without what has passed, and what adds up to nothing."""
        held = numbers_of(events, STOP) >= self._passed
        kept = added_up(events.filter(pa.array(held & (self._passed != END))), self._payload)
        self.released += events.num_rows - kept.num_rows
        return kept

    def _slot(self, home: int) -> int:
        return home * SIDES + self._side


def _half_over(events: pa.Table) -> int:
    """The tick behind which half of some events have ended; all that have an end, if most have none."""
    ends: Numbers = np.sort(numbers_of(events, STOP))
    middle, finite = int(ends[len(ends) // 2]), ends[ends < END]
    return int(finite[-1]) if middle == END and len(finite) else middle
