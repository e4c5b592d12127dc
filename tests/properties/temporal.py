"""Temporal databases in plain Python, element by element: what temporal streams must come to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.algebra.temporal.elements import ADJUST, COLUMNS, INSERT

Event = tuple[Any, Any, Any]
"""Payload, Vs and Ve; an end that is NULL is infinity."""


class Database:
    """A multiset of events, which elements change; one that is illegal fails."""

    def __init__(self) -> None:
        self.events: Counter[Event] = Counter()

    def apply(self, elements: Iterable[Mapping[str, Any]]) -> None:
        for element in elements:
            start, end, old = (element[name] for name in ("vs", "ve", "vold"))
            payload = tuple(value for name, value in element.items() if name not in COLUMNS)
            if element["kind"] == INSERT:
                assert (old, element["sync"]) == (None, start)
                assert until(end) > start
            else:
                assert (element["kind"], element["sync"]) == (ADJUST, min(until(old), until(end)))
                assert self.events[payload, start, old] > 0, f"{element} adjusts what is not there"
                assert old != end
                self.events[payload, start, old] -= 1
            if end != start:
                self.events[payload, start, end] += 1
        self.events = +self.events


def until(end: Any) -> Any:
    """An end as a number."""
    return math.inf if end is None else end
