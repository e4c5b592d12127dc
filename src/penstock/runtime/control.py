"""What a batch is told besides where its tuples lie. Light to load: the process that plans batches needs it too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.algebra.floors import Floors


@dataclass(frozen=True)
class Control:
    """What the offset of a batch says besides positions."""

    now: int = 0
    """The clock reading of the batch, in microseconds since the epoch: when its tuples arrived."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The version of every static table, by the name of its box."""
    start: str = ""
    """What the offset before this batch comes to; nothing where the intake has no part in the batch."""
    end: str = ""
    """What the offset of this batch comes to."""
    before: int = 0
    """The version of the network that the batch before ran; 0 where the intake has no part in the batch."""
    read: tuple[str, ...] = ()
    """The histories that have been read to their end with this batch, or before it."""
    floors: Mapping[str, Sequence[Floors]] = field(default_factory=dict)
    """The ticks below which tuples are of no use, for each stream that enters a box, by the box's name."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Control:
        return Control(**{**document, "read": tuple(document["read"])})
