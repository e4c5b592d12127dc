"""Ctrl-C as a request: what is under way is brought to a clean end, then the command goes on to its summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from penstock.errors import InternalError
from penstock.spark.session import get_session

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets; the second one ends the process as usual.

    An exception out of the blue would tear a call to the JVM in two, so nothing is raised.
    """
    wanted = threading.Event()
    before = {int(number): signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        wanted.set()
        signal.signal(number, before[number])

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
