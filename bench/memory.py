"""How much memory a tree of processes holds.

Pages that several processes map (a shared library, an Arrow file mapped by two workers, the pages a forked worker has
not touched) are counted once: the sum over processes is of PSS, the proportional set size, which shares such a page out
among those that map it. The same is done to every peer. Where the system tells no PSS, it is RSS.

Asking for PSS walks all pages of a process and holds it up meanwhile: tens of milliseconds for a gigabyte, which a run
of a second would feel more than one of a minute. So while a run is timed, only RSS is asked for, which costs next to
nothing. What several processes map is asked for once, when the clock has stopped: it hardly changes in a run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import psutil

EVERY_SECONDS: Final = 0.1
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
SEARCH_EVERY: Final = 10
"""How many samples to the next search for new descendants, which looks at every process of the machine."""
PATIENCE_SECONDS: Final = 10.0
"""How long a process that was asked to end may take before it is made to."""


class Tree:
    """A process and all its descendants, sampled on a thread of its own until closed; closing ends them all."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[int, psutil.Process] = {pid: self._root}
        self._members = [self._root]
        self._samples = 0
        self._highest = 0
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name=f"memory of {pid}", daemon=True)

    def __enter__(self) -> Tree:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()
        self._search()
        self._end()

    @property
    def peak_bytes(self) -> int:
        """The largest sum seen since the tree was watched, or since `reset`, with what several map now counted once."""
        self._sample()
        with self._lock:
            return self._highest - sum(max(0, resident_bytes(m.pid) - held_bytes(m)) for m in self._members)

    def reset(self) -> None:
        with self._lock:
            self._highest = self._samples = 0

    def _watch(self) -> None:
        while not self._closed.wait(EVERY_SECONDS):
            self._sample()

    def _sample(self) -> None:
        with self._lock:
            if self._samples % SEARCH_EVERY == 0:
                self._search()
            self._samples += 1
            self._highest = max(self._highest, sum(resident_bytes(member.pid) for member in self._members))

    def _search(self) -> None:
        try:
            self._members = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            self._members = []
        # Remembered, because a descendant whose parent has gone can no longer be found through it.
        self._known.update((member.pid, member) for member in self._members)

    def _end(self) -> None:
        alive = [process for process in self._known.values() if process.is_running()]
        for process in alive:
            _quietly(process.terminate)
        _, stubborn = psutil.wait_procs(alive, timeout=PATIENCE_SECONDS)
        for process in stubborn:
            _quietly(process.kill)
        psutil.wait_procs(stubborn, timeout=PATIENCE_SECONDS)


def resident_bytes(pid: int) -> int:
    """The resident set size of one process; 0 when it has gone, or where the system does not tell it in this way."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def held_bytes(process: psutil.Process) -> int:
    """The proportional set size of one process; 0 when it has gone."""
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _quietly(signal: Callable[[], None]) -> None:
    with suppress(psutil.Error):  # it has gone meanwhile, which is what was wanted
        signal()
