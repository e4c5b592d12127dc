"""The boxes of a network at work on single elements: what they take, give, and wait for.

The operators are those of every run, with trains of one tuple. A box runs when `more` holds; if it does not, `blocked`
says to which inputs to go back. Boxes that take their inputs in order of time are in `idle_waiting`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.algebra.box import Box, Port, Stateful
from penstock.algebra.hidden import ARRIVED, SEQ, in_order
from penstock.algebra.marks import Marks, most
from penstock.algebra.network import Network
from penstock.algebra.ticks import END
from penstock.boxes.least_marks.box import LeastMarks, Progress
from penstock.operators.protocol import Operator
from penstock.progress.propagation import joint_marks
from penstock.runtime.stepping.elements import Buffer, Element, numbered, single
from penstock.runtime.superbox import sequenced
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


@dataclass(frozen=True)
class Place:
    """Where a box stands: what it asks of its surroundings."""

    network: Network
    needed: Needed
    unknown: Mapping[str, Marks]
    """By port, its marks while nothing is known."""
    sequence: Callable[[], int]
    """The next number of an arrival."""
    on_the_way: Callable[[int], int]
    """The oldest stamp of what is on its way to an input, and not in its buffer yet; `END` if there is nothing."""
    passing: Callable[[int], int]
    """The same of what comes through stateless boxes alone: others give tuples a new place in the order of arrival."""


class Node(ABC):
    """A box, its input buffers, and the marks that it has heard and stated."""

    def __init__(self, box: Box, inputs: Sequence[Buffer], place: Place) -> None:
        self.box = box
        self.inputs = inputs
        self._place = place
        self.marks = [place.unknown[port.name] for port in box.inputs]
        self._stated = [place.unknown[Port(box, port).name] for port in range(len(box.ports))]

    def next_input(self) -> int | None:
        """The input that it takes from next: most boxes can go on with any."""
        return next((slot for slot, buffer in enumerate(self.inputs) if buffer.elements), None)

    def more(self) -> bool:
        """Whether it can go on."""
        return self.next_input() is not None

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

    def _take(self, slot: int) -> Element:
        element = self.inputs[slot].take()
        self.marks[slot] = most([self.marks[slot], element.marks])
        return element

    def _leave(self, port: int, rows: Sequence[pa.Table], marks: Marks, stamp: int) -> list[tuple[int, Element]]:
        """What leaves by a port: tuples, the last of which states the marks; or punctuation, if that is news.

        The end is an element of its own: who sorts or waits for others would hold it back with the tuple.
        """
        before = self._stated[port]
        marks = marks.with_joint(joint_marks(self._place.network, Port(self.box, port), self.marks))
        after = self._stated[port] = most([before, marks])
        ends = after.ended and not before.ended
        told = [before] * (len(rows) - 1) + [before if ends else after]
        gave = [(port, Element(marks, row, stamp)) for marks, row in zip(told, rows, strict=False)]
        return [*gave, (port, Element(after, stamp=stamp))] if ends or (not rows and after != before) else gave


class Passing(Node):
    """Filter, Map, Union and their like: a tuple goes through or not, punctuation goes through all ports."""

    def __init__(self, box: Box, inputs: Sequence[Buffer], place: Place, operator: Operator) -> None:
        super().__init__(box, inputs, place)
        self._operator = operator

    def execute(self, now: int) -> Outcome:
        slot = self.next_input()
        if slot is None:
            return Outcome()
        element = self._take(slot)
        results = dict(self._results(slot, element))
        gave = [
            out
            for port, rows in results.items()
            for out in self._leave(port, rows, self.box.progress(port, self.marks), element.stamp)
        ]
        return Outcome(slot, element, gave)

    def _results(self, slot: int, element: Element) -> Iterator[tuple[int, list[pa.Table]]]:
        if element.tuple is None or isinstance(self.box, Progress):
            # Who lets no tuple through still tells how far they have come.
            yield from ((port, []) for port in range(len(self.box.ports)))
            return
        for port, rows in self._operator.process(slot, element.tuple):
            yield port, single(rows)


class Arriving(Passing):
    """A union behind which the order of arrival counts: what arrived first goes first, whichever way it takes."""

    def next_input(self) -> int | None:
        heads = [(buffer.elements[0].stamp, slot) for slot, buffer in enumerate(self.inputs) if buffer.elements]
        if not heads:
            return None
        oldest, slot = min(heads)
        return slot if all(self._place.passing(s) > oldest for s in range(len(self.inputs)) if s != slot) else None

    def blocked(self) -> list[int]:
        return [s for s in range(len(self.inputs)) if self._place.passing(s) != END] or super().blocked()


class Holding(Node):
    """A stateful box that takes its input in any order: each element is a batch of its own."""

    def __init__(self, box: Stateful, inputs: Sequence[Buffer], place: Place) -> None:
        super().__init__(box, inputs, place)
        self._stateful = box
        # A state that is never saved: its slots are in memory.
        self._slots = State(Folder("stepping"), 0).slots(box.name)
        self._wake: int | None = None
        self._needs: list[tuple[int, str, int]] = []
        self._newest = 0
        """The newest stamp of all that it has taken."""

    def due(self, now: int) -> bool:
        """Whether the clock has come to the moment that the box had asked for."""
        return self._wake is not None and now >= self._wake

    def unmet(self) -> list[tuple[int, str, int]]:
        return [(slot, on, tick) for slot, on, tick in self._needs if not self.marks[slot].reached(on, tick)]

    def held(self) -> int:
        return self._slots.rows()

    def execute(self, now: int) -> Outcome:
        slot = self.next_input()
        if slot is None:
            return Outcome(gave=self._advance(None, None, now) if self.due(now) else [])
        element = self._take(slot)
        return Outcome(slot, element, self._advance(slot, element, now))

    def _advance(self, slot: int | None, element: Element | None, now: int) -> list[tuple[int, Element]]:
        box, needed = self._stateful, self._place.needed
        worker = box.holder(self._slots, needed)
        if slot is not None and element is not None and element.tuple is not None:
            sending = box.entry(needed)
            sending.process(slot, element.tuple)
            for part, tuples in sending.flush():
                worker.receive(part, _stamped(tuples, now))
        results: dict[int, list[pa.Table]] = {}
        for port, tuples in worker.punctuate(self.marks, now):
            results.setdefault(port, []).append(tuples)
        stated = worker.output_marks(self.marks)
        self._wake, self._needs = worker.wake(), list(worker.needs(self.marks))
        stamp = self._stamp(element)
        gave = []
        for port in range(len(box.ports)):
            own = stated if stated is not None and port == 0 else box.progress(port, self.marks)
            rows = self._numbered(port, results.get(port, []))
            gave += self._leave(port, rows, own.with_ended(box.has_ended(self.marks)), stamp)
        return gave

    def _stamp(self, element: Element | None) -> int:
        if element is None:
            return self._place.sequence()
        self._newest = max(self._newest, element.stamp)
        # A tuple must not seem newer than it is; but marks of groups are no older than all that they were made of.
        return self._newest if isinstance(self.box, LeastMarks) else element.stamp

    def _numbered(self, port: int, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """What leaves, one by one, in the order of arrival that a run would give it."""
        if SEQ not in self._place.needed[port]:
            return [row for table in tables for row in single(numbered(table, 0, False))]
        ordered = [sequenced(Port(self.box, port), table) for table in tables]
        whole = in_order(pa.concat_tables([t.select(ordered[0].column_names) for t in ordered])) if ordered else None
        return [numbered(row, self._place.sequence(), True) for row in single(whole)] if whole is not None else []


class Paced(Holding):
    """An aggregate with the marks of its groups on an input of their own. They must not overtake the tuples that were
    there before: a tuple may have waited for others in a join, where a mark does not."""

    def next_input(self) -> int | None:
        tuples, marks = self.inputs
        said = marks.elements[0].stamp if marks.elements else END
        if tuples.elements and tuples.elements[0].stamp <= said:
            return 0
        if marks.elements and min((e.stamp for e in tuples.elements), default=END) > said < self._place.on_the_way(0):
            return 1
        return 0 if tuples.elements else None

    def blocked(self) -> list[int]:
        return [0] if self.inputs[1].elements else super().blocked()


def _stamped(tuples: pa.Table, now: int) -> pa.Table:
    """Parts of which an entry keeps no time of arrival get that of the moment, as in a batch."""
    if ARRIVED in tuples.column_names:
        return tuples
    return tuples.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), tuples.num_rows))
