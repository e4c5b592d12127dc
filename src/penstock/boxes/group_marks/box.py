"""The GroupMarks box: one low-water mark for each group of an input (oop.md A.1.1, group-wise linear punctuation).

```
 device a   1   2   4   7          a's mark, with delay 2:   5
 device b   1   3                  b's mark:                 1     the mark of the stream: 1, the smallest
```

A plan puts it behind an input whose policy says `by=`. The marks themselves leave by a port of their own, so that boxes
which group by the same attributes can close each group by its own mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.marks import Marks, only_end
from penstock.algebra.ticks import span_text

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class GroupMarks(Stateful):
    """Passes tuples that are not below the mark of their group; others are late tuples of the input."""

    on: str
    groups: tuple[str, ...]
    delay: int
    """How far behind the largest value of its group a tuple may be."""
    source: str
    """The input that it speaks for."""
    late: str = "route"

    kind: ClassVar[str] = "groups"
    page: ClassVar[str] = "progress-groups.md"
    LATE: ClassVar[int] = 1
    MARKS: ClassVar[int] = 2
    LARGEST: ClassVar[str] = "largest"
    """The part of its traffic with the largest value of every group, which every bucket hears."""

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "late", "marks")

    @property
    def on_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(self.on).type

    def delivers(self, port: int) -> bool:
        return port == 0

    def schema(self, port: int) -> pa.Schema:
        schema = self.inputs[0].schema
        return pa.schema([schema.field(name) for name in (*self.groups, self.on)]) if port == self.MARKS else schema

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        # What the groups have reached is known to the holder alone; what the input states moves every one of them.
        return inputs[0].alone if port == 0 else only_end(inputs)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (self.passed(port_columns[0]).union(*port_columns[self.LATE : self.MARKS]),)

    def passed(self, columns: frozenset[str]) -> frozenset[str]:
        """What it needs of tuples that are surely not late, if these columns are needed of what passes."""
        return columns | {self.on, *self.groups}

    def keys(self, slot: int) -> tuple[str, ...] | None:
        return self.groups if slot == 0 else None

    def slot_of(self, part: str) -> int:
        # There is one input, but of its groups every bucket must know: the smallest mark is that of the stream.
        return int(part == self.LARGEST)

    @property
    def coded(self) -> frozenset[str]:
        return frozenset(self.groups) - {self.on}

    def timed(self, part: str) -> bool:
        # It passes its tuples on in the batch in which they have come.
        return False

    @property
    def partition(self) -> tuple[str, ...]:
        return self.groups

    def time_of(self, slot: int) -> str:
        return self.on

    @property
    def keeps_late(self) -> bool:
        return self.late == "route"

    @property
    def speaks_for(self) -> str:
        return self.source

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.boxes.group_marks.workers import GroupMarksEntry

        return GroupMarksEntry(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.group_marks.workers import GroupMarksOp

        return GroupMarksOp(self, slots, needed)

    def describe(self) -> str:
        delay = f", less {span_text(self.delay, self.on_type)}" if self.delay else ""
        return f"a mark for each group of {', '.join(self.groups)}: the largest {self.on}{delay}"
