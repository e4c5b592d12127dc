"""State of a box in memory, for whoever drives a box's workers without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING


class MemorySlots:
    """`penstock.operators.protocol.Slots`, in a dictionary; counts what is read."""

    def __init__(self) -> None:
        self.held: dict[int, dict[str, list[pa.Table]]] = {}
        self.mark = BEGINNING
        self.reads = 0

    def numbers(self) -> Sequence[int]:
        return sorted(self.held)

    def chunks(self, slot: int, part: str) -> Sequence[pa.Table]:
        self.reads += 1
        return self.held.get(slot, {}).get(part, [])

    def count(self, slot: int, part: str) -> int:
        return len(self.held.get(slot, {}).get(part, []))

    def append(self, slot: int, part: str, tuples: pa.Table) -> None:
        self.held.setdefault(slot, {}).setdefault(part, []).append(tuples)

    def replace(self, slot: int, part: str, tuples: pa.Table) -> None:
        self.held.setdefault(slot, {})[part] = [tuples]

    def drop(self, slot: int) -> None:
        self.held.pop(slot, None)

    def rows(self) -> int:
        return sum(chunk.num_rows for chunk in self._chunks())

    def nbytes(self) -> int:
        """What is held, in bytes of Arrow."""
        return sum(int(chunk.nbytes) for chunk in self._chunks())

    def get_mark(self) -> int:
        return self.mark

    def set_mark(self, mark: int) -> None:
        self.mark = mark

    def _chunks(self) -> Iterator[pa.Table]:
        return (chunk for parts in self.held.values() for chunks in parts.values() for chunk in chunks)
