"""How early the tuples are that a box holds, slot by slot: so it knows which slots to read, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.ticks import END, to_ticks
from penstock.operators.protocol import Slots
from penstock.operators.state.ledger import Ledger


@dataclass
class LowestTicks:
    """What is noted of the slots of a box that holds tuples back."""

    lowest: dict[int, dict[str, int]] = field(default_factory=dict)
    """The smallest ticks of some attributes in every slot that holds tuples."""
    arrivals: int = 0
    """Tuples that have arrived so far."""

    @staticmethod
    def load(slots: Slots) -> LowestTicks:
        known = Ledger(slots).read()
        if known is None:
            return LowestTicks()
        return LowestTicks({int(slot): low for slot, low in known["lowest"].items()}, known["arrivals"])

    def save(self, slots: Slots) -> None:
        Ledger(slots).write(asdict(self))

    def note(self, slot: int, tuples: pa.Table, attributes: Sequence[str], *, added: bool = False) -> None:
        """A slot holds these tuples now, or these too."""
        known = self.lowest.get(slot, {}) if added else {}
        lows = {a: pc.min(to_ticks(tuples.column(a))).as_py() for a in attributes}
        self.lowest[slot] = {a: min(known.get(a, END), END if low is None else low) for a, low in lows.items()}

    def least(self, attribute: str) -> int:
        """The smallest ticks of an attribute in all slots; `END` where nothing is held."""
        return min((low[attribute] for low in self.lowest.values()), default=END)
