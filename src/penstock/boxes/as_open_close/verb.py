"""AsOpenClose, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.algebra.temporal.open_close import AT
from penstock.boxes.as_open_close.box import AsOpenClose
from penstock.boxes.lifetimes import require_temporal
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def as_open_close(stream: Stream, name: str | None) -> Stream:
    builder = stream._builder
    label = builder._fresh("as_open_close", name)
    with builder._building(label):
        require_temporal(stream._port, "as_open_close")
        if AT in stream.schema.names:
            raise QueryError(f"a column of the payload is called '{AT}'", hint="rename it with map() before")
        return builder._add(AsOpenClose(label, (stream._port,)))
