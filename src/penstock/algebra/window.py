"""Windows on a progressing attribute, and the panes that overlapping windows share.

Window ids follow WID: window `w` covers `[w * advance, w * advance + size)` in ticks, for every integer `w`, negatives
included. All windows are unions of panes of `gcd(size, advance)` ticks, so a tuple is aggregated once, into its pane,
however many windows overlap there.

```
 size 3, advance 2, pane 1      panes  0 1 2 3 4 5 6
                                w=0    [-----)
                                w=1        [-----)
                                w=2            [-----)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END, LONGEST
from penstock.errors import QueryError


@dataclass(frozen=True)
class Window:
    """`size` and `advance` in ticks.

    >>> w = Window(3, 2)
    >>> w.pane, w.start_of(-1), w.first_of_pane(4), w.last_of_pane(4)
    (1, -2, 1, 2)
    """

    size: int
    advance: int

    def __post_init__(self) -> None:
        for what, value in (("size", self.size), ("advance", self.advance)):
            if value <= 0:
                raise QueryError(f"the {what} of a window must be positive", found=str(value))
            if value > LONGEST:
                raise QueryError(f"the {what} of a window is too long", expected=f"at most {LONGEST} ticks")

    @property
    def pane(self) -> int:
        """The length of a pane in ticks."""
        return math.gcd(self.size, self.advance)

    def start_of(self, window: int) -> int:
        return window * self.advance

    def first_start(self, tick: int) -> int:
        """The start of the first window that does not begin before a tick.

        >>> Window(3, 2).first_start(3), Window(60, 60).first_start(60), Window(60, 60).first_start(-61)
        (4, 60, -60)
        """
        return tick if tick in (BEGINNING, END) else min(END, self.start_of(self.first_not_before(tick)))

    def first_start_reaching(self, tick: int) -> int:
        """The start of the first window that holds a tick, or one after it.

        >>> Window(3, 2).first_start_reaching(4), Window(3, 2).first_start_reaching(5)
        (2, 4)
        """
        return tick if tick in (BEGINNING, END) else self.first_start(max(BEGINNING, tick - self.size + 1))

    def first_not_before(self, tick: int) -> int:
        """The first window that does not begin before a tick.

        >>> Window(3, 2).first_not_before(3), Window(3, 2).first_not_before(4)
        (2, 2)
        """
        return -(-tick // self.advance)

    def last_closed(self, lwm: int) -> int:
        """The last window that a low-water mark closes: the largest w with `w * advance + size <= lwm`.

        >>> Window(60, 60).last_closed(119), Window(60, 60).last_closed(120), Window(3, 2).last_closed(3)
        (0, 1, 0)
        """
        return (lwm - self.size) // self.advance

    def first_of_pane(self, pane: int) -> int:
        """The first window that contains pane number `pane`."""
        return -((self.size - (pane + 1) * self.pane) // self.advance)

    def last_of_pane(self, pane: int) -> int:
        """The last window that contains pane number `pane`; below `first_of_pane` when it falls into a gap."""
        return (pane * self.pane) // self.advance

    def first_pane_after(self, window: int) -> int:
        """The first pane that a later window contains, if there is no gap between the two.

        >>> Window(3, 2).first_pane_after(0), Window(60, 60).first_pane_after(1)
        (2, 2)
        """
        return (window + 1) * (self.advance // self.pane)

    def still_open(self, panes: Iterable[int], lwm: int) -> list[tuple[int, int]]:
        """For each pane that is in a window which a low-water mark leaves open: the first and the last of these.

        >>> Window(3, 2).still_open([0, 2, 3], 3)
        [(1, 1), (1, 1)]
        """
        first = None if lwm == BEGINNING else self.last_closed(lwm) + 1
        spans = ((self.first_of_pane(pane), self.last_of_pane(pane)) for pane in panes)
        return [(lo if first is None else max(lo, first), hi) for lo, hi in spans if first is None or hi >= first]

    def output_mark(self, lwm: int) -> int:
        """The low-water mark of window starts: the start of the first window that `lwm` leaves open.

        >>> Window(60, 60).output_mark(125), Window(3, 2).output_mark(3)
        (120, 2)
        """
        if lwm in (BEGINNING, END):
            return lwm
        return max(BEGINNING, self.start_of(self.last_closed(lwm) + 1))


def start_field(schema: pa.Schema, on: str) -> pa.Field:
    """Where windows or panes start: the first may lie below the smallest value of a narrow or unsigned integer."""
    kind = schema.field(on).type
    return pa.field(on, pa.int64() if pa.types.is_integer(kind) else kind)
