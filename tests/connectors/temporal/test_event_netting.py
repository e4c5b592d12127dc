"""What the elements of a batch come to, against counters in plain Python."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.properties.events import Database, Script, database, scripts
from tests.thoroughness import tries

from penstock.algebra.temporal.elements import element_schema
from penstock.connectors.temporal.event_netting import change_of, event_schema, taken_away

ELEMENTS = element_schema([pa.field("k", pa.string()), pa.field("v", pa.int64())], pa.int64())
INFINITY = None


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "sync": 0} for row in rows], schema=ELEMENTS)


def counted(events: pa.Table) -> Database:
    return Counter(((row["k"], row["v"]), row["vs"], row["ve"]) for row in events.to_pylist())


@settings(max_examples=tries(60))
@given(script=scripts())
def test_batches_of_any_length_lead_to_the_database(script: Script) -> None:
    for length in (1, 3, 100):
        events, rows = event_schema(ELEMENTS).empty_table(), script.legal()
        for first in range(0, len(rows), length):
            change = change_of(table(rows[first : first + length]))
            stay, missing = taken_away(events, change.gone)
            assert missing.num_rows == 0
            events = pa.concat_tables([events.filter(stay), change.added])
            assert counted(events) == database(rows[: first + length])


def test_what_comes_and_goes_in_one_batch_was_never_there() -> None:
    insert = {"kind": "insert", "vs": 6, "ve": INFINITY, "vold": None, "k": None, "v": 1}
    removal = {"kind": "adjust", "vs": 6, "ve": 6, "vold": INFINITY, "k": None, "v": 1}
    change = change_of(table([removal, insert]))
    assert (change.added.num_rows, change.gone.num_rows) == (0, 0)


@pytest.mark.parametrize("held", [0, 1, 3])
def test_of_equal_events_as_many_go_as_are_told_to(held: int) -> None:
    event = {"vs": 6, "ve": INFINITY, "k": "a", "v": None}
    events = pa.Table.from_pylist([event] * held, schema=event_schema(ELEMENTS))
    gone = pa.Table.from_pylist([event] * 2, schema=event_schema(ELEMENTS))
    stay, missing = taken_away(events, gone)
    assert sum(stay.to_pylist()) == max(0, held - 2)
    assert missing.num_rows == max(0, 2 - held)
