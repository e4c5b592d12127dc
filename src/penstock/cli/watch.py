"""What a live view remembers of a run: the latest record, how fast counters move, and the windows that closed.

Batches are committed on one thread while the view is drawn on another: a `Sight` is a consistent look at the run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.network import Network
from penstock.runtime.board import Record

RATE_SECONDS: Final = 5.0
"""Rates are means over this long: shorter ones jump with every batch, longer ones hide a lull."""
KEPT_WINDOWS: Final = 64
"""Closed windows that a view can show; older ones are in the output."""


@dataclass(frozen=True)
class Closed:
    """A result that has left, and when (wall clock, seconds since the epoch)."""

    result: Mapping[str, Any]
    at: float


@dataclass(frozen=True)
class Sight:
    """Everything a view shows."""

    network: Network
    record: Record
    closed: tuple[Closed, ...] = ()
    """The latest results, oldest first."""
    rates: Mapping[str, float] | None = None
    """Tuples per second into every input and box; None until two batches have been seen."""
    batch_seconds: float | None = None
    """From one commit to the next, as a mean."""
    elapsed: float = 0.0
    seconds: float | None = None
    """How long the run is to last; None: until it is stopped."""
    stopping: bool = False


@dataclass(frozen=True)
class _Moment:
    at: float
    batch: int
    counts: Mapping[str, int]


class Watch:
    """Collects what `on_batch` and an output's callback report."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._began = clock()
        self._seconds = seconds
        self._record = Record()
        self._moments: deque[_Moment] = deque()
        self._closed: deque[Closed] = deque(maxlen=KEPT_WINDOWS)
        self._fresh: deque[Closed] = deque(maxlen=KEPT_WINDOWS)

    @property
    def ended(self) -> bool:
        return self._record.ended

    def begin(self) -> None:
        """The run is up: time counts from here."""
        self._began = self._clock()

    def batch(self, record: Record) -> None:
        """A batch was committed."""
        counts = {
            **{name: count.read for name, count in record.inputs.items()},
            **{name: work.tuples_in for name, work in record.boxes.items()},
        }
        with self._lock:
            self._record = record
            self._moments.append(_Moment(self._clock(), record.batch, counts))
            # At least two moments stay: without them there is no rate.
            while len(self._moments) > 2 and self._moments[-1].at - self._moments[1].at >= RATE_SECONDS:
                self._moments.popleft()

    def results(self, tuples: pa.Table) -> None:
        """Results have left: the function for `pk.callback`."""
        at = time.time()
        came = [Closed(row, at) for row in tuples.slice(max(0, tuples.num_rows - KEPT_WINDOWS)).to_pylist()]
        with self._lock:
            self._closed.extend(came)
            self._fresh.extend(came)

    def fresh(self) -> list[Closed]:
        """The results that have left since the last call."""
        with self._lock:
            taken = list(self._fresh)
            self._fresh.clear()
        return taken

    def sight(self, network: Network, *, stopping: bool = False) -> Sight:
        with self._lock:
            record, closed, moments = self._record, tuple(self._closed), tuple(self._moments)
        rates, batch_seconds = None, None
        if len(moments) > 1:
            first, last = moments[0], moments[-1]
            passed = max(last.at - first.at, 1e-9)
            rates = {name: (count - first.counts.get(name, 0)) / passed for name, count in last.counts.items()}
            batch_seconds = passed / max(1, last.batch - first.batch)
        return Sight(
            network, record, closed, rates, batch_seconds, self._clock() - self._began, self._seconds, stopping
        )
