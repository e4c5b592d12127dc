"""Work that is done beside a run, on the driver: targets that look after the place where they have written.

One thread does it, an output's work after that of another. What fails is told in the log and done the next time: a run
does not end for want of tidiness.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

LOG = logging.getLogger("penstock.upkeep")

Work = Callable[[], None]


class Caretaker:
    """Does work in the background until it is closed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[str, Future[None]] = {}

    def take(self, output: str, work: Work, may: Work) -> None:
        """Do an output's work when there is time; left out if there is still some to do for it. `may` raises if this
        process has lost the right to do it."""
        before = self._under_way.get(output)
        if before is not None and not before.done():
            return
        self._pool = self._pool if self._pool is not None else ThreadPoolExecutor(1, "penstock-upkeep")
        self._under_way[output] = self._pool.submit(_done, output, work, may)

    def finish(self) -> None:
        """Wait until all work is done that was taken."""
        wait(self._under_way.values())

    def close(self) -> None:
        """Finish what is under way; what has not begun is left out."""
        pool, self._pool = self._pool, None  # who stops a run and who sees it end may both come here
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _done(output: str, work: Work, may: Work) -> None:
    try:
        may()
        work()
    except Exception as error:
        LOG.warning("the place of output '%s' could not be looked after: %s", output, error)
