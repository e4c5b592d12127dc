"""AsFacts, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.boxes.as_facts.box import AsFacts
from penstock.boxes.lifetimes import require_temporal
from penstock.boxes.requirements import key_columns

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def as_facts(stream: Stream, name: str | None) -> Stream:
    builder = stream._builder
    label = builder._fresh("as_facts", name)
    with builder._building(label):
        require_temporal(stream._port, "as_facts")
        box = AsFacts(label, (stream._port,))
        key_columns(box.payload, stream.schema, "the payload")
        return builder._add(box)
