"""The boxes of a network at work on single elements: what they take, give, and wait for.

The operators are those of every run, with trains of one tuple. A box runs when `more` holds; if it does not, `blocked`
says to which inputs to go back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.algebra.box import Box, Marks, Stateful
from penstock.algebra.hidden import ARRIVED, ENDED, SEQ, end_of
from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.base import Operator
from penstock.operators.catalog import entry, holder
from penstock.runtime.stepping.elements import Buffer, Element, numbered, raised, single
from penstock.storage.folder import Folder
from penstock.storage.state import State

Needed = Sequence[frozenset[str]]
"""The columns that are needed of each output of a box."""


@dataclass
class Outcome:
    """What one execution of a box has done."""

    slot: int | None = None
    took: Element | None = None
    gave: list[tuple[int, Element]] = field(default_factory=list)
    """(port, element)"""


class Node(ABC):
    """A box, its input buffers, and the marks that it has heard and stated."""

    def __init__(self, box: Box, inputs: Sequence[Buffer]) -> None:
        self.box = box
        self.inputs = inputs
        self.marks: list[dict[str, int]] = [_unknown(port.box, port.index) for port in box.inputs]
        self._stated = [_unknown(box, port) for port in range(len(box.ports))]

    def more(self) -> bool:
        """Whether it can go on: non-IWP boxes can with any input."""
        return any(buffer.elements for buffer in self.inputs)

    def blocked(self) -> list[int]:
        """The inputs that hold it up."""
        return list(range(len(self.inputs)))

    def unmet(self) -> list[tuple[int, str, int]]:
        """What it waits for, as (input, attribute, tick that the mark must reach)."""
        return []

    def held(self) -> int:
        """Rows in its state."""
        return 0

    def registers(self) -> list[int]:
        """The TSM registers, of a box that has them."""
        return []

    @abstractmethod
    def execute(self, now: int) -> Outcome:
        """Take one element and give what follows from it."""

    def _take(self) -> tuple[int, Element]:
        slot = next(slot for slot, buffer in enumerate(self.inputs) if buffer.elements)
        element = self.inputs[slot].take()
        self.marks[slot] = raised(self.marks[slot], element.marks)
        return slot, element

    def _leave(self, port: int, rows: Sequence[pa.Table], marks: Marks) -> list[tuple[int, Element]]:
        """What leaves by a port: tuples, the last of which states the marks; or punctuation, if that is news."""
        before = self._stated[port]
        after = self._stated[port] = raised(before, marks)
        if not rows:
            return [(port, Element(after))] if after != before else []
        return [*((port, Element(before, row)) for row in rows[:-1]), (port, Element(after, rows[-1]))]


class Stateless(Node):
    """Filter, Map, Union and their like: a tuple goes through or not, punctuation goes through all ports."""

    def __init__(self, box: Box, inputs: Sequence[Buffer], operator: Operator) -> None:
        super().__init__(box, inputs)
        self._operator = operator

    def execute(self, now: int) -> Outcome:
        slot, element = self._take()
        if element.tuple is None:
            ports = range(len(self.box.ports))
            gave = [out for port in ports for out in self._leave(port, [], self.box.progress(port, self.marks))]
            return Outcome(slot, element, gave)
        results = [(port, single(rows)) for port, rows in self._operator.process(slot, element.tuple)]
        gave = [out for port, rows in results for out in self._leave(port, rows, self.box.progress(port, self.marks))]
        return Outcome(slot, element, gave)


class Holding(Node):
    """A stateful box that takes its input in any order: each element is a batch of its own."""

    def __init__(self, box: Stateful, inputs: Sequence[Buffer], needed: Needed, sequence: Callable[[], int]) -> None:
        super().__init__(box, inputs)
        self._stateful = box
        self._needed = needed
        self._sequence = sequence
        # A state that is never saved: its slots are in memory.
        self._slots = State(Folder("stepping"), 0).slots(box.name)
        self._wake: int | None = None
        self._needs: list[tuple[int, str, int]] = []

    def due(self, now: int) -> bool:
        """Whether the clock has come to the moment that the box had asked for."""
        return self._wake is not None and now >= self._wake

    def unmet(self) -> list[tuple[int, str, int]]:
        return [need for need in self._needs if self.marks[need[0]].get(need[1], END) < need[2]]

    def held(self) -> int:
        return self._slots.rows()

    def execute(self, now: int) -> Outcome:
        if not any(buffer.elements for buffer in self.inputs):
            return Outcome(gave=self._advance(None, None, now))
        slot, element = self._take()
        return Outcome(slot, element, self._advance(slot, element.tuple, now))

    def _advance(self, slot: int | None, row: pa.Table | None, now: int) -> list[tuple[int, Element]]:
        box, worker = self._stateful, holder(self._stateful, self._slots, self._needed)
        if slot is not None and row is not None:
            sending = entry(box, self._needed)
            sending.process(slot, row)
            for part, tuples in sending.flush():
                worker.receive(part, _stamped(tuples, now))
        results: dict[int, list[pa.Table]] = {}
        for port, tuples in worker.punctuate(self.marks, now):
            results.setdefault(port, []).extend(single(tuples))
        stated = worker.output_marks(self.marks)
        self._wake, self._needs = worker.wake(), list(worker.needs(self.marks))
        gave = []
        for port in range(len(box.ports)):
            own = stated if stated is not None and port == 0 else box.progress(port, self.marks)
            rows = [numbered(row, self._sequence(), SEQ in self._needed[port]) for row in results.get(port, [])]
            gave += self._leave(port, rows, {**own, **end_of(self.marks)})
        return gave


class IdleWaiting(Holding):
    """A box that takes its inputs in order of time, and so may have to wait: TSM registers and rules of ets.md 4."""

    def __init__(
        self,
        box: Stateful,
        inputs: Sequence[Buffer],
        needed: Needed,
        sequence: Callable[[], int],
        assured: Callable[[int], int],
        relaxed: bool,
    ) -> None:
        super().__init__(box, inputs, needed, sequence)
        self._assured = assured
        """What an input is known to have reached without having said so: latent timestamps are the clock's."""
        self._relaxed = relaxed

    def registers(self) -> list[int]:
        return [buffer.register(self._assured(slot)) for slot, buffer in enumerate(self.inputs)]

    def more(self) -> bool:
        if not self._relaxed:
            return all(buffer.elements for buffer in self.inputs)
        tau = min(self.registers())
        return any(buffer.head() == tau for buffer in self.inputs)

    def blocked(self) -> list[int]:
        if not self._relaxed:
            return [slot for slot, buffer in enumerate(self.inputs) if not buffer.elements]
        registers = self.registers()
        tau = min(registers)
        return [s for s, buffer in enumerate(self.inputs) if registers[s] == tau and buffer.head() != tau]

    def unmet(self) -> list[tuple[int, str, int]]:
        """All inputs must reach the smallest tuple that waits."""
        waiting = [b.tuples()[0].tick(str(b.on)) for b in self.inputs if b.tuples()]
        if not waiting:
            return []
        least = min(waiting)
        return [(s, str(self.inputs[s].on), least) for s, mark in enumerate(self.registers()) if mark < least]

    def held(self) -> int:
        return super().held() + sum(len(buffer.tuples()) for buffer in self.inputs)

    def execute(self, now: int) -> Outcome:
        if not self.more():
            return Outcome()
        registers = self.registers()
        tau = min(registers) if self._relaxed else min(head for b in self.inputs if (head := b.head()) is not None)
        at_tau = [slot for slot, buffer in enumerate(self.inputs) if buffer.head() == tau]
        slot = next((s for s in at_tau if not self.inputs[s].elements[0].is_punctuation), at_tau[0])
        element = self.inputs[slot].take()
        for number, (buffer, register) in enumerate(zip(self.inputs, registers, strict=True)):
            # Marks of other attributes speak of the whole stream, and part of it is still in the buffer.
            said = {str(buffer.on): register, ENDED: END if register == END else BEGINNING}
            self.marks[number] = raised(self.marks[number], said)
        return Outcome(slot, element, self._deliver(slot, element, tau, now))

    def _deliver(self, slot: int, element: Element, tau: int, now: int) -> list[tuple[int, Element]]:
        """The window join: the tuple meets the window of the other side and joins its own; or punctuation passes."""
        return self._advance(slot, element.tuple, now)


