"""Which elements a join takes, and which it refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import stamped

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.temporal.elements import element_schema
from penstock.algebra.ticks import END
from penstock.boxes.temporal_join import element_changes as reasons
from penstock.boxes.temporal_join.element_changes import Changes, changes
from penstock.boxes.temporal_join.events import event_schema

PAYLOAD = pa.schema({"p": pa.string()})


def insert(start: Any, end: Any, payload: str = "x") -> tuple[Any, ...]:
    return (start, "insert", start, end, None, payload)


def adjust(start: Any, old: Any, end: Any, payload: str = "x") -> tuple[Any, ...]:
    return (min(t for t in (old, end) if t is not None), "adjust", start, end, old, payload)


def taken(*elements: tuple[Any, ...], held: list[tuple[str, int, int, int]] | None = None, time: Any = None) -> Changes:
    """What elements change, where some events are held: (payload, start, end, how many)."""
    schema = element_schema(PAYLOAD, time or pa.int64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*elements, strict=True), schema.types, strict=True)]
    rows = [dict(zip(event_schema(PAYLOAD).names, (*event, 0), strict=True)) for event in held or ()]
    there = pa.Table.from_pylist(rows, event_schema(PAYLOAD))
    return changes(stamped(pa.table(columns, schema=schema)), PAYLOAD, lambda wanted: there)


def counted(found: Changes) -> dict[tuple[Any, ...], int]:
    rows = found.events.drop_columns([ARRIVED]).to_pylist()
    return {(r["p"], r["#vs"], None if r["#ve"] == END else r["#ve"]): r["#count"] for r in rows}


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        ((1, "delete", 1, 2, None, "x"), reasons.NO_KIND),
        ((1, None, 1, 2, None, "x"), reasons.NO_KIND),
        ((1, "insert", None, 2, None, "x"), reasons.NO_START),
        ((1, "insert", 1, 2**63 - 1, None, "x"), reasons.OUT_OF_RANGE),
        ((1, "adjust", 1, -(2**63), 7, "x"), reasons.OUT_OF_RANGE),
        ((0, "insert", 1, 2, None, "x"), reasons.WRONG_SYNC),
        ((7, "adjust", 1, 5, 7, "x"), reasons.WRONG_SYNC),
        ((3, "insert", 3, 3, None, "x"), reasons.NO_LIFETIME),
        ((2, "adjust", 3, 2, 7, "x"), reasons.NO_LIFETIME),
        ((5, "adjust", 1, 5, 7, "x"), reasons.NOT_THERE),
    ],
)
def test_an_element_that_may_not_be_is_refused_alone(element: tuple[Any, ...], reason: str) -> None:
    found = taken(insert(1, 9), element, insert(1, None))
    assert found.reasons.to_pylist() == [reason]
    assert found.refused.num_rows == 1
    assert counted(found) == {("x", 1, 9): 1, ("x", 1, None): 1}


def test_unsigned_times_beyond_all_ticks_are_refused() -> None:
    found = taken((1, "insert", 1, 2**64 - 1, None, "x"), insert(1, 2), time=pa.uint64())
    assert found.reasons.to_pylist() == [reasons.OUT_OF_RANGE]


def test_what_comes_and_goes_in_one_batch_changes_nothing() -> None:
    assert counted(taken(insert(1, 9), adjust(1, 9, 5), adjust(1, 5, None), adjust(1, None, 1))) == {}


def test_an_event_that_is_held_is_adjusted_as_often_as_it_is_there() -> None:
    found = taken(adjust(1, 9, 7), adjust(1, 9, 7), adjust(1, 9, 7), held=[("x", 1, 9, 3), ("x", 1, 9, -1)])
    assert counted(found) == {("x", 1, 9): -2, ("x", 1, 7): 2}
    assert found.reasons.to_pylist() == [reasons.NOT_THERE]


def test_what_a_refused_element_would_have_given_is_not_there_for_those_behind_it() -> None:
    chain = [adjust(1, end, end + 1) for end in range(5, 30)]
    found = taken(insert(1, 40), *chain, adjust(1, 40, 50), insert(2, 6), adjust(2, 6, 8))
    assert found.reasons.to_pylist() == [reasons.NOT_THERE] * 25
    assert counted(found) == {("x", 1, 50): 1, ("x", 2, 8): 1}


def test_an_element_finds_what_one_before_it_made_and_none_behind_it() -> None:
    found = taken(adjust(1, 5, 6), insert(1, 5), adjust(1, 5, 7), adjust(1, 5, 8, "y"))
    assert found.refused.column("p").to_pylist() == ["x", "y"]
    assert counted(found) == {("x", 1, 7): 1}
