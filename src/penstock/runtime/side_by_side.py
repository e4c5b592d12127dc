"""Several pieces of work at a time, in threads of this process: the shares of a batch, or the buckets of a stage.

Most of what they do is done by Arrow, DuckDB and numpy, which let other threads run meanwhile. What comes back is in
the order of the pieces, whoever is done first, so nothing that a batch leaves depends on it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def side_by_side(pieces: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """What the pieces give, in their order; if several fail, the error of the first of them.

    >>> side_by_side([lambda: "a", lambda: "b"], threads=2)
    ['a', 'b']
    """
    if threads < 2 or len(pieces) < 2:
        return [piece() for piece in pieces]
    # Each sees what the caller has set for itself, such as where files wait to be synced.
    futures = [_pool(threads).submit(copy_context().run, piece) for piece in pieces]
    wait(futures)  # nobody goes on, or tries again, while one of them still writes
    return [future.result() for future in futures]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """They stay: every batch needs them."""
    return ThreadPoolExecutor(threads, "penstock-batch")


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
