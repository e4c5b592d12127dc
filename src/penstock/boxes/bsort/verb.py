"""Boxes on the order of arrival, as the Python language builds them: BSort, Assume, Cleanse and Merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.algebra.order import Order
from penstock.boxes.bsort.box import BSort
from penstock.boxes.requirements import order_keys
from penstock.boxes.times import only_progressing, require_time

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def bsort(
    stream: Stream, *, slack: int, on: str | None = None, by: Sequence[str] | str = (), name: str | None = None
) -> Stream:
    builder = stream._builder
    label = builder._fresh("bsort", name)
    with builder._building(label):
        attribute = on if on is not None else only_progressing((stream,), "to sort on")
        require_time(stream, attribute)
        keys = order_keys(attribute, by, stream.schema)
        return builder._add(BSort(label, (stream._port,), Order(attribute, slack, keys)))
