"""Predicates over pairs of tuples, and the columns of the pairs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.algebra.expressions.pair_binding import bind_pair
from penstock.errors import QueryError

LEFT = pa.schema({"ts": pa.int64(), "k": pa.string(), "x": pa.int32(), "f": pa.float64(), "l": pa.list_(pa.int8())})
RIGHT = pa.schema({"ts": pa.int64(), "k": pa.string(), "y": pa.int64(), "g": pa.float64(), "m": pa.list_(pa.int8())})


def test_columns_keep_their_names_unless_they_collide() -> None:
    pairing = bind_pair("l.k = r.k", LEFT, RIGHT)
    assert pairing.schema.names == ["l_ts", "l_k", "x", "f", "l", "r_ts", "r_k", "y", "g", "m"]
    assert pairing.name(1, "k") == "r_k"
    named = bind_pair("a.k = b.k", LEFT, RIGHT, ("a", "b"))
    assert [n for n in named.schema.names if n.endswith("_k")] == ["a_k", "b_k"]


def test_needed_columns_are_those_shown_and_those_compared() -> None:
    pairing = bind_pair("l.k = r.k AND y > 1", LEFT, RIGHT)
    assert pairing.needed(["l_ts", "g"]) == ({"ts", "k"}, {"g", "k", "y"})


@pytest.mark.parametrize(
    ("predicate", "equalities"),
    [
        ("l.k = r.k", [("k", "k")]),
        ("r.k = l.k AND l.ts = r.ts", [("k", "k"), ("ts", "ts")]),
        ("(l.k = r.k AND (x > 1)) AND ((l.ts = r.y))", [("k", "k"), ("ts", "y")]),
        ("l.k = r.k OR l.ts = r.ts", []),
        ("NOT l.k = r.k", []),
        ("l.k = r.k AND l.k = r.k", [("k", "k")]),
        ("l.k = l.k", []),
        ("l.x = r.y", []),  # integers of two widths: equal values hash differently
        ("f = g", []),  # 0.0 = -0.0
        ("l.l = r.m", []),
        ("l.ts + 1 = r.ts", []),
        ("L.K = R.K", [("k", "k")]),
    ],
)
def test_equalities_are_what_tuples_can_be_partitioned_by(predicate: str, equalities: list[tuple[str, str]]) -> None:
    assert list(bind_pair(predicate, LEFT, RIGHT).equalities) == equalities


def test_columns_of_any_types_may_be_equated() -> None:
    assert bind_pair("l.x = r.y AND f = g AND l.ts > r.ts", LEFT, RIGHT).equated == (("x", "y"), ("f", "g"))


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        ("k = 'x'", "column 'k' of the predicate is in both streams"),
        ("z = 1", "column 'z' of the predicate is in neither stream"),
        ("l.z = 1", "unknown column 'l.z' in the predicate\n  expected: one of l.ts, l.k, l.x, l.f, l.l"),
        ("l.x + r.y", "the predicate 'l.x + r.y' is no condition\n  expected: a boolean\n  found: int64"),
        ("l.k = (SELECT 1)", "a subquery in the predicate"),
        ("l.k = r.ts + INTERVAL 1 DAY", "does not fit its columns"),
        ("random() > l.f", "random() in the predicate is not a function of the tuple"),
        ("l.k =", "cannot read the predicate"),
    ],
)
def test_a_predicate_that_does_not_fit_is_refused(predicate: str, text: str) -> None:
    with pytest.raises(QueryError) as refused:
        bind_pair(predicate, LEFT, RIGHT)
    assert text in str(refused.value)


@pytest.mark.parametrize("names", [("l", "l"), ("l", "L"), ("l", "r.x"), ("l",), ("a", "b", "c"), (1, 2)])
def test_sides_have_two_different_names(names: tuple[str, str]) -> None:
    with pytest.raises(QueryError, match="the sides need two different names"):
        bind_pair(None, LEFT, RIGHT, names)


def test_names_of_pairs_must_not_collide() -> None:
    left = pa.schema({"k": pa.int64(), "r_k": pa.int64()})
    with pytest.raises(QueryError, match="two columns of the pairs would be named 'r_k'"):
        _ = bind_pair(None, left, pa.schema({"k": pa.int64()})).columns
