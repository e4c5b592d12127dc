"""Cleanse and Merge, as the Python language builds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.boxes.cleanse.box import Cleanse, Merge
from penstock.boxes.requirements import order_keys, refuse_different
from penstock.boxes.times import only_progressing, require_time
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def cleanse(stream: Stream, *, on: str | None = None, by: Sequence[str] | str = (), name: str | None = None) -> Stream:
    builder = stream._builder
    label = builder._fresh("cleanse", name)
    with builder._building(label):
        attribute = on if on is not None else only_progressing((stream,), "to sort on")
        require_time(stream, attribute)
        keys = order_keys(attribute, by, stream.schema)
        stream.require_progress(attribute, "a sort", "never let anything go")
        return builder._add(Cleanse(label, (stream._port,), attribute, keys))


def merge(*streams: Stream, on: str | None = None, name: str | None = None) -> Stream:
    """All tuples of several streams of one schema, in order of `on`: the order-preserving union.

    `on` is an attribute that all of them make progress on, and may be left out if there is only one. A tuple leaves
    when the low-water marks of all streams have reached it; equal ones leave as they arrive, and those that leave
    together in the order of the streams. `name` names the box.
    """
    if len(streams) < 2:
        raise QueryError("a merge needs at least two streams", found=str(len(streams)))
    builder = streams[0]._builder
    label = builder._fresh("merge", name)
    with builder._building(label):
        if any(s._builder is not builder for s in streams):
            raise QueryError("the streams of a merge belong to different networks")
        ports = tuple(s._port for s in streams)
        refuse_different(ports, "merge")
        attribute = on if on is not None else only_progressing(streams, "to merge on")
        require_time(streams[0], attribute)
        for stream in streams:
            stream.require_progress(attribute, "a merge", "never let anything go")
        return builder._add(Merge(label, ports, attribute))
