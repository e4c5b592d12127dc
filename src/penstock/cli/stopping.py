"""Ctrl-C as a request: what is under way is brought to a clean end, then the command goes on to its summary."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from penstock.errors import InternalError
from penstock.spark.session import get_session

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL: Final = 128
"""What shells add to the number of the signal that has ended a process."""
_CURSOR: Final = b"\x1b[?25h"
"""Shows the cursor of a terminal, which a live view may have hidden."""
_AT_ONCE: Final = b"stopped at once; a batch that was under way is left out, and done again from the checkpoint\n"


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets; the second one ends the process at once.

    An exception out of the blue would tear a call to the JVM in two, so nothing is raised. The JVM ends by itself when
    the process is gone.
    """
    wanted = threading.Event()
    before = {int(number): signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        if wanted.is_set():
            if sys.stdout.isatty():
                os.write(sys.stdout.fileno(), _CURSOR)
            os.write(sys.stderr.fileno(), _AT_ONCE)
            os._exit(_BY_SIGNAL + number)
        wanted.set()

    for known in before:
        signal.signal(known, ask)
    try:
        yield wanted
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)


def start_spark(master: str | None = None) -> Any:
    """Start the Spark session, on a thread of its own: one made on the main thread takes Ctrl-C for itself."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(get_session, master).result()


@contextmanager
def interruptible(stop: threading.Event) -> Iterator[None]:
    """In a terminal Ctrl-C reaches Spark's workers too: the batch they are at fails, and is left out whole."""
    try:
        yield
    except InternalError:
        if not stop.is_set():
            raise
