"""How much of a history one batch reads, so that those who wait for live results hardly notice.

A history may take a share of the work. What a batch takes without it is measured now and then, by a batch that reads
none; a batch that reads some may take longer by the share, and reads more or less the next time by how long it took.
All of it only decides where a train ends, which is in the offset: the answer does not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

FIRST_ROWS: Final = 20_000
LEAST_ROWS: Final = 5_000
"""So many are read in any case: a history comes to its end, however slow the machine is."""
_WITHOUT_EVERY: Final = 8
"""Among so many batches that could read history, one reads none, and the first is such a one."""
_NEWEST: Final = 0.4
"""How much the last measurement counts."""


class HistoryPace:
    """The rows of histories that the next batch may read."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._rows = FIRST_ROWS
        self._without: float | None = None
        """What a batch takes that reads no history, in seconds."""
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
        if rows == 0 or self._without is None:
            before = seconds if self._without is None else self._without
            self._without = before + _NEWEST * (seconds - before)
        if rows:
            allowed = self._without / (1 - self._share)
            self._rows = max(LEAST_ROWS, int(min(rows, self._rows) * min(2.0, max(0.5, allowed / seconds))))
