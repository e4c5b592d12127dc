"""The state of groups in slots: groups share out a fixed number of slots, and a ledger says what waits in which.

A batch reads and rewrites the slots of the groups that it meets, and of those in which something is due: the ledger
knows the earliest of it, and is all that is read of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.arrays import Numbers
from penstock.operators.groups import GROUP_SLOTS, group_slots, number, parted
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import GATHER_CHUNKS, add_chunk
from penstock.operators.state.ledger import LEDGER_SLOT, Ledger


@dataclass(frozen=True)
class Account:
    """What waits in one slot."""

    start: int = END
    """The smallest start of a window that is open."""
    due: int = END
    """The smallest low-water mark at which anything changes."""
    opened: int = END
    """When the first tuple of a window that is open arrived."""
    windows: int = 0
    """How many windows of groups are open."""


@dataclass
class Accounts:
    """What waits in all slots."""

    accounts: dict[int, Account] = field(default_factory=dict)
    reached: int = BEGINNING
    """What the only group has reached, where there is only one."""
    origin: int | None = None
    """Its first value, where windows start there and it cannot move any more."""

    @staticmethod
    def load(slots: Slots) -> Accounts:
        known = Ledger(slots).read()
        if known is None:
            return Accounts()
        accounts = {int(slot): Account(**account) for slot, account in known.pop("accounts").items()}
        return Accounts(accounts, **known)

    def save(self, slots: Slots) -> None:
        Ledger(slots).write(asdict(self))


class GroupState:
    """Parts of state, by the slots of groups; `keys` are the columns by which groups find their slot."""

    def __init__(self, slots: Slots, keys: Sequence[str]) -> None:
        self._slots = slots
        self._keys = list(keys)
        self.ledger = Accounts.load(slots)

    def slots_of(self, tuples: pa.Table) -> Numbers:
        return group_slots(tuples, self._keys)

    def slots_met(self, tuples: pa.Table) -> list[int]:
        """The slots of the groups of tuples, each once."""
        if any(pa.types.is_dictionary(tuples.schema.field(name).type) for name in self._keys):
            tuples = number([tuples], self._keys)[0].keys
        found: list[int] = np.flatnonzero(np.bincount(self.slots_of(tuples), minlength=GROUP_SLOTS)).tolist()
        return found

    def used(self) -> set[int]:
        """The slots that hold anything."""
        return {slot for slot in self._slots.numbers() if slot != LEDGER_SLOT}

    def read(self, part: str, slots: Sequence[int]) -> pa.Table | None:
        chunks = [chunk for slot in slots for chunk in self._slots.chunks(slot, part)]
        return pa.concat_tables(chunks) if chunks else None

    def put(self, part: str, rows: pa.Table, slots: Sequence[int]) -> None:
        """Let these rows be all that some slots hold of a part."""
        placed = dict(parted(rows, self.slots_of(rows))) if rows.num_rows else {}
        for slot in slots:
            if slot in placed:
                self._slots.replace(slot, part, placed[slot])
            elif self._slots.count(slot, part):
                self._slots.replace(slot, part, rows.schema.empty_table())

    def add(self, part: str, rows: pa.Table) -> None:
        """Let the slots of these rows hold them too."""
        for slot, own in parted(rows, self.slots_of(rows)) if rows.num_rows else ():
            add_chunk(self._slots, slot, part, own, GATHER_CHUNKS)

    def write_accounts(self, slots: Sequence[int], accounts: Mapping[int, Account]) -> None:
        """What waits in these slots now."""
        for slot in slots:
            self.ledger.accounts.pop(slot, None)
        self.ledger.accounts |= accounts

    def save(self) -> None:
        self.ledger.save(self._slots)

    def clear(self) -> None:
        """Let go of everything."""
        for slot in self._slots.numbers():
            self._slots.drop(slot)
        self.ledger = Accounts()


def least(values: Numbers, slots: Numbers) -> Numbers:
    """The smallest value in each slot; `END` where there is none."""
    found = np.full(GROUP_SLOTS, END, np.int64)
    np.minimum.at(found, slots, values)
    return found
