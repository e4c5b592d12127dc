"""What a bucket of a stage remembers from batch to batch, besides the state of its boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.algebra.marks import Marks
from penstock.progress.extremes import Extremes
from penstock.progress.shards import read_shards, write_shards
from penstock.runtime.formats import refuse_other

FORMAT: Final = 3
"""How memos are written. Another one is refused, but for the one before."""
_BEFORE_SETS: Final = 2
"""It says the same. The state beside it has no sets of codes, which versions that write it do not know."""


@dataclass(frozen=True)
class Memo:
    """What a bucket knows of the batch before, and of progress."""

    offset: str = ""
    """What the offset of the batch comes to for which the state was made; nothing before the intake has said so."""
    now: int = 0
    """The clock reading of that batch."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The version of every static table, by the name of its box."""
    shards: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """For the first stage: what the shards of each input have delivered."""
    heard: Mapping[str, Mapping[str, Marks]] = field(default_factory=dict)
    """For later stages: the low-water marks that each bucket before them has told, by sender and box."""
    sent: Mapping[str, Marks] = field(default_factory=dict)
    """What the next stage was last told of them, by box."""

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what says nothing is left out.

        >>> Memo(now=3, sent={"counts": Marks({"ts": 5})}).to_json()
        {'format': 3, 'now': 3, 'sent': {'counts': {'rising': {'ts': 5}}}}
        """
        told = {
            "offset": self.offset,
            "now": self.now,
            "tables": self.tables,
            "shards": {name: write_shards(known) for name, known in self.shards.items()},
            "heard": {sender: _written(told) for sender, told in self.heard.items()},
            "sent": _written(self.sent),
        }
        return {"format": FORMAT, **{name: value for name, value in told.items() if value}}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Memo:
        if not document:
            return Memo()
        if document.get("format") != _BEFORE_SETS:
            refuse_other("the memo of a stage", document, FORMAT)
        return Memo(
            document.get("offset", ""),
            document.get("now", 0),
            document.get("tables", {}),
            {name: read_shards(known) for name, known in document.get("shards", {}).items()},
            {sender: _read(told) for sender, told in document.get("heard", {}).items()},
            _read(document.get("sent", {})),
        )


def _written(told: Mapping[str, Marks]) -> dict[str, Any]:
    return {box: marks.to_json() for box, marks in told.items()}


def _read(told: Mapping[str, Any]) -> dict[str, Marks]:
    return {box: Marks.from_json(marks) for box, marks in told.items()}
