"""Where R3 and R4 keep their events: in slots by the segment of time in which they begin.

```
 in2t, shared          events   vs, payload, arrival            one row for each Vs and payload
                       ends     input 0, input 1, ..., output   a row of ends beside each

 separate (R3-)        the same for every input and for the output alone, each with its own payloads

 in3t, counted (R4)    events   as above
                       ends     event, end, input 0, ..., output   how many events of each end there are
```

Payloads are written once; ends are small, and written again when an element changes one. An event that is let go of
has no end left, and its row goes when half of its slot is like that. A note says of every slot how many events it holds
and the smallest of all their ends: so a stable point looks at no slot in which nothing begins or ends before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.ticks import END
from penstock.boxes.lmerge.arrivals import ABSENT
from penstock.boxes.lmerge.box import LMerge
from penstock.operators.arrays import Mask, Numbers, ticks_of
from penstock.operators.groups import number
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import add_chunk
from penstock.operators.state.ledger import Ledger
from penstock.operators.state.slots_by_time import LEVELS, SlotsByTime

EVENTS: Final = "events"
ENDS: Final = "ends"
OUT: Final = "#out"
EVENT: Final = "#event"
END_OF: Final = "#end"
Ends = npt.NDArray[np.int64]


@dataclass
class Piece:
    """The events of one slot."""

    slot: int
    met: bool
    """Whether an element may be of one of them."""
    events: pa.Table
    held: Mask
    """Which of them are held: the others were let go of."""
    ends: Ends
    """What is known of their ends, as rows of numbers."""


class StoredEvents(ABC):
    """What all ways to keep events have in common."""

    def __init__(self, box: LMerge, slots: Slots) -> None:
        self._box = box
        self._slots = slots
        self._segments = SlotsByTime(box.time_type)
        self.columns = [box.begin, *box.payload, ARRIVED]
        self.owners = [*box.input_names, OUT]
        """Whose ends are kept: inputs may have come and gone since the state was written."""
        noted = Ledger(slots).read() or {}
        self._noted: dict[int, tuple[int, int]] = {int(slot): (least, rows) for slot, (least, rows) in noted.items()}

    def count(self) -> int:
        """How many events are held."""
        return sum(rows for _, rows in self._noted.values())

    def near(self, vs: Numbers) -> Mask:
        """Which elements may be of an event that is held."""
        found = np.zeros(len(vs), bool)
        numbers = np.array(sorted(self._noted), np.int64)
        for level in sorted({slot % LEVELS for slot in self._noted}):
            found |= np.isin(self._segments.at_level(vs, level), numbers)
        return found

    def load(self, vs: Numbers, before: int, after: int) -> list[Piece]:
        """The slots that elements are near to, and those in which a stable point may change something."""
        levels = sorted({slot % LEVELS for slot in self._noted})
        met = {slot for level in levels for slot in np.unique(self._segments.at_level(vs, level)).tolist()}
        pieces = []
        for slot in sorted(self._noted):
            start, stop = self._segments.span(slot)
            due = after > before and start < after and (stop > before or self._noted[slot][0] < after)
            if slot in met or due:
                pieces.append(Piece(slot, slot in met, *self._read(slot)))
        return pieces

    def _note(self, slot: int, ends: Numbers, held: int) -> None:
        """Note the smallest of the ends in a slot, and how many events it holds."""
        self._noted[slot] = int(ends.min()), held

    def _forget(self, slot: int) -> None:
        self._slots.drop(slot)
        self._noted.pop(slot, None)

    def _saved(self) -> None:
        Ledger(self._slots).write({str(slot): list(noted) for slot, noted in self._noted.items()})

    def _slots_of(self, fresh: pa.Table) -> Numbers:
        return self._segments.slots_of(ticks_of(fresh, self._box.begin))

    @abstractmethod
    def _read(self, slot: int) -> tuple[pa.Table, Mask, Ends]:
        """The events of a slot, which of them are held, and their ends."""


class EndsByEvent(StoredEvents):
    """Every event has a row of ends: one for each input, and one for the output. `ABSENT` in all is an event let go."""

    def save(self, pieces: list[Piece], changed: list[bool], fresh: pa.Table | None, ends: Ends) -> None:
        """Write what has changed of pieces, and add fresh events."""
        known = {piece.slot: piece for piece in pieces}
        wanted = {piece.slot for piece, differs in zip(pieces, changed, strict=True) if differs}
        added = dict(self._parted(fresh, ends))
        for slot in sorted(wanted | added.keys()):
            events, own = added.get(slot, (None, None))
            ends_of = [each for each in (known[slot].ends if slot in known else None, own) if each is not None]
            whole = np.concatenate(ends_of)
            held = held_events(whole)
            if not held.any():
                self._forget(slot)
                continue
            self._write(slot, known.get(slot), events, whole, held)
            self._note(slot, np.where(whole == ABSENT, END, whole), int(held.sum()))
        self._saved()

    def _parted(self, fresh: pa.Table | None, ends: Ends) -> Iterator[tuple[int, tuple[pa.Table, Ends]]]:
        if fresh is None or not fresh.num_rows:
            return
        slots = self._slots_of(fresh)
        order = np.argsort(slots, kind="stable")
        if not np.array_equal(order, np.arange(len(order))):
            fresh, ends, slots = fresh.take(pa.array(order)), ends[order], slots[order]
        fresh = fresh.combine_chunks()
        cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
        for a, b in pairwise(cuts):
            yield int(slots[a]), (fresh.slice(a, b - a), ends[a:b])

    @abstractmethod
    def _write(self, slot: int, known: Piece | None, added: pa.Table | None, ends: Ends, held: Mask) -> None:
        """Keep what is held of known events and of those that are added."""


class SharedEvents(EndsByEvent):
    """in2t: the payload of an event is there once, whoever has brought it."""

    def _read(self, slot: int) -> tuple[pa.Table, Mask, Ends]:
        events = pa.concat_tables(self._slots.chunks(slot, EVENTS))
        (noted,) = self._slots.chunks(slot, ENDS)
        ends = _columns(noted, self.owners, ABSENT)
        return events, held_events(ends), ends

    def _write(self, slot: int, known: Piece | None, added: pa.Table | None, ends: Ends, held: Mask) -> None:
        if 2 * held.sum() < len(held):
            parts = [each for each in (known.events if known is not None else None, added) if each is not None]
            kept = pa.concat_tables([part.select(self.columns) for part in parts]).filter(pa.array(held))
            self._slots.replace(slot, EVENTS, kept.combine_chunks())
            ends = ends[held]
        elif added is not None:
            add_chunk(self._slots, slot, EVENTS, added.select(self.columns))
        self._slots.replace(slot, ENDS, _as_table(ends, self.owners))


class SeparateEvents(EndsByEvent):
    """R3-: every input and the output have an index of their own, and payloads of their own (lmerge.md VI-A)."""

    def _read(self, slot: int) -> tuple[pa.Table, Mask, Ends]:
        indexes = self.owners
        tables = [
            (at, chunk) for at, name in enumerate(indexes) for chunk in self._slots.chunks(slot, f"{EVENTS} {name}")
        ]
        whole = pa.concat_tables([table.select(self.columns) for _, table in tables])
        groups, numbers = number([table for _, table in tables], [self._box.begin, *self._box.payload])
        ends = np.full((groups.count, len(indexes)), ABSENT)
        for (at, table), own in zip(tables, numbers, strict=True):
            ends[own, at] = table.column(ENDS).to_numpy()
        _, first = np.unique(np.concatenate(numbers), return_index=True)
        return whole.take(pa.array(first)), held_events(ends), ends

    def _write(self, slot: int, known: Piece | None, added: pa.Table | None, ends: Ends, held: Mask) -> None:
        parts = [each for each in (known.events if known is not None else None, added) if each is not None]
        whole = pa.concat_tables([part.select(self.columns) for part in parts])
        self._slots.drop(slot)
        for at in range(ends.shape[1]):
            own = ends[:, at] != ABSENT
            if own.any():
                table = whole.filter(pa.array(own)).append_column(ENDS, pa.array(ends[own, at]))
                self._slots.replace(slot, f"{EVENTS} {self.owners[at]}", table.combine_chunks())


class CountedEvents(StoredEvents):
    """in3t: an event has as many rows as it has ends; each says how many there are in each input, and in the output."""

    def save(self, pieces: list[Piece], fresh: pa.Table, owner: Numbers, ends: Ends) -> None:
        """Write all pieces that differ, and add fresh events.

        `ends` has a row (end, count in each input and in the output) for every event and end, by event and end, and
        `owner` says which event it is of: those of the pieces first, then the fresh ones. Who has none is let go of.
        """
        start = 0
        found = {}
        for piece in pieces:
            a, b = np.searchsorted(owner, [start, start + piece.events.num_rows])
            rows = np.column_stack([owner[a:b] - start, ends[a:b]])
            start += piece.events.num_rows
            if not np.array_equal(rows, piece.ends):
                found[piece.slot] = piece.events, rows
        known = {piece.slot: piece for piece in pieces}
        behind = np.searchsorted(owner, start)
        for slot, events, rows in self._parted(fresh, owner[behind:] - start, ends[behind:]):
            if slot in known:
                before, held = found.get(slot, (known[slot].events, known[slot].ends))
                rows[:, 0] += before.num_rows
                events, rows = pa.concat_tables([before, events]), np.concatenate([held, rows])
            found[slot] = events, rows
        for slot, (events, rows) in sorted(found.items()):
            self._put(slot, events, rows)
        self._saved()

    def _parted(self, fresh: pa.Table, owner: Numbers, ends: Ends) -> Iterator[tuple[int, pa.Table, Ends]]:
        """Fresh events that are held, by slot, with the rows of their ends."""
        if not len(owner):
            return
        living, owner = np.unique(owner, return_inverse=True)
        slots = self._slots_of(fresh.select([self._box.begin]).take(pa.array(living)))
        order = np.argsort(slots, kind="stable")
        fresh, slots = fresh.take(pa.array(living[order])).combine_chunks(), slots[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        by_place = np.argsort(places[owner], kind="stable")
        owner, ends = places[owner][by_place], ends[by_place]
        for a, b in pairwise([0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]):
            first, last = np.searchsorted(owner, [a, b])
            rows = np.column_stack([owner[first:last] - a, ends[first:last]])
            yield int(slots[a]), fresh.slice(a, b - a), rows

    def _put(self, slot: int, events: pa.Table, rows: Ends) -> None:
        """`events` begins with those that the slot has already."""
        if not len(rows):
            self._forget(slot)
            return
        living = np.unique(rows[:, 0])
        held = sum(chunk.num_rows for chunk in self._slots.chunks(slot, EVENTS))
        if 2 * len(living) < events.num_rows:
            self._slots.replace(slot, EVENTS, events.take(pa.array(living)).combine_chunks())
            rows = np.column_stack([np.searchsorted(living, rows[:, 0]), rows[:, 1:]])
        elif events.num_rows > held:
            add_chunk(self._slots, slot, EVENTS, events.slice(held).combine_chunks())
        self._slots.replace(slot, ENDS, _as_table(rows, [EVENT, END_OF, *self.owners]))
        self._note(slot, rows[:, 1], len(living))

    def _read(self, slot: int) -> tuple[pa.Table, Mask, Ends]:
        events = pa.concat_tables(self._slots.chunks(slot, EVENTS))
        (noted,) = self._slots.chunks(slot, ENDS)
        ends = _columns(noted, [EVENT, END_OF, *self.owners], 0)
        held = np.zeros(events.num_rows, bool)
        held[ends[:, 0]] = True
        return events, held, ends


def _as_table(rows: Ends, names: Sequence[str]) -> pa.Table:
    return pa.table([pa.array(rows[:, at]) for at in range(rows.shape[1])], names=list(names))


def _columns(noted: pa.Table, names: Sequence[str], missing: int) -> Ends:
    """What was noted, by name; who was not there then has nothing."""
    nothing = np.full(noted.num_rows, missing)
    known = {*noted.column_names}
    return np.stack([noted.column(name).to_numpy() if name in known else nothing for name in names], axis=1)


def held_events(ends: Ends) -> Mask:
    """Which rows have an end at all."""
    return np.asarray((ends != ABSENT).any(axis=1), bool)
