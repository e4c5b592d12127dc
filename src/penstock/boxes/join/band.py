"""The band of a join: how far apart in time two tuples may be, and how far the pairs have come.

```
 t of the left stream, A = 10, before 2, after 3      u.B     7  8  9 10 11 12 13 14
                                                              .  [--------------]  .
```

Every rule here follows from one fact: a pair leaves when the later of its tuples arrives. Either t is still to come,
then `A >= left` (the left stream's low-water mark) and `B >= A - before`; or u is, then `B >= right` and
`A >= B - after`. Figure 4 of oop.md names its ranges by the index of the stream, which fits symmetric bands only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.algebra.ticks import BEGINNING, END
from penstock.errors import QueryError

LONGEST: Final = 2**61
"""Bounds a band, so that sums of a tick's distance and a few bands fit into 64 bits."""


@dataclass(frozen=True)
class Band:
    """A pair qualifies if `A - before <= B <= A + after`, in ticks; one of them may be negative.

    >>> Band(2, 3).left_mark(10, 20), Band(2, 3).right_mark(10, 20)
    (10, 8)
    """

    before: int
    after: int

    def __post_init__(self) -> None:
        if max(abs(self.before), abs(self.after)) > LONGEST:
            raise QueryError("the band is too long", expected=f"at most {LONGEST} ticks either way", found=self._text())
        if self.width < 0:
            raise QueryError(
                "the band is empty: no pair could ever qualify", expected="before + after >= 0", found=self._text()
            )

    @property
    def width(self) -> int:
        return self.before + self.after

    def reach(self, side: int) -> int:
        """How far behind its own attribute the attribute of the other side may be: so long a tuple is kept."""
        return self.after if side == 0 else self.before

    def first_partner(self, side: int, tick: int) -> int:
        """The first tick of a side that can meet one of the other side which is not before a tick.

        >>> Band(2, 3).first_partner(0, 10), Band(2, 3).first_partner(1, 10)
        (7, 8)
        """
        return _back(tick, self.reach(side))

    def left_mark(self, left: int, right: int) -> int:
        """The low-water mark of A in the pairs, and in left tuples that leave when no partner can come any more."""
        return min(left, _back(right, self.after))

    def right_mark(self, left: int, right: int) -> int:
        """The low-water mark of B in the pairs, and in right tuples that leave without a partner."""
        return min(right, _back(left, self.before))

    def least_mark(self, left: int, right: int) -> int:
        """The low-water mark of the smaller of A and B in the pairs.

        >>> Band(2, 3).least_mark(10, 20), Band(2, 3).least_mark(20, 10)
        (8, 7)
        """
        return min(_back(left, max(0, self.before)), _back(right, max(0, self.after)))

    def greatest_mark(self, left: int, right: int) -> int:
        """The low-water mark of the greater of A and B in the pairs.

        The band does not delay it: this is what joint punctuation (oop.md 7) is for.

        >>> Band(2, 3).greatest_mark(10, 20)
        10
        """
        return min(_back(left, min(0, self.before)), _back(right, min(0, self.after)))

    def _text(self) -> str:
        return f"before {self.before}, after {self.after}"


def _back(mark: int, by: int) -> int:
    """A mark moved back by some ticks; infinities stay where they are."""
    return mark if mark in (BEGINNING, END) else min(max(mark - by, BEGINNING), END - 1)
