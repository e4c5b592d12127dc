"""`assert_rows` says what differs."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.testing import assert_rows

COUNTS = pa.table({"ts": [0, 10, 10], "n": [2, 1, 1]})


def test_rows_may_come_in_any_order_as_tuples_or_dicts() -> None:
    assert_rows(COUNTS, [(10, 1), {"n": 2, "ts": 0}, (10, 1)])
    assert_rows(COUNTS.to_pylist(), [(0, 2), (10, 1), (10, 1)])
    assert_rows(COUNTS.slice(0, 0), [])
    assert_rows([], [])


def test_equal_rows_count() -> None:
    with pytest.raises(AssertionError, match=r"2 rows were expected and 3 found"):
        assert_rows(COUNTS, [(0, 2), (10, 1)])


def test_what_is_missing_is_told() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_rows([], [(0, 2)])
    assert str(failed.value) == (
        "1 row was expected and 0 found, but they differ\n  missing:      {'column 1': 0, 'column 2': 2}"
    )


def test_order_is_looked_at_on_demand() -> None:
    assert_rows(COUNTS, [(0, 2), (10, 1), (10, 1)], ordered=True)
    with pytest.raises(AssertionError) as failed:
        assert_rows(COUNTS, [(10, 1), (0, 2), (10, 1)], ordered=True)
    assert str(failed.value) == "row 1 differs\n  expected: {'ts': 10, 'n': 1}\n  found:    {'ts': 0, 'n': 2}"
    with pytest.raises(AssertionError, match="2 rows were expected and 3 found\n  not expected: "):
        assert_rows(COUNTS, [(0, 2), (10, 1)], ordered=True)


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1.0, 1, True),
        (1.0, 1.001, False),
        (math.nan, math.nan, True),
        (None, 0.0, False),
        ([0.1 + 0.2, 1.0], [0.3, 1], True),
        ({"x": 0.1 + 0.2}, {"x": 0.3}, True),
    ],
)
def test_floats_are_equal_to_rounding(found: Any, expected: Any, same: bool) -> None:
    table = pa.Table.from_pylist([{"v": found}])
    if same:
        assert_rows(table, [(expected,)])
    else:
        with pytest.raises(AssertionError):
            assert_rows(table, [(expected,)])


def test_the_tolerance_can_be_set() -> None:
    assert_rows(pa.table({"v": [10.0]}), [(10.5,)], tolerance=0.1)


def test_times_may_be_written_as_text() -> None:
    table = pa.table({"ts": pa.array([60_000_000], pa.timestamp("us")), "day": pa.array([0], pa.date32())})
    assert_rows(table, [("1970-01-01 00:01:00", "1970-01-01")])


@pytest.mark.parametrize("row", [(1,), (1, 2, 3), {"ts": 1}, {"ts": 1, "m": 2}, "ab"])
def test_a_row_with_other_columns_is_refused(row: Any) -> None:
    with pytest.raises(QueryError, match="an expected row has other columns"):
        assert_rows(COUNTS, [row])


def test_a_long_list_is_cut() -> None:
    with pytest.raises(AssertionError, match=r"\.\.\. and 5 more"):
        assert_rows(pa.table({"v": list(range(25))}), [])
