"""What an operator is: vectorised, and ignorant of Spark, files and threads.

`process` takes a train that arrived at one input; `punctuate` is told the new low-water marks of the inputs and lets go
of what they complete. Only `process` is mandatory. State lives in slots that the host lends to the operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.algebra.box import Marks

Departures = Iterable[tuple[int, pa.Table]]
"""Tuples that leave an operator: (output port, tuples)."""


class Operator:
    """The base of all operators, with hooks that do nothing."""

    def process(self, slot: int, tuples: pa.Table) -> Departures:
        """Take tuples that arrived at input number `slot`."""
        raise NotImplementedError

    def punctuate(self, marks: Sequence[Marks]) -> Departures:
        """Learn the low-water marks of all inputs; let go of what they complete."""
        return ()


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
