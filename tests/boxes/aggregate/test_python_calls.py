"""Python window functions: what they are given, what they may return, and what is said when they fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.expressions.decomposition import decompose
from penstock.boxes.aggregate.closing import TICK
from penstock.boxes.aggregate.group_windows import Windows
from penstock.boxes.aggregate.python_calls import Calls

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("s"),
        "k": pa.string(),
        "i": pa.int32(),
        "x": pa.float64(),
        "ok": pa.bool_(),
        "day": pa.date32(),
        "cash": pa.decimal128(6, 2),
        "tags": pa.list_(pa.string()),
    }
)
DAY = dt.date(2024, 1, 1)
# Two groups; in the first tuples 3 and 1 have the same time, and tuple 2 comes before them in time.
TUPLES = pa.table(
    {
        "ts": pa.array([20, 20, 10, 5, 30], pa.timestamp("s")),
        "k": ["a", "b", None, "d", "e"],
        "i": pa.array([1, None, 3, 4, 5], pa.int32()),
        "x": [1.0, 2.0, 3.0, 4.0, 5.0],
        "ok": [True, False, None, True, False],
        "day": [DAY, DAY, None, DAY, DAY],
        "cash": [Decimal("1.50"), None, Decimal("2.25"), Decimal("3.00"), Decimal("4.00")],
        "tags": [["p"], [], None, ["q"], ["r", "s"]],
    },
    schema=SCHEMA,
)
GROUPS = np.array([0, 0, 0, 1, 0])
WINDOWS = Windows(np.array([0, 1, 0]), np.array([10, 0, 30]))


def results(function: Any, windows: Windows = WINDOWS) -> dict[str, list[Any]]:
    """Of windows of 20 s: tuples 3, 1, 2 in that order; tuple 4; tuple 5."""
    outputs = function if isinstance(function.returns, pa.Schema) else {"out": function}
    aggregation = decompose(outputs, SCHEMA, on="ts")
    kept = TUPLES.drop_columns(["ts"]).append_column(TICK, TUPLES["ts"].cast(pa.int64()))
    groups = pa.chunked_array([pa.array(["g", "h"]).take(pa.array(windows.groups))])
    calls = Calls(windows, [("g", groups)], "ts", pa.timestamp("s"), pa.timestamp("s"))
    found = calls.results(aggregation, kept, GROUPS, 20)
    return {name: column.to_pylist() for name, column in found.items()}


def seen(look: Callable[[Any], Any]) -> list[Any]:
    """What `look` makes of each window."""
    found: list[Any] = []
    results(pk.window_function(final=lambda window: found.append(look(window)), returns="double"))
    return found


def test_a_window_has_its_tuples_in_order_of_the_attribute_and_then_of_arrival() -> None:
    assert seen(lambda window: window["x"].tolist()) == [[3.0, 1.0, 2.0], [4.0], [5.0]]
    assert seen(lambda window: window.tuples) == [3, 1, 1]
    assert seen(list)[0] == SCHEMA.names
    assert seen(lambda window: window.group) == [{"g": "g"}, {"g": "h"}, {"g": "g"}]
    epoch = dt.datetime(1970, 1, 1)
    assert seen(lambda window: (window.start - epoch).seconds) == [10, 0, 30]
    assert seen(lambda window: window["ts"].astype(np.int64).tolist()) == [[10, 20, 20], [5], [30]]


def test_numbers_times_and_booleans_are_numpy_arrays() -> None:
    assert seen(lambda window: window["x"].dtype)[0] == np.float64
    assert seen(lambda window: window["i"].dtype)[0] == np.int32
    assert seen(lambda window: window["ok"].dtype)[0] == np.bool_
    assert seen(lambda window: window["ts"].dtype)[0] == np.dtype("M8[s]")
    assert seen(lambda window: window["day"].dtype)[0] == np.dtype("M8[D]")


def test_arrays_are_masked_where_there_are_nulls_and_only_there() -> None:
    assert seen(lambda window: type(window["i"])) == [np.ma.MaskedArray, np.ndarray, np.ndarray]
    assert seen(lambda window: window["i"].tolist()) == [[3, 1, None], [4], [5]]
    assert seen(lambda window: float(window["i"].mean())) == [2.0, 4.0, 5.0]
    assert seen(lambda window: window["ok"].tolist())[0] == [None, True, False]
    assert seen(lambda window: window["day"].tolist())[0] == [None, DAY, DAY]


def test_everything_else_is_an_arrow_array() -> None:
    assert seen(lambda window: window["k"].to_pylist()) == [[None, "a", "b"], ["d"], ["e"]]
    assert seen(lambda window: window["cash"].to_pylist())[0] == [Decimal("2.25"), Decimal("1.50"), None]
    assert seen(lambda window: window["tags"].to_pylist())[0] == [None, ["p"], []]
    assert all(seen(lambda window: isinstance(window["k"], pa.StringArray)))


def test_arrays_are_slices_that_cannot_be_written_to() -> None:
    bases: set[int] = set()

    def look(window: Any) -> None:
        values = window["x"]
        bases.add(id(values.base))
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0

    seen(look)
    assert len(bases) == 1


def test_overlapping_windows_share_their_tuples() -> None:
    windows = Windows(np.array([0, 0, 0]), np.array([0, 10, 20]))
    found = results(pk.window_function(final=lambda w: w["x"].tolist(), returns="list<double>"), windows)
    assert found["out"] == [[3.0], [3.0, 1.0, 2.0], [1.0, 2.0, 5.0]]


def test_a_function_goes_from_tuple_to_tuple() -> None:
    rows: list[Any] = []

    def incr(state: float, row: dict[str, Any]) -> float:
        rows.append(row)
        return state * 10 + row["x"]

    function = pk.window_function(lambda: 0.0, incr, lambda state: -state, columns=["x", "k", "ts", "i"])
    assert results(function)["out"] == [-312.0, -4.0, -5.0]
    assert rows[2] == {"x": 2.0, "k": "b", "ts": dt.datetime(1970, 1, 1, 0, 0, 20), "i": None}
    assert results(pk.window_function(int, lambda n, row: n + 1, returns="int64"))["out"] == [3, 1, 1]


def test_states_are_not_shared_between_windows() -> None:
    function = pk.window_function(list, lambda seen, row: seen.append(row["x"]) or seen, returns="list<double>")
    assert results(function)["out"] == [[3.0, 1.0, 2.0], [4.0], [5.0]]


def test_a_function_may_return_several_attributes_as_a_mapping_or_a_sequence() -> None:
    returns = {"low": "double", "most": "int64"}
    asked = [
        lambda w: {"most": w.tuples, "low": w["x"].min()},
        lambda w: (w["x"].min(), w.tuples),
        lambda w: [np.float32(w["x"].min()), np.int8(w.tuples)],
    ]
    for final in asked:
        found = results(pk.window_function(final=final, returns=returns))
        assert found == {"low": [1.0, 4.0, 5.0], "most": [3, 1, 1]}


@pytest.mark.parametrize(
    ("value", "returns", "found"),
    [
        (None, "int64", None),
        (np.int32(7), "int64", 7),
        (7, "double", 7.0),
        (np.float32(0.5), "double", 0.5),
        (np.array(0.5), "double", 0.5),
        (np.ma.masked, "double", None),
        (np.bool_(True), "bool", True),
        (np.datetime64("2024-01-01T00:00:01"), "timestamp[us]", dt.datetime(2024, 1, 1, 0, 0, 1)),
        (np.datetime64("2024-01-01"), "date", DAY),
        (DAY, "date", DAY),
        ("text", "string", "text"),
        (np.array([1, 2]), "list<int64>", [1, 2]),
        ({"a": 1}, pa.struct({"a": pa.int64()}), {"a": 1}),
    ],
)
def test_what_fits_the_declared_type(value: Any, returns: Any, found: Any) -> None:
    assert results(pk.window_function(final=lambda _: value, returns=returns))["out"] == [found] * 3


@pytest.mark.parametrize(
    ("value", "returns", "said"),
    [
        (
            1.0,
            "int64",
            "expected: out: int64\n  found: 1.0 (float) for the window ts = 1970-01-01 00:00:00, group g='h'",
        ),
        ("x", "double", "found: 'x' (str) for the window ts = 1970-01-01 00:00:00, group g='h'"),
        (300, "int8", "expected: out: int8\n  found: 300 (int)"),
        (1, "string", "expected: out: string\n  found: 1 (int)"),
        ((1.0,), {"a": "double", "b": "double"}, "expected: a mapping or a sequence of a, b\n  found: (1.0,) (tuple)"),
        ({"a": 1.0}, {"a": "double", "b": "double"}, "found: {'a': 1.0} (dict) for the window"),
        (1.0, {"a": "double", "b": "double"}, "expected: a mapping or a sequence of a, b\n  found: 1.0 (float)"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_window(value: Any, returns: Any, said: str) -> None:
    function = pk.window_function(final=lambda w: value if w.group == {"g": "h"} else None, returns=returns)
    if isinstance(returns, dict):
        function = pk.window_function(final=lambda w: value if w.group == {"g": "h"} else (None, None), returns=returns)
    with pytest.raises(pk.WorldError) as failure:
        results(function)
    assert said in str(failure.value)
    assert "mend the function or its returns=" in str(failure.value)


def test_a_function_that_raises_says_where() -> None:
    def final(window: Any) -> float:
        return 1 / (window.tuples - 1)

    with pytest.raises(pk.WorldError) as failure:
        results(pk.window_function(final=final), Windows(np.array([0, 1]), np.array([10, 0])))
    lines = str(failure.value).splitlines()
    assert lines[0].startswith("the window function of 'out' raised ZeroDivisionError: division by zero at line ")
    assert lines[0].endswith("test_python_calls.py")
    assert lines[1] == "  found: the window ts = 1970-01-01 00:00:00, group g='h'"
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
