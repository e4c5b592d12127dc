"""Where the time of a cell goes: `penstock bench shapes --profile`.

The cell runs once more, in one process, without Spark (`engine="local"`), in trains of the same length: the same
planner, intake, stages, state files and outlet. Around its steps stands a stopwatch, which knows one step at a time: a
step that calls another waits meanwhile. It reads the time that the process was on a core, in all its threads, so other
work on the machine does not show. Nothing is estimated; what is in no step, such as planning, is `other`, and `wait` is
the time on the clock in which the process was on no core: for a disk, or for other processes.

| step | what |
| --- | --- |
| decode | the files, to Arrow |
| judge | times, lateness and extremes of what was read |
| entry | stateless boxes, and the low level of stateful ones |
| exchange | tuples by bucket, into trains and out of them |
| stage | partial results, taken in by the boxes of a stage |
| close | what low-water marks complete |
| state | opening, reading and writing state; and bringing what a batch has written to the disk |
| output | staging results, and the commit |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final
from unittest import mock

from penstock.connectors.files.declaration import Files
from penstock.runtime import intake, local, stage, ways
from penstock.runtime.job import Job
from penstock.runtime.outlet import Outlet
from penstock.runtime.superbox import Superbox
from penstock.runtime.train import Row
from penstock.storage.folder import synced_together
from penstock.storage.state import State
from penstock_bench.our_shapes import network, trains
from penstock_bench.shapes_cells import Cell

STEPS: Final = ("decode", "judge", "entry", "exchange", "stage", "close", "state", "output", "other", "wait")

CALLS: Final[tuple[tuple[Any, str, str], ...]] = (
    (Superbox, "receive", "stage"),
    (Superbox, "punctuate", "close"),
    (Row, "tuples", "exchange"),
    (local, "to_batch", "exchange"),
    (State, "__init__", "state"),
    (State, "read", "state"),
    (State, "save", "state"),
    (Job, "begin_outputs", "output"),
    (Job, "stage_outputs", "output"),
    (Outlet, "commit", "output"),
)
"""Whose calls are which step."""
PIECEMEAL: Final[tuple[tuple[Any, str, str], ...]] = (
    (Files, "read", "decode"),
    (ways, "read_assignment", "judge"),
    (Superbox, "departures", "entry"),
    (intake, "trains", "exchange"),
    (stage, "trains", "exchange"),
    (local, "from_batches", "exchange"),
    (local, "run_stage", "stage"),
    (ways, "run_stage", "stage"),
)
"""The same of what comes piece by piece: the step lasts while a piece is made."""


class Stopwatch:
    """Seconds by step; the thread that made it says which step it is."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(STEPS, 0.0)
        self._steps = ["other"]
        self._thread = threading.get_ident()
        self._since = time.process_time()
        self._began = time.perf_counter()

    @property
    def step(self) -> str:
        return self._steps[-1]

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """For so long, time is this step's."""
        if threading.get_ident() != self._thread:
            yield
            return
        self.lap()
        self._steps.append(step)
        try:
            yield
        finally:
            self.lap()
            self._steps.pop()

    def lap(self) -> None:
        """Give the time since the last lap to the step that it is."""
        now = time.process_time()
        self._seconds[self.step] += now - self._since
        self._since = now

    def read(self) -> dict[str, float]:
        """The seconds of all steps up to now."""
        self.lap()
        waited = time.perf_counter() - self._began - sum(self._seconds.values())
        return {**self._seconds, "wait": max(0.0, waited)}


class ProfiledShape:
    """A cell in one process, with a stopwatch around its steps."""

    def __init__(self, cell: Cell, mode: str) -> None:
        self._cell = cell
        self._mode = mode
        self._seconds: Mapping[str, float] = {}

    def open(self, scratch: Path) -> None:
        """There is nothing to bring up."""

    def run(self, data: Path, out: Path) -> None:
        net, lengths = network(self._cell, data, out), trains(self._mode, data)
        watch = Stopwatch()
        with watched(watch):
            net.run(engine="local", **lengths)
        self._seconds = watch.read()

    def told(self) -> Mapping[str, Any]:
        return {"steps": self._seconds}

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """A stopwatch around all steps."""
    with ExitStack() as stack:
        for owner, name, step in CALLS:
            stack.enter_context(mock.patch.object(owner, name, _timed(watch, step, getattr(owner, name))))
        for owner, name, step in PIECEMEAL:
            stack.enter_context(mock.patch.object(owner, name, _timed_pieces(watch, step, getattr(owner, name))))
        stack.enter_context(mock.patch.object(Superbox, "push", _timed_push(watch, Superbox.push)))
        stack.enter_context(mock.patch.object(local, "synced_together", _timed_end(watch, synced_together)))
        yield


def _timed(watch: Stopwatch, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        with watch.at(step):
            return function(*arguments, **named)

    return timed


def _timed_pieces(watch: Stopwatch, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Iterator[Any]:
        pieces = iter(function(*arguments, **named))
        while True:
            with watch.at(step):
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece

    return timed


def _timed_push(watch: Stopwatch, push: Callable[..., None]) -> Callable[..., None]:
    """What enters boxes in the intake is their low level; what a closing window lets go of is part of its closing."""

    @wraps(push)
    def timed(*arguments: Any) -> None:
        with watch.at("entry" if watch.step == "judge" else watch.step):
            push(*arguments)

    return timed


def _timed_end(watch: Stopwatch, together: Callable[[], AbstractContextManager[None]]) -> Callable[[], Any]:
    """Files are brought to the disk where the block ends."""

    @contextmanager
    def timed() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(together())
            yield
            with watch.at("state"):
                stack.close()

    return timed
