"""The direct-mapped table: a batch placed at once ends as if it had been placed row by row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.tables import MemorySlots, box_of, source, stamped

from penstock.algebra.kernel import run
from penstock.algebra.lowlevel import LowLevel
from penstock.operators import direct_table
from penstock.operators.direct_table import ENTRIES, PLACE, DirectTable
from penstock.operators.subaggregate import PANE

KEYS = {"k": pa.string(), "j": pa.int64(), "f": pa.float64(), "l": pa.list_(pa.int64())}
Row = tuple[int, Any, int]
"""Pane, group, count."""


def low_level(table: int, by: tuple[str, ...] = ("k",)) -> LowLevel:
    schema = {"ts": "int64", **{name: str(kind) for name, kind in KEYS.items() if name != "l"}, "l": "list<int64>"}
    behind = source(schema).aggregate({"n": "count(*)"}, on="ts", size=10, by=by, flush="lazy", table=table)
    found: LowLevel = box_of(behind).inputs[0].box
    return found


def partials(box: LowLevel, rows: list[Row]) -> pa.Table:
    panes, groups, counts = zip(*rows, strict=True)
    (name,) = box.by
    columns = {PANE: pa.array(panes, pa.int64()), name: pa.array(groups, KEYS[name]), "p0": pa.array(counts)}
    return stamped(pa.table(columns))


def content(table: pa.Table, by: str = "k") -> list[Row]:
    return [(row[PANE], row[by], row["p0"]) for row in table.to_pylist()]


def place_of(group: str | None, table: int) -> int:
    hashed = run(f"SELECT CAST((hash(k) >> 32) % {table} AS BIGINT) AS p FROM t", t=pa.table({"k": [group]}))
    return int(hashed["p"][0].as_py())


class RowByRow:
    """What the paper's table does, a row at a time."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.held: dict[int, Row] = {}
        self.ejected: list[Row] = []

    def place(self, row: Row) -> None:
        at = place_of(row[1], self.places)
        occupant = self.held.get(at)
        if occupant is not None and occupant[:2] == row[:2]:
            self.held[at] = (*row[:2], occupant[2] + row[2])
            return
        if occupant is not None:
            self.ejected.append(occupant)
        self.held[at] = row


@pytest.mark.parametrize("places", [1, 2, 3, 8, 100])
def test_a_batch_ends_as_row_by_row(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_table, "SLOT_PLACES", 3)  # several slots
    draws = random.Random(places)
    box, slots, model = low_level(places), MemorySlots(), RowByRow(places)
    for _ in range(6):
        groups = [None, *"abcdefghij"]
        count = draws.randrange(1, 30)
        rows = [(draws.randrange(3), draws.choice(groups), draws.randrange(1, 5)) for _ in range(count)]
        model.ejected = []
        for row in rows:
            model.place(row)
        table = DirectTable(box, slots)
        ejected = table.place(partials(box, rows))
        table.save()
        assert sorted(content(ejected), key=str) == sorted(model.ejected, key=str)
        kept = [c for n in slots.numbers() for c in slots.chunks(n, ENTRIES)]
        assert {row[PLACE]: (row[PANE], row["k"], row["p0"]) for c in kept for row in c.to_pylist()} == model.held
        assert slots.rows() == len(model.held) <= places
        assert all(row[PLACE] // 3 == n for n in slots.numbers() for row in slots.chunks(n, ENTRIES)[0].to_pylist())


def test_slots_that_a_batch_does_not_touch_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_table, "SLOT_PLACES", 1)
    box, slots = low_level(1000), MemorySlots()
    first = DirectTable(box, slots)
    first.place(partials(box, [(0, name, 1) for name in "abcdef"]))
    first.save()
    before = {n: slots.chunks(n, ENTRIES)[0] for n in slots.numbers()}
    second = DirectTable(box, slots)
    second.place(partials(box, [(0, "a", 1)]))
    second.save()
    changed = [n for n, chunk in before.items() if slots.chunks(n, ENTRIES)[0] is not chunk]
    assert changed == [place_of("a", 1000)]


def test_entries_are_taken_out_and_empty_slots_let_go() -> None:
    box, slots = low_level(1000), MemorySlots()
    table = DirectTable(box, slots)
    table.place(partials(box, [(0, "a", 1), (1, "b", 2), (0, "c", 3)]))
    gone = table.remove(table.panes == 0)
    table.save()
    assert sorted(content(pa.concat_tables(gone))) == [(0, "a", 1), (0, "c", 3)]
    assert slots.rows() == 1
    rest = DirectTable(box, slots)
    assert rest.remove(np.zeros(1, np.bool_)) == []
    rest.remove(np.ones(1, np.bool_))
    rest.save()
    assert slots.numbers() == []


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("j", [None, 1, None, 1, 2]),
        ("f", [0.0, -0.0, float("nan"), float("nan"), None]),
        ("l", [[1], None, [1], [1, 2], None]),
    ],
)
def test_groups_of_any_type_merge_as_group_by_does(name: str, groups: list[Any]) -> None:
    box, slots = low_level(4096, (name,)), MemorySlots()
    table = DirectTable(box, slots)
    ejected = table.place(partials(box, [(0, group, 1) for group in groups]))
    kept = table.remove(np.ones(len(table.panes), np.bool_))
    counts = sorted(row["p0"] for t in (ejected, *kept) for row in t.to_pylist())
    grouped = run(f"SELECT count(*) AS n FROM t GROUP BY {name}", t=pa.table({name: pa.array(groups, KEYS[name])}))
    assert counts == sorted(grouped["n"].to_pylist())


def test_the_global_group_has_one_place() -> None:
    box, slots = low_level(50, ()), MemorySlots()
    table = DirectTable(box, slots)
    rows = stamped(pa.table({PANE: pa.array([0, 0, 1, 0]), "p0": pa.array([1, 2, 3, 4])}))
    assert [(r[PANE], r["p0"]) for r in table.place(rows).to_pylist()] == [(0, 3), (1, 3)]
    assert table.panes.tolist() == [0]
