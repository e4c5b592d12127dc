"""What is said of approx_count_distinct when a network is built, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.algebra.expressions.decomposition import decompose
from penstock.errors import QueryError

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "x": pa.string(),
        "ok": pa.bool_(),
        "l": pa.list_(pa.int32()),
        "d": pa.duration("us"),
    }
)


def precisions(*texts: str) -> list[int]:
    held = decompose({f"o{number}": text for number, text in enumerate(texts)}, SCHEMA, on="ts").held
    return [each.sketch.precision for each in held if each.sketch is not None]


def test_a_deviation_says_how_many_registers_there_are_as_in_spark() -> None:
    deviations = ("0.39", "0.1", "0.05", "0.02", "1e-2", "0.0022")
    assert precisions(*(f"approx_count_distinct(x, {rsd})" for rsd in deviations)) == [4, 7, 9, 12, 14, 18]
    assert precisions("approx_count_distinct(x)") == [9]
    assert precisions("approx_distinct(x, 1.0 / 10)") == [7]


def test_equal_calls_share_a_sketch_and_others_do_not() -> None:
    same = ("approx_count_distinct(x)", "APPROX_COUNT_DISTINCT(X, 0.05)", "2 * approx_count_distinct(x, 5e-2)")
    assert len(precisions(*same)) == 1
    assert len(precisions(*same, "approx_count_distinct(x, 0.1)", "approx_count_distinct(x) FILTER (WHERE ok)")) == 3


def test_columns_are_only_hashed_where_nobody_else_sees_their_values() -> None:
    def hashed(*texts: str) -> set[str]:
        outputs = {f"o{number}": text for number, text in enumerate(texts)}
        return set(decompose(outputs, SCHEMA, on="ts").hashed)

    assert hashed("approx_count_distinct(x)", "count(*)") == {"x"}
    assert hashed("approx_count_distinct(x)", "count(DISTINCT x)") == set()
    assert hashed("approx_count_distinct(x) FILTER (WHERE x > 'a')") == set()
    assert hashed("approx_count_distinct(x)", "first(ok)") == {"x"}
    assert hashed("approx_count_distinct(ts)", "first(ok)") == set()


@pytest.mark.parametrize("rsd", ["0.001", "0", "-0.05", "0.4", "1", "'a'", "ts", "CAST('nan' AS DOUBLE)"])
def test_a_deviation_that_no_sketch_keeps_is_refused(rsd: str) -> None:
    with pytest.raises(QueryError) as refused:
        precisions(f"approx_count_distinct(x, {rsd})")
    assert "which relative standard deviation?" in refused.value.what
    assert refused.value.expected == "a constant from 0.0022 to 0.39"
    assert refused.value.hint == "count(DISTINCT x) is exact"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("approx_count_distinct(l)", "approx_count_distinct(CAST(l AS VARCHAR))"),
        ("approx_count_distinct(d)", "numbers, booleans, times, texts or bytes"),
        ("approx_count_distinct(DISTINCT x)", "leave it out"),
        ("approx_count_distinct(*)", "name the columns"),
        ("approx_count_distinct(x, 0.1, 2)", "provided arguments"),
        ("approx_count_distinct(y)", "unknown column 'y'"),
        ("approx_count_distinct(x) OVER ()", "the box itself is the window"),
    ],
)
def test_what_cannot_be_counted_is_refused(text: str, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        precisions(text)
    assert told in str(refused.value)
