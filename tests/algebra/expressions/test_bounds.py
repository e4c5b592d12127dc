"""Bounds of predicates: what they tell, and that they never exclude a row that its predicate takes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

from penstock.algebra.expressions.binding import bind_predicate
from penstock.algebra.expressions.bounds import (
    NOTHING,
    AllOf,
    AnyOf,
    Bounds,
    OneOf,
    Within,
    both,
    columns_in,
    either,
    may_hold,
    renamed,
    rows_within,
)
from penstock.algebra.expressions.expression import mask
from penstock.algebra.expressions.predicate_bounds import bounds_of

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "small": pa.uint8(),
        "s": pa.string(),
        "ts": pa.timestamp("us"),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "x": pa.float64(),
    }
)


@pytest.mark.parametrize(
    ("predicate", "bounds"),
    [
        ("k = 17", "k = 17"),
        ("17 < K", "k >= 17"),
        ("-3 >= k", "k <= -3"),
        ("k BETWEEN 3 AND 5", "k between 3 and 5"),
        ("k BETWEEN 3 AND x", "k >= 3"),
        ("k IN (3, 1, 2, 1)", "k in (1, 2, 3)"),
        ("k IN (1, 2, 3, 4, 5, 6)", "k is one of 6 values"),
        ("s = 'a' OR s > 'k'", "s = 'a' or s >= 'k'"),
        ("(k = 3 AND s = 'b') OR k = 7", "(k = 3 and s = 'b') or k = 7"),
        ("k > 1 AND (s = 'a' OR s = 'b')", "k >= 1 and (s = 'a' or s = 'b')"),
        ("s = 'a' AND x > 0.5", "s = 'a'"),
        ("ts >= '2026-01-01'", "ts >= 2026-01-01 00:00:00"),
        ("ts < DATE '2026-01-02'", "ts <= 2026-01-02 00:00:00"),
        ("at = '2026-01-01 02:00:00+02'", "at = 2026-01-01 00:00:00+00:00"),
        ("day = '2026-01-01'", "day = 2026-01-01"),
        ("s = 'a' OR x > 0.5", None),
        ("x > 0.5", None),
        ("NOT k = 3", None),
        ("k <> 3", None),
        ("k = 3.5", None),
        ("k + 1 = 3", None),
        ("k = small", None),
        ("s LIKE 'a%'", None),
        ("k IS NULL", None),
        ("small = 300", None),
        ("k IN (1, small)", None),
    ],
)
def test_what_a_predicate_asks_of_single_columns(predicate: str, bounds: str | None) -> None:
    found = bounds_of(bind_predicate(predicate, SCHEMA), SCHEMA)
    assert (found if found is None else str(found)) == bounds


def test_bounds_are_combined() -> None:
    one, other = OneOf("k", (1,)), Within("s", low="b")
    assert both(None, one) == both(one, None) == both(one, one) == one
    assert both(one, NOTHING) == NOTHING
    assert either([]) == NOTHING
    assert either([one]) == either([one, NOTHING]) == one
    assert either([one, None]) is None
    assert either([one, either([other, one])]) == AnyOf((one, other))
    every = AllOf((one, other))
    assert columns_in(every) == {"k", "s"}
    assert renamed(every, {"k": "key"}) == OneOf("key", (1,))
    assert renamed(AnyOf((one, other)), {"k": "key"}) is None
    assert renamed(None, {}) is None


@pytest.mark.parametrize(
    ("bounds", "extent", "held"),
    [
        (OneOf("k", (3, 9)), (4, 8), False),
        (OneOf("k", (3, 9)), (9, 9), True),
        (OneOf("k", (3, 9)), (10, 12), False),
        (OneOf("k", (3, 9)), None, False),
        (Within("k", low=5), (0, 5), True),
        (Within("k", low=5), (0, 4), False),
        (Within("k", high=5), (6, 8), False),
        (Within("k", 2, 5), (6, 8), False),
        (OneOf("other", (1,)), (6, 8), True),
    ],
)
def test_what_extents_leave_possible(bounds: Bounds, extent: Any, held: bool) -> None:
    assert may_hold(bounds, {"k": extent}) is held


NUMBERS = st.integers(-3, 6)
LEAVES = st.one_of(
    st.builds("k {} {}".format, st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]), NUMBERS),
    st.builds("{} < k".format, NUMBERS),
    st.builds("k BETWEEN {} AND {}".format, NUMBERS, NUMBERS),
    st.builds("k IN ({}, {})".format, NUMBERS, NUMBERS),
    st.builds("s {} '{}'".format, st.sampled_from(["=", "<", ">"]), st.sampled_from("abc")),
    st.builds("day >= '2026-01-0{}'".format, st.integers(1, 4)),
    st.just("x > 1"),
    st.just("s IS NOT NULL"),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds("({}) AND ({})".format, part, part),
        st.builds("({}) OR ({})".format, part, part),
        st.builds("NOT ({})".format, part),
    ),
    max_leaves=5,
)
ROW = st.tuples(
    st.none() | NUMBERS,
    st.none() | st.sampled_from("abc"),
    st.none() | st.integers(1, 4).map(lambda day: dt.date(2026, 1, day)),
    st.none() | st.sampled_from([0.0, 2.0, float("nan")]),
)


@settings(max_examples=tries(60), deadline=None)
@given(PREDICATES, st.lists(ROW, min_size=1, max_size=8))
def test_no_row_that_a_predicate_takes_is_beyond_its_bounds(predicate: str, rows: list[Any]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("k", "s", "day", "x")])
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    bound = bind_predicate(predicate, schema)
    bounds = bounds_of(bound, schema)
    if bounds is None:
        return
    taken = pc.equal(mask((bound,), table), 0)
    within = rows_within(bounds, table)
    assert not pc.any(pc.and_not(taken, within)).as_py()
    extents = {}
    for name in ("k", "s", "day"):
        present = [value for value in table[name].to_pylist() if value is not None]
        extents[name] = (min(present), max(present)) if present else None
    assert may_hold(bounds, extents) or not pc.any(within).as_py()
