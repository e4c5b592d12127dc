"""Boxes to put under an operator, and slots in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.algebra.box import Box
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.ticks import BEGINNING


def box_of(stream: pk.Stream) -> Any:
    """The box whose output a stream is."""
    found: Box = stream._port.box
    return found


def source(schema: dict[str, str]) -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=schema))


def stamped(tuples: pa.Table, arrived: int = 0) -> pa.Table:
    """Tuples as a holder receives them: with the time of their arrival."""
    return tuples.append_column(ARRIVED, pa.repeat(pa.scalar(arrived, pa.int64()), tuples.num_rows))


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
        return sum(c.num_rows for parts in self.held.values() for chunks in parts.values() for c in chunks)

    def get_mark(self) -> int:
        return self.mark

    def set_mark(self, mark: int) -> None:
        self.mark = mark
