"""Map, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.algebra.expressions.binding import bind
from penstock.boxes.lifetimes import kept_lifetime
from penstock.boxes.map.box import Map
from penstock.boxes.requirements import refuse_hidden
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def map_stream(stream: Stream, outputs: Mapping[str, str], name: str | None) -> Stream:
    builder = stream._builder
    label = builder._fresh("map", name)
    with builder._building(label):
        if not outputs:
            raise QueryError("a map needs at least one output attribute", hint="map(minute='ts / 60')")
        refuse_hidden(tuple(outputs))
        bound = tuple((out, bind(text, stream.schema, what=f"attribute '{out}'")) for out, text in outputs.items())
        return builder._add(Map(label, (stream._port,), (*kept_lifetime(stream._port, bound), *bound)))
