"""The entries of a direct-mapped table across batches: what was put is kept, and what is written stays small."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level import entries
from penstock.boxes.aggregate.low_level.entries import FIRST_LOG_SLOT, PLACE, TURN_SLOT, Entries
from penstock.errors import WorldError
from penstock.testing.memory_slots import MemorySlots


def rows_of(held: dict[int, tuple[int, int]]) -> pa.Table:
    """Place -> (pane, value) as entries."""
    columns = {PLACE: list(held), PANE: [p for p, _ in held.values()], "v": [v for _, v in held.values()]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def replace(table: Entries, new: dict[int, tuple[int, int]]) -> None:
    if len(met := table.at(np.array(list(new)))):
        table.lift(met)
    table.put(rows_of(new))


def content(table: Entries) -> dict[int, tuple[int, int]]:
    held = table.lift(table.below(2**62)) if table.panes else rows_of({})
    return {row[PLACE]: (row[PANE], row["v"]) for row in held.to_pylist()}


@pytest.mark.parametrize(("places", "slot_places"), [(1, 4), (7, 4), (40, 4), (64, 8), (200, 64)])
@pytest.mark.parametrize("batch", [1, 5, 60])
def test_entries_are_those_last_put_in_their_places(
    places: int, slot_places: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "SLOT_PLACES", slot_places)
    monkeypatch.setattr(entries, "LOG_PIECES", 5)
    draws, slots, model = random.Random(places * batch), MemorySlots(), {}
    for number in range(60):
        table = Entries(slots, places)
        new = {draws.randrange(places): (draws.randrange(4), number) for _ in range(draws.randrange(batch) + 1)}
        replace(table, new)
        model |= new
        gone = draws.choice([-1, -1, 0, 1, 4])
        if gone >= 0 and any(pane < gone for pane in table.panes):
            table.remove(table.below(gone))
            model = {place: entry for place, entry in model.items() if entry[0] >= gone}
        table.save()
        found = Entries(slots, places)
        assert found.panes == table.panes
        assert found.number == len(model)
        assert content(found) == model
        logs = [n for n in slots.numbers() if n <= FIRST_LOG_SLOT]
        assert sum(slots.count(n, entries.ENTRIES) for n in logs) <= 5 + 2  # slots do not divide evenly
        if not model:
            assert slots.numbers() == []


def test_a_small_batch_writes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SLOT_PLACES", 100)
    slots = MemorySlots()
    first = Entries(slots, 1000)
    first.put(rows_of(dict.fromkeys(range(1000), (0, 0))))
    first.save()
    folded = {n: slots.chunks(n, entries.ENTRIES)[0] for n in slots.numbers() if n >= 0}
    assert len(folded) == 10
    for batch in range(1, 31):
        table = Entries(slots, 1000)
        replace(table, dict.fromkeys(range(batch * 10, batch * 10 + 10), (0, batch)))
        table.save()
        changed = [n for n, chunk in folded.items() if slots.chunks(n, entries.ENTRIES)[0] is not chunk]
        folded = {n: slots.chunks(n, entries.ENTRIES)[0] for n in folded}
        # A slot is folded for every 25 entries that are put: a quarter of its places.
        assert len(changed) == (batch * 10) // 25 - (batch * 10 - 10) // 25
    logs = [n for n in slots.numbers() if n <= FIRST_LOG_SLOT]
    assert sum(c.num_rows for n in logs for c in slots.chunks(n, entries.ENTRIES)) <= 1000 // 4 + 10


def test_a_batch_as_large_as_the_table_leaves_no_log() -> None:
    slots = MemorySlots()
    for batch in range(3):
        table = Entries(slots, 50)
        replace(table, dict.fromkeys(range(50), (batch, batch)))
        table.save()
        assert [n for n in slots.numbers() if n not in (entries.LEDGER_SLOT, TURN_SLOT)] == [0]


def test_turns_go_round_the_table_over_several_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SLOT_PLACES", 4)
    table = Entries(MemorySlots(), 14)
    table.put(rows_of({place: (place % 2, 0) for place in range(1, 13)}))
    assert table.turn(0, 0, 100, 7).tolist() == [8, 10, 12, 2, 4, 6]
    assert table.turn(0, 1, 4, 11).tolist() == [11, 12, 1, 2]
    assert table.turn(1, 1, 3, 0).tolist() == [1, 3, 5]
    assert table.turn(5, 9, 3, 0).tolist() == []


def test_a_table_without_its_ledger_is_refused_and_not_taken_for_empty() -> None:
    slots = MemorySlots()
    slots.append(0, entries.ENTRIES, rows_of({1: (0, 7)}))
    with pytest.raises(WorldError, match="low-level table of an earlier version"):
        Entries(slots, 50)
