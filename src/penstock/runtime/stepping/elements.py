"""What flows while a network is stepped: single elements, in the buffers of its arcs.

Every element brings the low-water marks of its arc along, as they are once it has been taken. A tuple of an ordered
input states its own time by that, as in ets.md; one of an input that is delayed by 5 states 5 less than the largest.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.algebra.hidden import SEQ, visible
from penstock.algebra.marks import FALLING, UNKNOWN, Mark, Marks, most
from penstock.algebra.network import Arc
from penstock.algebra.ticks import BEGINNING, tick_text, to_ticks


@dataclass(frozen=True)
class Element:
    """One element of a buffer: a tuple, or punctuation where there is none."""

    marks: Marks
    tuple: pa.Table | None = None
    """A table of one row."""
    stamp: int = 0
    """The number of the arrival that it stems from: what else stems from it may be on another way."""

    @property
    def is_punctuation(self) -> bool:
        return self.tuple is None

    def tick(self, attribute: str) -> int:
        """Its timestamp: of a tuple its own value, of punctuation what it states. A NULL is before everything."""
        if self.tuple is None:
            return self.marks.of(attribute)
        value = to_ticks(self.tuple.column(attribute))[0].as_py()
        return BEGINNING if value is None else int(value)

    def text(self, schema: pa.Schema) -> str:
        """As people read it: the values of a tuple, or what punctuation states."""
        if self.tuple is not None:
            names = visible(self.tuple.column_names)
            values = self.tuple.select(names).to_pylist()[0].values()
            return f"({', '.join(str(value) for value in values)})"
        if self.marks.ended:
            return "[end]"
        return f"[{', '.join(_said(self.marks, schema))}]"


def _said(marks: Marks, schema: pa.Schema) -> Iterator[str]:
    for known in schema:
        for mark, bound, sign in ((Mark(known.name), ">=", 1), (Mark(known.name, FALLING), "<=", -1)):
            if (tick := marks.of(mark)) != BEGINNING:
                yield f"{known.name} {bound} {tick_text(sign * tick, known.type)}"


def single(tuples: pa.Table) -> list[pa.Table]:
    """The rows of a table, each as a table."""
    return [tuples.slice(row, 1) for row in range(tuples.num_rows)]


@dataclass
class Buffer:
    """The elements of one arc. With `on` they are kept in order of it, tuples before punctuation that ties with them.

    Streams that arrive in order are thereby taken first in, first out; a disordered one is sorted here, so that a box
    that waits for order can take it.
    """

    arc: Arc
    label: str
    on: str | None = None
    elements: list[Element] = field(default_factory=list)
    marks: Marks = UNKNOWN
    """The strongest marks of everything that has entered."""

    def put(self, element: Element) -> None:
        self.marks = most([self.marks, element.marks])
        on = self.on
        if on is None:
            self.elements.append(element)
        else:
            insort(self.elements, element, key=lambda e: (e.tick(on), e.is_punctuation))

    def take(self) -> Element:
        return self.elements.pop(0)

    def head(self) -> int | None:
        """The timestamp of the element that is next, of a buffer that is in order."""
        assert self.on is not None
        return self.elements[0].tick(self.on) if self.elements else None

    def tuples(self) -> list[Element]:
        return [element for element in self.elements if not element.is_punctuation]

    def register(self, assured: int) -> int:
        """The TSM register of a buffer that is in order: nothing below it is here or will come.

        That is the timestamp of the next element, or that of the last one where the buffer is empty (ets.md 4.1). Where
        the stream is not in order, tuples may still come that are below the next one here: then it is its mark.
        """
        assert self.on is not None
        mark = max(self.marks.of(self.on), assured)
        head = self.head()
        return mark if head is None else min(head, mark)


def numbered(tuples: pa.Table, number: int, wanted: bool) -> pa.Table:
    """Tuples with arrival numbers from `number` on if they are asked for, and without the ones they had."""
    bare = tuples.drop_columns([SEQ]) if SEQ in tuples.column_names else tuples
    if not wanted:
        return bare
    return bare.append_column(SEQ, pa.array(range(number, number + bare.num_rows), pa.int64()))
