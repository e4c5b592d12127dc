"""The events of a temporal stream that are not fully frozen, as a box holds them: by the time of their start.

```
 slot [0, 1024)      <A, 6, 20>  <B, 8, infinity>      its earliest end: 20
 slot [1024, 2048)   <A, 1030, 1040>                   its earliest end: 1040
```

Only slots are read with events that an element may speak of, or of which one is fully frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.temporal.elements import ADJUST, KIND, VE, VS
from penstock.algebra.ticks import END
from penstock.operators.arrays import Mask, ticks_of
from penstock.operators.groups import parted
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.lowest_ticks import LowestTicks
from penstock.operators.state.slots_by_time import LEVELS, SlotsByTime
from penstock.operators.temporal.reckoning import ends_of, reckon

EVENTS: Final = "events"
_NOTED: Final = (VE, VS)


class UnfrozenEvents:
    """Events in the slots of a box; `stored` are their columns: payload, start and end, and perhaps more.

    Elements that are `trusted` are legal, and may come in any order.
    """

    def __init__(
        self, slots: Slots, payload: Sequence[str], stored: pa.Schema, *, unique: bool = False, trusted: bool = False
    ) -> None:
        self._slots = slots
        self._payload, self._stored = payload, stored
        self._unique, self._trusted = unique, trusted
        self._segments = SlotsByTime(stored.field(VS).type)
        self._ledger = LowestTicks.load(slots)

    def take(self, elements: pa.Table) -> dict[int, str]:
        """Do what elements say, in order of arrival; the rows of those that are illegal, and why."""
        near = self._slots_near(elements)
        held = [pa.concat_tables(self._slots.chunks(slot, EVENTS)) for slot in near]
        whole = pa.concat_tables([self._stored.empty_table(), *held])
        found = reckon(whole, elements, self._payload, unique=self._unique, trusted=self._trusted)
        at = 0
        for slot, events in zip(near, held, strict=True):
            mine = found.untouched[at : at + events.num_rows]
            at += events.num_rows
            if not mine.all():
                self._replace(slot, events, mine)
        for slot, own in parted(found.events, self._segments.slots_of(ticks_of(found.events, VS))):
            add_chunk(self._slots, slot, EVENTS, own)
            self._ledger.note(slot, own, _NOTED, added=True)
        return found.refused

    def freeze(self, mark: int) -> Iterator[pa.Table]:
        """Let go of the events that a stable point freezes fully: all, when the stream has ended."""
        for slot in sorted(slot for slot, low in self._ledger.lowest.items() if low[VE] < mark or mark == END):
            events = pa.concat_tables(self._slots.chunks(slot, EVENTS))
            alive = np.zeros(events.num_rows, bool) if mark == END else ends_of(events, VE) >= mark
            self._replace(slot, events, alive)
            yield events.filter(pa.array(~alive))

    def save(self) -> None:
        """Note what the slots hold, once all is done."""
        self._ledger.save(self._slots)

    def earliest(self, attribute: str) -> int:
        """The earliest start or end of all events; `END` where there is none."""
        return self._ledger.least(attribute)

    def _slots_near(self, elements: pa.Table) -> list[int]:
        """The slots with events of which an element may speak: an adjust, or an insert that must be the only one."""
        asking = elements if self._unique else elements.filter(pc.equal(elements.column(KIND), ADJUST))
        ticks, held = np.unique(ticks_of(asking, VS)), sorted(self._ledger.lowest)
        levels = sorted({slot % LEVELS for slot in held})
        met = {s for level in levels for s in np.unique(self._segments.at_level(ticks, level)).tolist()}
        return [slot for slot in held if slot in met]

    def _replace(self, slot: int, events: pa.Table, keep: Mask) -> None:
        if not keep.any():
            self._slots.drop(slot)
            del self._ledger.lowest[slot]
            return
        rest = events.filter(pa.array(keep)).combine_chunks()
        self._slots.replace(slot, EVENTS, rest)
        self._ledger.note(slot, rest, _NOTED)
