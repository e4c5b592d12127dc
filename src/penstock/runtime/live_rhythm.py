"""When live tuples come: what has its time does not have to be in their way.

```
 came      came      came      now        due
 ──┼─────────┼─────────┼────────┼──────────┼──>
    └─ gap ──┘└─ gap ──┘
```

Whoever writes files, or polls a device, often does so by a timer. A batch of history that begins just behind live
tuples is then over before the next ones come. The planner sees what has come only when it looks, which it does not
while a batch runs: what it finds then has come between two looks; where in between, the usual gap tells. How much the
next batch reads of a history depends on it, and that is in the offset.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Final

_REMEMBERED: Final = 9
"""So many of the last gaps count: the middle one is not moved by some that were odd."""
_FEWEST: Final = 3
"""So many gaps are needed to speak of a usual one."""
_SILENT: Final = 1.5
"""What has not come after so many gaps is not waited for."""


class LiveRhythm:
    """How often live tuples come, and when the next ones are due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked: float | None = None
        self._came: float | None = None
        self._gaps = deque[float](maxlen=_REMEMBERED)

    def look(self, *, came: bool) -> None:
        """Somebody has looked now, and has found live tuples, or none."""
        now = self._clock()
        before, self._looked = self._looked, now
        if not came:
            return
        last, self._came = self._came, now
        if last is None or before is None:
            return
        if (gap := self.gap) is not None:
            self._came = min(now, max(before, last + gap))
        self._gaps.append(self._came - last)

    @property
    def gap(self) -> float | None:
        """The seconds between live tuples and the next ones, most often; None if nobody knows yet."""
        return statistics.median(self._gaps) if len(self._gaps) >= _FEWEST else None

    @property
    def due(self) -> float | None:
        """When the next ones come; None if nobody knows, or they have not come when they should have."""
        gap = self.gap
        if gap is None or self._came is None or self._clock() > self._came + _SILENT * gap:
            return None
        return self._came + gap
