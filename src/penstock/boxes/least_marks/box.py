"""The marks of groups where streams come together: a group has come as far as in the stream that is furthest behind.

```
 east   a's mark 20, b's 7, the stream's 7        behind a union   a's mark: min(20, 12)   12
 west   c's mark 12,        the stream's 12                        b's mark: min(7, 12)     7    the stream's: 7
```

A stream that has said nothing of a group may still bring its first tuple, but not below the mark of the whole stream.
Behind a join the marks of both sides are moved by the band first (oop.md A.1.1, A.2.1, 5.3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful, Stateless
from penstock.algebra.marks import Marks, only_end

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Operator, Slots


@dataclass(frozen=True)
class Progress(Stateless):
    """Lets no tuple through: what remains of a stream is how far it has come."""

    kind: ClassVar[str] = "progress"
    page: ClassVar[str] = "progress-groups.md"

    def schema(self, port: int) -> pa.Schema:
        return self.inputs[0].schema

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0].alone

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(),)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        # No tuple passes, but what a bucket knows of progress is true of its own tuples only.
        return keys

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.least_marks.workers import ProgressOp

        return ProgressOp()

    def describe(self) -> str:
        return f"how far {self.inputs[0].name} has come"


@dataclass(frozen=True)
class Branch:
    """One of the streams that come together; columns go by their names in that stream."""

    stream: str
    on: str
    groups: tuple[str, ...]
    """In the order of the groups behind."""
    speaks: bool = True
    """Whether it has marks of single groups."""
    shift: int = 0
    """What is added to its marks to make them marks of what leaves."""


@dataclass(frozen=True)
class LeastMarks(Stateful):
    """The marks of groups behind a Union or Join. Its inputs are the progress of every branch, and then the marks of
    groups of those branches that have any."""

    on: str
    groups: tuple[str, ...]
    marks: pa.Schema
    """Of what leaves: the groups, and `on`."""
    branches: tuple[Branch, ...]

    kind: ClassVar[str] = "least marks"
    page: ClassVar[str] = "progress-groups.md"

    @cached_property
    def speaking(self) -> tuple[int, ...]:
        """The branches that have marks of groups, in the order of their inputs."""
        return tuple(number for number, branch in enumerate(self.branches) if branch.speaks)

    def branch_at(self, slot: int) -> int:
        """The branch whose marks of groups come in at an input."""
        return self.speaking[slot - len(self.branches)]

    @property
    def on_type(self) -> pa.DataType:
        return self.marks.field(self.on).type

    def schema(self, port: int) -> pa.Schema:
        return self.marks

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return only_end(inputs)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        spoken = [self.branches[number] for number in self.speaking]
        return (*(frozenset[str]() for _ in self.branches), *(frozenset((b.on, *b.groups)) for b in spoken))

    def keys(self, slot: int) -> tuple[str, ...]:
        # Progress finds no bucket, but one that is said of a bucket must be said of the groups there.
        return self.branches[slot if slot < len(self.branches) else self.branch_at(slot)].groups

    def slot_of(self, part: str) -> int:
        return int(part)

    @property
    def partition(self) -> tuple[str, ...]:
        return self.groups

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def paced(self) -> tuple[str, ...]:
        return self.groups

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.least_marks.workers import LeastMarksEntry

        return LeastMarksEntry(self)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.least_marks.workers import LeastMarksOp

        return LeastMarksOp(self, slots)

    def describe(self) -> str:
        known = [self.branches[number].stream for number in self.speaking]
        others = [branch.stream for branch in self.branches if not branch.speaks]
        of = f"of each group of {', '.join(self.groups)} the smallest mark in {', '.join(known)}"
        return f"{of} and the mark of all of {', '.join(others)}" if others else of
