"""What a process remembers of the files that it has read last, for all its threads."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """The last values that were put here, by key; of more than `most`, the oldest go.

    >>> recent = Recent[int](2)
    >>> [recent.put(key, at) for at, key in enumerate("abc")], recent.get("a"), recent.take("b"), recent.get("b")
    ([[], [], [0]], None, 1, None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, V] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            return self._values.get(key)

    def take(self, key: Hashable) -> V | None:
        """A value that is the caller's from now on."""
        with self._lock:
            return self._values.pop(key, None)

    def put(self, key: Hashable, value: V) -> list[V]:
        """Remember a value; those that are not remembered any more."""
        with self._lock:
            gone = [self._values.pop(key)] if key in self._values else []
            self._values[key] = value
            gone += [self._values.pop(old) for old in list(self._values)[: -self._most]]
            return gone
