"""What a join of temporal streams holds, and what it reads of that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, stamped
from tests.properties.temporal_source import temporal_source

import penstock as pk
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END
from penstock.testing.memory_slots import MemorySlots

PAYLOAD = {"k": "int64", "v": "int64"}
FEW = 120


class Driven:
    """A join, batch by batch."""

    def __init__(self, predicate: str | None) -> None:
        net = pk.Network("net")
        sides = [temporal_source(net, name, PAYLOAD) for name in ("a", "b")]
        self.box = box_of(sides[0].join(sides[1], predicate))
        self.slots = MemorySlots()
        self.released = 0

    def batch(self, rows: tuple[list[Any], list[Any]], stable: int) -> int:
        """The number of elements that leave."""
        holder = self.box.holder(self.slots, ())
        entry = self.box.entry(())
        for side, said in enumerate(rows):
            if said:
                schema = self.box.inputs[side].schema
                columns = [pa.array(c, t) for c, t in zip(zip(*said, strict=True), schema.types, strict=True)]
                entry.process(side, pa.table([*columns, np.arange(len(said))], names=[*schema.names, SEQ]))
        for part, tuples in entry.flush():
            holder.receive(part, stamped(tuples))
        left = sum(t.num_rows for _, t in holder.punctuate([Marks({"sync": stable})] * 2, 0))
        self.released += holder.released
        return left


@pytest.mark.parametrize("predicate", ["l.k = r.k", "l.v < r.v"])
def test_state_does_not_grow(predicate: str) -> None:
    """Events without an end are given one three batches later, and others have one from the start."""
    driven, most, said = Driven(predicate), 0, 0
    for at in range(FEW):
        begun = [(at, "insert", at, None, None, at % 7, 1), (at, "insert", at, at + 4, None, at % 5, 2)]
        ended = [(at, "adjust", at - 3, at, None, (at - 3) % 7, 1)] if at >= 3 else []
        driven.batch((begun + ended, begun), at - 4)
        said += 2 * len(begun) + len(ended)
        most = max(most, driven.slots.rows()) if at < FEW // 2 else most
        assert at < FEW // 2 or driven.slots.rows() <= 2 * most
    # The right side never ends its events, so they stay.
    forever = FEW
    assert driven.slots.rows() <= forever + 60
    driven.batch(([], []), END)
    assert driven.slots.rows() == 0


def test_a_batch_reads_only_slots_of_its_keys() -> None:
    driven = Driven("l.k = r.k")
    many = [(1, "insert", 1, None, None, key, 0) for key in range(500)]
    driven.batch((many, many), 0)
    held = {slot: dict(parts) for slot, parts in driven.slots.held.items()}
    assert driven.batch(([(5, "adjust", 1, 5, None, 7, 0)], []), 0) == 1
    changed = [slot for slot, parts in driven.slots.held.items() if parts.get("events") is not held[slot].get("events")]
    grown = [slot for slot in held if len(driven.slots.held[slot].get("events", ())) > 1]
    assert not changed
    assert len(grown) == 1


def test_idle_slots_are_swept_as_the_stable_point_passes() -> None:
    driven = Driven("l.k = r.k")
    driven.batch(([(1, "insert", 1, 10 + key, None, key, 0) for key in range(300)], []), 0)
    driven.batch(([], []), 200)
    # At least half of a slot has passed when it is read again.
    assert driven.slots.rows() <= 2 * (300 - 190)
    driven.batch(([], []), 400)
    assert driven.slots.rows() == 0
    assert driven.released == 300
