"""Boxes on the order of arrival, as the Python language builds them: BSort, Assume, Cleanse and Merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.assume import Assume
from penstock.algebra.bsort import BSort
from penstock.algebra.cleanse import Cleanse, Merge, refuse_different
from penstock.algebra.order import Order
from penstock.errors import QueryError
from penstock.language.checks import key_columns, require_columns, require_ticks
from penstock.language.times import only_progressing, require_time
from penstock.language.turning import refuse_downwards

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def assume(stream: Stream, order: Order, name: str | None = None) -> Stream:
    """The tuples that arrive in the order given; those that do not are in the late stream of the box."""
    builder = stream._builder
    label = builder._fresh("assume", name)
    with builder._building(label):
        if not isinstance(order, Order):
            raise QueryError(
                "that is no order specification", expected="pk.order(on=, slack=0, by=())", found=repr(order)
            )
        keys = _order_keys(order.on, order.by, stream.schema)
        refuse_downwards(stream, order.on, "assuming=")
        return builder._add(Assume(label, (stream._port,), replace(order, by=keys)))


def bsort(
    stream: Stream, *, slack: int, on: str | None = None, by: Sequence[str] | str = (), name: str | None = None
) -> Stream:
    builder = stream._builder
    label = builder._fresh("bsort", name)
    with builder._building(label):
        attribute = on if on is not None else only_progressing((stream,), "to sort on")
        require_time(stream, attribute)
        keys = _order_keys(attribute, by, stream.schema)
        return builder._add(BSort(label, (stream._port,), Order(attribute, slack, keys)))


def cleanse(stream: Stream, *, on: str | None = None, by: Sequence[str] | str = (), name: str | None = None) -> Stream:
    builder = stream._builder
    label = builder._fresh("cleanse", name)
    with builder._building(label):
        attribute = on if on is not None else only_progressing((stream,), "to sort on")
        require_time(stream, attribute)
        keys = _order_keys(attribute, by, stream.schema)
        stream.require_progress(attribute, "a sort", "never let anything go")
        return builder._add(Cleanse(label, (stream._port,), attribute, keys))


def merge(*streams: Stream, on: str | None = None, name: str | None = None) -> Stream:
    if len(streams) < 2:
        raise QueryError("a merge needs at least two streams", found=str(len(streams)))
    builder = streams[0]._builder
    label = builder._fresh("merge", name)
    with builder._building(label):
        if any(s._builder is not builder for s in streams):
            raise QueryError("the streams of a merge belong to different networks")
        ports = tuple(s._port for s in streams)
        refuse_different(ports)
        attribute = on if on is not None else only_progressing(streams, "to merge on")
        require_time(streams[0], attribute)
        for stream in streams:
            stream.require_progress(attribute, "a merge", "never let anything go")
        return builder._add(Merge(label, ports, attribute))


def _order_keys(on: str, by: Sequence[str] | str, schema: pa.Schema) -> tuple[str, ...]:
    """The groups of an order; refused where `on` cannot carry an order or is a group itself."""
    keys = key_columns(by, schema)
    require_columns((on,), schema)
    require_ticks(
        on, schema, "has no ticks to order by", "choose another attribute with on=, or compute one with map()"
    )
    if on in keys:
        raise QueryError(f"'{on}' is named twice: in on= and in by=", hint="leave it out of by=")
    return keys
