"""The direct-mapped table: a batch placed at once ends as if it had been placed row by row."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source, stamped

from penstock.algebra.expressions.kernel import run
from penstock.algebra.ticks import END
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level import entries
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.aggregate.low_level.direct_table import DirectTable
from penstock.testing.memory_slots import MemorySlots

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


def emptied(box: LowLevel, slots: MemorySlots) -> list[pa.Table]:
    """All that a table holds."""
    table = DirectTable(box, slots).entries
    return [table.remove(table.below(END))] if table.panes else []


@pytest.mark.parametrize("places", [1, 2, 3, 8, 100])
def test_a_batch_ends_as_row_by_row(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SLOT_PLACES", 3)  # several slots
    draws = random.Random(places)
    box, slots, model = low_level(places), MemorySlots(), RowByRow(places)
    for _ in range(12):
        groups = [None, *"abcdefghij"]
        count = draws.randrange(1, 30)
        rows = [(draws.randrange(3), draws.choice(groups), draws.randrange(1, 5)) for _ in range(count)]
        model.ejected = []
        for row in rows:
            model.place(row)
        table = DirectTable(box, slots)
        ejected = table.place(partials(box, rows))
        table.entries.save()
        assert sorted(content(ejected), key=str) == sorted(model.ejected, key=str)
        held = [row for rest in emptied(box, slots) for row in content(rest)]
        assert sorted(held, key=str) == sorted(model.held.values(), key=str)


def test_whole_numbers_are_spread_over_the_table_and_stay_where_they_are() -> None:
    box, slots = low_level(1 << 16, ("j",)), MemorySlots()
    rows = [(0, group, 1) for group in (None, *range(-2000, 2000))]
    for _ in range(2):
        table = DirectTable(box, slots)
        ejected = table.place(partials(box, rows))
        table.entries.save()
    # Random places would collide in some 120 of 4,001 cases; every one of them ejects once in each batch.
    assert ejected.num_rows < 300
    counts = [row[2] for rest in emptied(box, slots) for row in content(rest, "j")]
    assert sum(counts) + sum(row[2] for row in content(ejected, "j")) >= 2 * len(rows) - 300
    assert set(counts) <= {1, 2}


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
    kept = [table.entries.remove(table.entries.below(END))]
    counts = sorted(row["p0"] for t in (ejected, *kept) for row in t.to_pylist())
    grouped = run(f"SELECT count(*) AS n FROM t GROUP BY {name}", t=pa.table({name: pa.array(groups, KEYS[name])}))
    assert counts == sorted(grouped["n"].to_pylist())


def test_the_global_group_has_one_place() -> None:
    box, slots = low_level(50, ()), MemorySlots()
    table = DirectTable(box, slots)
    rows = stamped(pa.table({PANE: pa.array([0, 0, 1, 0]), "p0": pa.array([1, 2, 3, 4])}))
    assert [(r[PANE], r["p0"]) for r in table.place(rows).to_pylist()] == [(0, 3), (1, 3)]
    assert table.entries.panes == {0: 1}
