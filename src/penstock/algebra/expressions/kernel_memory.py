"""How much memory a query of the kernel may take.

DuckDB counts its tables, sorts and hash tables against its own limit, but neither the values that an expression makes
on the way (lists, for one) nor the Arrow copy of a result. So while a query runs, the process as a whole may grow only
by a bounded amount: an allocation beyond it fails, which is an error of the query, and the process lives on.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import threading
from pathlib import Path
from typing import Final

from penstock.errors import QueryError

VARIABLE: Final = "PENSTOCK_KERNEL_MEMORY"
"""The environment variable that says how much; Spark's workers get the driver's."""

LEAST: Final = 32 << 20
"""With less, DuckDB has no room for a train of plain numbers."""
_DEFAULT_LEAST: Final = 256 << 20
_GROWTH: Final = 1.5
"""The process may grow by this much of a kernel's limit: there is a copy of the result to make, too."""

_TEXT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CGROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def kernel_memory() -> int:
    """The limit in bytes: what the environment says, or half of the machine's memory, divided by its cores.

    The other half is for what is no kernel: the JVM, trains, and the copies of results.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return max(_DEFAULT_LEAST, _machine_memory() // 2 // _cores())
    return parse_bytes(text)


def parse_bytes(text: str) -> int:
    """
    >>> parse_bytes("1.5 GiB")
    1610612736
    """
    read = _TEXT.fullmatch(text)
    size = 0 if read is None else int(float(read.group(1)) * _UNITS[read.group(2).upper()])
    if size < LEAST:
        raise QueryError(
            f"{VARIABLE} says {text!r}", expected=f"a size of at least {size_text(LEAST)}, such as 512MB or 2GB"
        )
    return size


def size_text(size: int) -> str:
    """
    >>> size_text(1610612736)
    '1.5 GiB'
    """
    unit = next((name for name in "TGMK" if size >= _UNITS[name]), "")
    return f"{size / _UNITS[unit]:.3g} {unit}{'i' if unit else ''}B"


class BoundedGrowth:
    """Within, the memory of this process grows by little more than `limit`; what asks for more gets a MemoryError.

    It holds for all threads of the process, so `limit` must be ample for what others do meanwhile; while several are
    within, the process may grow by as much for each of them. Only Linux counts all allocations; elsewhere DuckDB's own
    limit is the only one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = int(limit * _GROWTH)
        try:
            # Kept open, because a query may take no longer than opening it a few times. Not to be used after a fork.
            self._usage = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._usage = -1
        self._lock = threading.Lock()
        self._within = 0

    def __enter__(self) -> None:
        if self._usage < 0:
            return
        with self._lock:
            if not self._within:
                self._before = resource.getrlimit(resource.RLIMIT_DATA)
            self._within += 1
            soft, hard = self._before
            # The sixth number is what Linux counts against this limit: pages that only this process writes to.
            now = int(os.pread(self._usage, 200, 0).split()[5]) * resource.getpagesize()
            bounds = [b for b in (now + self._within * self._limit, soft) if b != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))

    def __exit__(self, *_: object) -> None:
        if self._usage < 0:
            return
        with self._lock:
            self._within -= 1
            if not self._within:
                resource.setrlimit(resource.RLIMIT_DATA, self._before)


def _machine_memory() -> int:
    """The memory of the machine, or of the container that this process is in."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()]
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min(sizes)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
