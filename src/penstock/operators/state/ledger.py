"""What a box knows of its slots without reading them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.operators.protocol import Slots

_LEDGER: Final = BEGINNING
"""The slot of the ledger: the number of no other."""


@dataclass
class Ledger:
    """What a box knows of its slots without reading them. Kept as the metadata of an empty chunk, so it is no row."""

    lowest: dict[int, dict[str, int]] = field(default_factory=dict)
    """The smallest ticks of some attributes in every slot that holds tuples."""
    arrivals: int = 0
    """Tuples that have arrived so far."""

    @staticmethod
    def load(slots: Slots) -> Ledger:
        for chunk in slots.chunks(_LEDGER, "ledger"):
            known = json.loads(chunk.schema.metadata[b"ledger"])
            return Ledger({int(slot): low for slot, low in known["lowest"].items()}, known["arrivals"])
        return Ledger()

    def save(self, slots: Slots) -> None:
        text = json.dumps({"lowest": self.lowest, "arrivals": self.arrivals})
        slots.replace(_LEDGER, "ledger", pa.schema([], metadata={"ledger": text}).empty_table())

    def note(self, slot: int, tuples: pa.Table, attributes: Sequence[str], *, added: bool = False) -> None:
        """A slot holds these tuples now, or these too."""
        known = self.lowest.get(slot, {}) if added else {}
        lows = {a: pc.min(to_ticks(tuples.column(a))).as_py() for a in attributes}
        self.lowest[slot] = {a: min(known.get(a, END), END if low is None else low) for a, low in lows.items()}

    def least(self, attribute: str) -> int:
        """The smallest ticks of an attribute in all slots; `END` where nothing is held."""
        return min((low[attribute] for low in self.lowest.values()), default=END)
