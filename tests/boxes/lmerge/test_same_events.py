"""Rows are of the same event if they agree in all columns, by value."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from penstock.boxes.lmerge import same_events
from penstock.boxes.lmerge.same_events import event_numbers

NAN = math.nan


@pytest.mark.parametrize("block", [1, 3, 1024])
def test_it_groups_as_tuples_do(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_events, "BLOCK", block)
    random = np.random.default_rng(3)
    for _ in range(20):
        tables = [
            pa.table(
                {
                    "t": random.integers(0, 3, rows),
                    "s": pa.array(random.choice(["x", "y", None], rows).tolist(), pa.string()),
                    "b": pa.array(random.choice([b"", b"z", None], rows).tolist(), pa.binary()),
                }
            )
            for rows in random.integers(0, 12, 3).tolist()
        ]
        count, numbers = event_numbers(tables, ["t", "s", "b"])
        rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
        found = np.concatenate(numbers).tolist()
        assert all(0 <= number < count for number in found)
        assert len(set(found)) == len(set(rows)) == len(set(zip(rows, found, strict=True)))


def test_floats_and_nested_columns_are_compared_by_value() -> None:
    kinds = {"t": pa.int64(), "x": pa.float64(), "l": pa.list_(pa.int64()), "s": pa.string()}
    columns = [[1, 1, 1, 1], [NAN, NAN, 0.0, -0.0], [[1], [1], None, None], ["a", "a", None, None]]
    table = pa.table([pa.array(c, k) for c, k in zip(columns, kinds.values(), strict=True)], list(kinds))
    _, (numbers,) = event_numbers([table], list(kinds))
    assert numbers[0] == numbers[1] != numbers[2]
    assert numbers[2] == numbers[3]
