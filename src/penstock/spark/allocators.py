"""Where the memory of trains comes from, in the driver and in Spark's workers.

A train is worked on in arrays of some megabytes, which live for milliseconds. An allocator that gives each of them back
to the system at once gets fresh pages for the next one, and the system clears every page before it hands it out: a
fifth of the time of a batch by many groups went there. So memory that was freed is kept for the next train.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

import pyarrow as pa

_POOL: Final = "ARROW_DEFAULT_MEMORY_POOL"
_MAPPED: Final = "MALLOC_MMAP_THRESHOLD_"
_KEPT: Final = "MALLOC_TRIM_THRESHOLD_"
_MAPPED_BYTES: Final = 32 << 20
"""Arrays from this size on come from the system, and go back to it: the most that glibc takes."""
_KEPT_BYTES: Final = 256 << 20
"""How much that is free a process keeps at most, at the end of its heap."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

# Arrow's own choice, mimalloc, takes memory in huge pages: a worker's first large train spent longer on getting them
# than on its tuples.
_ARROW: Final = {_POOL: "jemalloc"} if "jemalloc" in pa.supported_memory_backends() else {}
ENVIRONMENT: Final = {**_ARROW, _MAPPED: str(_MAPPED_BYTES), _KEPT: str(_KEPT_BYTES)}
"""What Spark's workers are told; whoever says something else is obeyed."""


def keep_freed_memory() -> None:
    """Let this process do what the workers do: it works on trains, too."""
    if _ARROW and _POOL not in os.environ:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    if _MAPPED in os.environ or _KEPT in os.environ:
        return
    # Only glibc has it. Both, or the one would be adapted to what comes.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
