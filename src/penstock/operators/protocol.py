"""What an operator is: vectorised, and ignorant of Spark, files and threads.

A stateless box is one `Operator`, whose `process` takes a train that arrived at one input. A stateful box is two: an
`Entry`, which runs where the tuples are and may reduce them, and a `Holder` in the buckets of its stage, whose
`punctuate` is told the low-water marks of the inputs and lets go of what they complete. State lives in slots that the
host lends to the operator.

Tables carry hidden columns (`penstock.algebra.hidden`). A stateless operator passes them on. What a holder receives
has `ARRIVED`, and what it lets go of must have it too: the smallest of all tuples that contributed. `SEQ` is there if
the box requires it; a holder that decides on the order of what leaves sets it, for others the host does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.algebra.floors import Floors
from penstock.algebra.joint_punctuation import Way
from penstock.algebra.marks import Marks

Departures = Iterable[tuple[int, pa.Table]]
"""Tuples that leave an operator: (output port, tuples)."""


@dataclass(frozen=True)
class PartWork:
    """What a part of a box did, where several boxes of the user's are one."""

    name: str
    taken: int
    left: int
    seconds: float


class Operator(Protocol):
    """A stateless box at work."""

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        """Take tuples that arrived at input number `slot`; what leaves at once."""


class PartedOperator(Operator, Protocol):
    """Several stateless boxes at work as one."""

    def parts_done(self) -> Sequence[PartWork]:
        """What its parts have done since this was asked last."""


class Entry(Protocol):
    """What a stateful box does with tuples where they are, before they are sent to its stage."""

    def process(self, slot: int, tuples: pa.Table) -> None:
        """Take tuples that arrived at input number `slot`."""

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        """What is to be sent, in parts."""


class Holder(ABC):
    """The half of a stateful box that holds its state, in one bucket of its stage. Two methods are mandatory."""

    released: int = 0
    """Tuples that the box has let go of for good, since this operator was made."""

    @abstractmethod
    def receive(self, part: str, tuples: pa.Table) -> None:
        """Take what an `Entry` has sent. The order of trains is fixed, but says nothing about arrival: `SEQ` does."""

    @abstractmethod
    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        """Learn the low-water marks of all inputs, once in a batch and after all trains; let go of what they complete.

        `now` is the clock reading of the batch, in microseconds since the epoch.
        """

    def purge(self, floors: Sequence[Floors]) -> int:
        """Let go of what is held of tuples below the floors of its inputs (`Box.useful_from`), after all trains and
        before `punctuate`; how many tuples that were. Of those that arrive, none is below.
        """
        return 0

    def output_marks(self, marks: Sequence[Marks]) -> Marks | None:
        """The low-water marks of what leaves by port 0, where they depend on what is held; None: the box's own rule."""
        return None

    def wake(self) -> int | None:
        """The clock reading at which something leaves even if nothing arrives, in microseconds since the epoch."""
        return None

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        """What it waits for, as (input, attribute, tick that the low-water mark must reach); the next of each input."""
        return ()

    def ways(self, marks: Sequence[Marks]) -> Sequence[Way]:
        """Other ways out, where marks of the first input work together: each is all the ticks that they must reach."""
        return ()

    def behind(self) -> str | None:
        """Which part of its input is furthest behind, in words, where the box itself makes the difference."""
        return None

    def held(self) -> int | None:
        """How many tuples it holds, where its slots hold other rows as well; None: as many as its slots."""
        return None

    def open_windows(self, marks: Sequence[Marks]) -> int:
        """How many results wait for punctuation, where that can be said."""
        return 0


class Slots(Protocol):
    """The state of one box in one bucket: chunks of tuples under (slot, part). Slots are integers, such as panes.

    A slot that is not touched is not read, copied or written.
    """

    def numbers(self) -> Sequence[int]:
        """The slots that hold anything, ascending."""

    def chunks(self, slot: int, part: str) -> Sequence[pa.Table]:
        """What a slot holds, in the order it was added."""

    def count(self, slot: int, part: str) -> int:
        """How many chunks a slot holds."""

    def append(self, slot: int, part: str, tuples: pa.Table) -> None:
        """Add a chunk."""

    def replace(self, slot: int, part: str, tuples: pa.Table) -> None:
        """Put one chunk in the place of all."""

    def drop(self, slot: int) -> None:
        """Let go of a slot."""

    def rows(self) -> int:
        """How many tuples are held in all slots."""

    def get_mark(self) -> int:
        """The low-water mark that the box had reached."""

    def set_mark(self, mark: int) -> None:
        """Remember the low-water mark that the box has reached."""
