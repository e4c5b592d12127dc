"""What a box notes of its slots, to know it without reading them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.operators.protocol import Slots

LEDGER_SLOT: Final = BEGINNING
"""The number of no other slot."""


@dataclass(frozen=True)
class Ledger:
    """A note in JSON, kept as the metadata of an empty chunk, so that it is no row of the state."""

    slots: Slots
    slot: int = LEDGER_SLOT
    part: str = "ledger"
    key: str = "ledger"

    def read(self) -> Any:
        """What was noted last; None if nothing was."""
        for chunk in self.slots.chunks(self.slot, self.part):
            return json.loads(chunk.schema.metadata[self.key.encode()])
        return None

    def write(self, note: Any) -> None:
        content = pa.schema([], metadata={self.key: json.dumps(note)})
        self.slots.replace(self.slot, self.part, content.empty_table())
