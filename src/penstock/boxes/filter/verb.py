"""Filter, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.algebra.expressions.binding import bind_predicate
from penstock.boxes.filter.box import Filter
from penstock.boxes.lifetimes import require_fixed
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def filter_box(stream: Stream, predicates: Sequence[str], name: str | None, *, rest: bool) -> Filter:
    builder = stream._builder
    label = builder._fresh("filter", name)
    with builder._building(label):
        if not predicates:
            raise QueryError("a filter needs at least one predicate", hint="filter('len > 100')")
        bound = tuple(bind_predicate(p, stream.schema) for p in predicates)
        require_fixed(stream._port, bound, "a filter")
        box = Filter(label, (stream._port,), bound, rest)
        builder._add(box)
        return box