class Merging(IdleWaiting):
    """The order-preserving union: what is at the smallest register goes through."""

    def _deliver(self, slot: int, element: Element, tau: int, now: int) -> list[tuple[int, Element]]:
        marks = {**self.box.progress(0, self.marks), **self._others(tau), str(self.inputs[0].on): tau}
        if element.tuple is None:
            return self._leave(0, [], marks)
        columns = [name for name in self.box.schema(0).names if name in self._needed[0]]
        row = element.tuple.select([*columns, ARRIVED])
        return self._leave(0, [numbered(row, self._sequence(), SEQ in self._needed[0])], marks)

    def _others(self, tau: int) -> dict[str, int]:
        """The marks of other attributes, held back by what is still in the buffers."""
        on, shared = self.inputs[0].on, set.intersection(*(set(port.progressing) for port in self.box.inputs))
        if tau == END:
            return {}
        waiting = [e for buffer in self.inputs for e in buffer.tuples()]
        return {
            a: min(*(b.marks.get(a, BEGINNING) for b in self.inputs), *(e.tick(a) for e in waiting), END)
            for a in shared - {on}
        }


def _stamped(tuples: pa.Table, now: int) -> pa.Table:
    """Parts of which an entry keeps no time of arrival get that of the moment, as in a batch."""
    if ARRIVED in tuples.column_names:
        return tuples
    return tuples.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), tuples.num_rows))


def _unknown(box: Box, port: int) -> dict[str, int]:
    return dict.fromkeys(box.marked(port), BEGINNING)
