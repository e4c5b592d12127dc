"""How much of a history one batch reads, so that those who wait for live results hardly notice.

A history may take a share of the work. What a batch takes without it is measured now and then, by a batch that reads
none; a batch that reads some may take longer by the share. What a row of history costs is taken from the last batches
that have read some: from the middle one, for a single batch may take long for reasons of its own.
All of it only decides where a train ends, which is in the offset: the answer does not depend on it.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Final

FIRST_ROWS: Final = 20_000
LEAST_ROWS: Final = 5_000
"""So many are read in any case: a history comes to its end, however slow the machine is."""
_WITHOUT_EVERY: Final = 8
"""Among so many batches that could read history, one reads none, and the first is such a one."""
_REMEMBERED: Final = 7
"""So many of the last measurements count."""
_LEAST_COST: Final = 1e-9
"""No row costs less, in seconds."""
_MOST_GROWTH: Final = 2
"""A batch reads at most so many times as many rows as the one before."""


class HistoryPace:
    """The rows of histories that the next batch may read."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._rows = FIRST_ROWS
        self._without = deque[float](maxlen=_REMEMBERED)
        """What batches took that read no history, in seconds."""
        self._costs = deque[float](maxlen=_REMEMBERED)
        """What a row of history took, in batches that read some."""
        self._under_way: tuple[float, int] | None = None
        self._counted = 0

    def next_rows(self, *, others: bool) -> int | None:
        """How many rows the next batch may read, 0 for none; None if there is no limit. `others`: whether there are
        inputs besides histories, whose batches can be measured."""
        if self._share >= 1:
            return None
        measured = others and self._counted % _WITHOUT_EVERY == 0
        self._counted += 1
        return 0 if measured else self._rows

    def planned(self, rows: int) -> None:
        """A batch is planned that reads so many rows of histories."""
        self._under_way = (self._clock(), rows)

    def done(self) -> None:
        """Somebody asks for the next batch: the one before is done."""
        if self._under_way is None or self._share >= 1:
            return
        (began, rows), self._under_way = self._under_way, None
        seconds = max(1e-6, self._clock() - began)
        if rows == 0 or not self._without:
            self._without.append(seconds)
        if rows:
            usual = statistics.median(self._without)
            self._costs.append(max(0.0, seconds - usual) / rows)
            spare = usual / (1 - self._share) - usual
            fitting = spare / max(_LEAST_COST, statistics.median(self._costs))
            self._rows = max(LEAST_ROWS, int(min(fitting, _MOST_GROWTH * min(rows, self._rows))))
