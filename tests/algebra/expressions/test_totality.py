"""Which expressions have a value for every tuple."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.algebra.expressions.binding import bind
from penstock.algebra.expressions.expression import evaluate
from penstock.algebra.expressions.totality import is_total

# The ends of every type: where an expression fails at all, it fails here.
EXTREMES = pa.table(
    {
        "i": pa.array([-(2**63), 2**63 - 1, 0, -1, None], pa.int64()),
        "j": pa.array([-(2**31), 2**31 - 1, 0, -1, None], pa.int32()),
        "t": pa.array([-128, 127, 0, -1, None], pa.int8()),
        "u": pa.array([0, 2**64 - 1, 1, 2, None], pa.uint64()),
        "f": pa.array([float("inf"), float("nan"), -1e308, -0.0, None]),
        "s": pa.array(["", "ä" * 40, "x", "-1", None]),
        "b": pa.array([True, False, True, False, None]),
        "ts": pa.array([-(2**62), 2**62, 0, 1, None], pa.timestamp("us")),
        "d": pa.array([-(10**6), 10**6, 0, 1, None], pa.date32()),
    }
)
TOTAL = (
    "i > 5", "i = u", "i < f", "u <= t", "i > 1.5", "f >= 1.5", "i BETWEEN 1 AND j", "j IN (1, 2)", "i IS NULL",
    "b AND NOT (i > 0 OR s = 'x')", "b IS TRUE", "i IS DISTINCT FROM j", "i % 7", "i // 3", "i / 60", "u % 7", "j & 7",
    "CAST(j AS BIGINT) * 8 + 1", "-CAST(t AS SMALLINT)", "abs(CAST(j AS BIGINT))", "CAST(t AS BIGINT) - j", "t % 3 + 1",
    "f * 10 - f", "f / 0", "-f", "floor(f)", "lower(s) LIKE 'a%'", "s NOT LIKE '%x_'", "regexp_matches(s, '^[a-z]+')",
    "length(s) % 5 = 1", "substring(s, 2, 3)", "left(s, 2) || right(s, 1)", "trim(s)", "md5(s) < '2'", "reverse(s)",
    "replace(s, 'a', 'b')", "contains(s, 'x') OR starts_with(s, 'a') OR ends_with(s, 'b')", "CAST(i AS DOUBLE)",
    "CAST(f AS VARCHAR)", "CAST(b AS TINYINT)", "coalesce(j, 1)", "greatest(i, 5)", "nullif(j, 1)", "TRY(i + 1)",
    "CASE WHEN i > 1 THEN 1 WHEN b THEN 2 ELSE 3 END", "ts < TIMESTAMP '2020-01-01'", "d >= DATE '2020-01-01'",
)  # fmt: skip
PARTIAL = (
    "i + 1", "i * 2 > 4", "-i", "abs(i)", "abs(j)", "i % j", "t + 1", "j + 1", "CAST(s AS INT)", "CAST(i AS INT)",
    "CAST(f AS BIGINT)", "sin(f)", "ts + INTERVAL 3 SECOND", "s = i", "ts < d", "repeat(s, i)", "u + 1",
    "coalesce(i + 1, 3)", "CASE WHEN i + 1 > 1 THEN 1 END", "substring(s, i)", "regexp_matches(s, s)", "b OR i + 1 > 0",
)  # fmt: skip


@pytest.mark.parametrize("text", TOTAL)
def test_total_expressions_are_known_and_never_fail(text: str) -> None:
    bound = bind(text, EXTREMES.schema)
    assert is_total(bound, EXTREMES.schema)
    assert evaluate([("value", bound)], EXTREMES).num_rows == EXTREMES.num_rows


@pytest.mark.parametrize("text", PARTIAL)
def test_what_may_fail_is_not_total(text: str) -> None:
    assert not is_total(bind(text, EXTREMES.schema), EXTREMES.schema)


def test_a_field_of_a_struct_is_left_to_others() -> None:
    schema = pa.schema({"p": pa.struct({"x": pa.int64()}), "x": pa.int64()})
    assert not is_total(bind("p.x > 1", schema), schema)
    assert is_total(bind("p IS NULL", schema), schema)
    assert is_total(bind("p", schema), schema)
