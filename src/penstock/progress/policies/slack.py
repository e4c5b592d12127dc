"""`pk.slack`: a tuple may have so many larger ones before it (aurora.md 5.2.2, order specifications).

```
 arrival      3    7    5    9    6    12          slack 2
 3 largest    3    73   753  975  976  12 9 7
 states       -    -    3    5    6    7           the smallest of the three
```

A tuple is out of order by n if more than n tuples before it are larger. So when n + 1 tuples have come, none that is
below the smallest of the n + 1 largest is in order any more. These values are all that is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.errors import QueryError
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle
from penstock.progress.policies.options import check_options, stated, with_options
from penstock.progress.policy import Policy

MOST_SLACK: Final = 1_000
"""Each shard has n + 1 values in every record of the board: of these, 20 kB."""


@dataclass(frozen=True)
class Slack(Policy):
    """The smallest of the n + 1 largest values read, equal ones counted apart; nothing before so many have come.

    >>> from penstock.progress.extremes import Highest
    >>> Slack(2).low_water_mark(Extremes(largest=9, highest=Highest(3, (9, 7, 6))), pa.int64())
    6
    """

    tuples: int
    idle: Idle | None = None
    descending: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.tuples, bool) or not isinstance(self.tuples, int) or self.tuples < 0:
            raise QueryError("slack is a number of tuples", expected="an integer of 0 or more", found=repr(self.tuples))
        if self.tuples > MOST_SLACK:
            raise QueryError(
                f"a slack of {self.tuples:,} tuples is too long to be remembered",
                expected=f"at most {MOST_SLACK:,}",
                hint="say how far behind tuples may be instead, with pk.delayed(...)",
            )

    @property
    def remembers(self) -> int:
        return self.tuples + 1

    def check(self, kind: pa.DataType) -> None:
        check_options(self, kind)

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        values = seen.highest.values
        return stated(seen, values[self.tuples] if len(values) > self.tuples else BEGINNING)

    def wants(self, seen: Extremes) -> str | None:
        known = len(seen.highest.values)
        return f"a {self._name} needs {self.tuples + 1:,}, and {known:,} came" if known <= self.tuples else None

    def describe(self) -> str:
        return with_options(self._name, self)

    @property
    def _name(self) -> str:
        return f"slack of {self.tuples:,} tuple{'s' if self.tuples != 1 else ''}"


def slack(tuples: int, *, idle: Idle | None = None, descending: bool = False) -> Slack:
    """At most so many `tuples` with a larger value arrive before a tuple (a smaller one, for one that decreases).

    `idle` and `descending` are as for `ordered`.
    """
    return Slack(tuples, idle, descending)
