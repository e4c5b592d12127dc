"""AsFacts, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.boxes.as_facts.box import AsFacts
from penstock.boxes.lifetimes import require_temporal

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def as_facts(stream: Stream, name: str | None) -> Stream:
    builder = stream._builder
    label = builder._fresh("as_facts", name)
    with builder._building(label):
        require_temporal(stream._port, "as_facts")
        return builder._add(AsFacts(label, (stream._port,)))
