"""Union, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.boxes.lifetimes import refuse_mixed
from penstock.boxes.union.box import Union
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def union(*streams: Stream, name: str | None = None) -> Stream:
    """All tuples of several streams of one schema, in any order."""
    if len(streams) < 2:
        raise QueryError("a union needs at least two streams", found=str(len(streams)))
    builder = streams[0]._builder
    label = builder._fresh("union", name)
    with builder._building(label):
        if any(s._builder is not builder for s in streams):
            raise QueryError("the streams of a union belong to different networks")
        refuse_mixed(tuple(s._port for s in streams), "union")
        return builder._add(Union(label, tuple(s._port for s in streams)))
