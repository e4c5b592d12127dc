"""Dedupe, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.boxes.dedupe.box import Dedupe
from penstock.boxes.requirements import key_columns
from penstock.boxes.times import only_progressing, refuse_downwards, require_time

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def dedupe(
    stream: Stream, *, by: Sequence[str] | str | None = None, on: str | None = None, name: str | None = None
) -> Stream:
    builder = stream._builder
    label = builder._fresh("dedupe", name)
    with builder._building(label):
        attribute = on if on is not None else only_progressing((stream,), "duplicates agree in")
        require_time(stream, attribute)
        refuse_downwards(stream, attribute, "a dedupe")
        stream.require_progress(attribute, "what a dedupe remembers", "be kept for ever")
        keys = key_columns(stream.schema.names if by is None else by, stream.schema)
        return builder._add(Dedupe(label, (stream._port,), attribute, tuple(k for k in keys if k != attribute)))
