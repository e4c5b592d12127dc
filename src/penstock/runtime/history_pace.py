"""How much of a history one batch reads, so that those who wait for live results hardly notice.

A batch reads live tuples or history, not both: what has just arrived does not wait for old rows in its own batch. So
history is read while nothing else is there to be read; and if that is never so, by one batch in a few. Such a batch may
take twice as long as one of live tuples. Behind it there is a pause, so that no more than the share of all time goes to
history: what arrives waits for such a batch in as many cases at most, and then for half of it on the average. Where
live tuples come by a rhythm (`runtime/live_rhythm.py`), such a batch begins when it will be over before they are due,
and they hardly wait at all. What a row of history costs is taken from the last batches that have read some: from the
middle one, for a single batch may take long for reasons of its own. All of it only decides where a train ends, which is
in the offset: the answer does not depend on it.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.runtime.live_rhythm import LiveRhythm

FIRST_ROWS: Final = 20_000
LEAST_ROWS: Final = 5_000
"""So many are read in any case: a history comes to its end, however slow the machine is."""
_PATIENCE: Final = 3
"""After so many batches of live tuples alone a batch reads history beside them."""
_REMEMBERED: Final = 7
"""So many of the last measurements count."""
_LONGEST: Final = 2.0
"""A batch of history may take so many times as long as one of live tuples."""
_LEAST_COST: Final = 1e-9
"""No row costs less, in seconds."""
_MOST_GROWTH: Final = 2
"""A batch reads at most so many times as many rows as the one before."""
_SAVED_SECONDS: Final = 0.5
"""A pause counts from so long ago at most, if history could have been read since, but waited for something else."""


class HistoryPace:
    """The rows of histories that the next batch may read.

    Without `pauses` a run that waits for nothing else reads on at once: it would end if there were nothing to do.
    """

    def __init__(
        self,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        rhythm: LiveRhythm | None = None,
        pauses: bool = False,
    ) -> None:
        self._share = share
        self._clock = clock
        self._rhythm = rhythm if rhythm is not None else LiveRhythm(clock)
        self._pauses = pauses
        self._due = float("-inf")
        """When the pause is over."""
        self._rows = FIRST_ROWS
        self._without = deque[float](maxlen=_REMEMBERED)
        """What batches took that read no history, in seconds."""
        self._lengths = deque[float](maxlen=_REMEMBERED)
        """What batches took that read some."""
        self._costs = deque[float](maxlen=_REMEMBERED)
        """What a row of history took, in batches that read some."""
        self._under_way: tuple[float, int] | None = None
        self._passed = 0
        """Batches since one has read history."""

    @property
    def unlimited(self) -> bool:
        """Whether a batch may read as much as it has room for."""
        return self._share >= 1

    def next_rows(self, *, live: int | None) -> int:
        """How many rows the next batch may read, 0 for none. `live` is how many rows it reads besides, None if there
        are no other inputs."""
        if live is None:
            return self._rows
        if self._clock() < self._due:
            return 0
        if (live > 0 or self._in_the_way()) and (self._passed < _PATIENCE or not self._without):
            self._passed += live > 0
            return 0
        self._passed = 0
        return self._rows

    def _in_the_way(self) -> bool:
        """Whether a batch of history would still run when live tuples are due, and would not if it waited for them."""
        gap, due = self._rhythm.gap, self._rhythm.due
        if not self._pauses or gap is None or due is None or not self._without:
            return False
        usual = statistics.median(self._without)
        length = statistics.median(self._lengths) if self._lengths else _LONGEST * usual
        return usual + length <= gap and self._clock() + length > due

    @property
    def fitting(self) -> int | None:
        """How many rows are about right for a batch; None if nobody knows yet."""
        return self._rows if self._costs else None

    def planned(self, rows: int) -> None:
        """A batch is planned that reads so many rows of histories."""
        self._under_way = (self._clock(), rows)

    def done(self) -> None:
        """Somebody asks for the next batch: the one before is done."""
        if self._under_way is None or self.unlimited:
            return
        (began, rows), self._under_way = self._under_way, None
        now = self._clock()
        seconds = max(1e-6, now - began)
        if rows and self._pauses:
            since = began if self._due == float("-inf") else max(self._due, began - _SAVED_SECONDS)
            self._due = since + seconds / self._share
        if rows:
            self._lengths.append(seconds)
        if rows == 0:
            self._without.append(seconds)
        elif not self._without:
            self._rows = _MOST_GROWTH * rows  # nobody else is there to be held up
        else:
            usual = statistics.median(self._without)
            self._costs.append(max(0.0, seconds - usual) / rows)
            spare = _LONGEST * usual - usual
            fitting = spare / max(_LEAST_COST, statistics.median(self._costs))
            self._rows = max(LEAST_ROWS, int(min(fitting, _MOST_GROWTH * rows)))
