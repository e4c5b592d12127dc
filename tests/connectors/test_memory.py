from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.connector import Limit
from penstock.connectors.journal import MemoryJournal
from penstock.connectors.memory import clock, memory, punctuation
from penstock.errors import QueryError

SCHEMA = {"ts": "int64", "k": "string"}
Drain = Callable[..., Any]


def test_tuples_and_dicts_come_in_order(drain: Drain) -> None:
    got = drain(memory([(1, "a"), {"k": "b", "ts": 2}, [3, None]], schema=SCHEMA))
    assert got.tuples == [{"ts": 1, "k": "a"}, {"ts": 2, "k": "b"}, {"ts": 3, "k": None}]
    assert got.rejects == []
    assert got.batches == 1


def test_one_train_to_an_advance_and_the_last_one_ends_the_input() -> None:
    connector = memory([(at, "a") for at in range(5)], schema=SCHEMA, train=2)
    feed = connector.open(connector.schema(), MemoryJournal())
    steps, position = [], feed.start()
    for _ in range(3):
        step = feed.advance(position, Limit(1, 1))
        position = step.position
        steps.append((position["at"], step.ended))
    assert steps == [(2, False), (4, False), (5, True)]


def test_an_empty_script_ends_at_once(drain: Drain) -> None:
    connector = memory([], schema=SCHEMA)
    feed = connector.open(connector.schema(), MemoryJournal())
    assert feed.advance(feed.start(), Limit(1, 1)).ended
    assert drain(connector).tuples == []


def test_rows_that_do_not_fit_are_refused_with_position_and_reason(drain: Drain) -> None:
    elements = [
        (1, "a"),
        (2,),
        ("x", "b"),
        {"ts": 3},
        {"ts": 3, "k": "c", "z": 1},
        (4.5, "d"),
        (2**70, "e"),
        (5, 5),
        7,
        punctuation(ts=5),
        (6, "f"),
    ]
    got = drain(memory(elements, schema=SCHEMA))
    assert got.tuples == [{"ts": 1, "k": "a"}, {"ts": 6, "k": "f"}]
    assert got.told() == [
        (2, "(2,)", "has 1 values, expected 2"),
        (3, "('x', 'b')", "column 'ts': 'x' is no int64"),
        (4, "{'ts': 3}", "has no value for 'k'"),
        (5, "{'ts': 3, 'k': 'c', 'z': 1}", "has unknown columns 'z'"),
        (6, "(4.5, 'd')", "column 'ts': 4.5 is no int64"),
        (7, f"({2**70}, 'e')", f"column 'ts': {2**70} is no int64"),
        (8, "(5, 5)", "column 'k': 5 is no string"),
        (9, "7", "is no row: expected a tuple or a dict, found int"),
    ]
    assert {(one["origin"], one["rows"]) for one in got.rejects} == {("memory", 1)}


def test_the_same_rows_are_refused_whatever_columns_are_asked_for(drain: Drain) -> None:
    elements = [(1, "a"), (2, 5), (3, "c")]
    assert drain(memory(elements, schema=SCHEMA), columns=["ts"]).tuples == [{"ts": 1}, {"ts": 3}]


def test_the_strongest_punctuation_of_a_train_is_stated(drain: Drain) -> None:
    assert drain(memory([(1, "a"), punctuation(ts=7), punctuation(ts=5)], schema=SCHEMA)).stated == 7


def test_punctuation_on_a_timestamp_is_in_its_ticks(drain: Drain) -> None:
    stating = punctuation(ts=dt.datetime(1970, 1, 1, 0, 0, 2))
    assert drain(memory([stating], schema={"ts": "timestamp[ms]"})).stated == 2000


def test_times_may_be_written_as_text(drain: Drain) -> None:
    got = drain(memory([("2026-01-01 00:00:01",), ("soon",)], schema={"ts": "timestamp"}))
    assert got.tuples == [{"ts": dt.datetime(2026, 1, 1, 0, 0, 1)}]
    assert got.told() == [(2, "('soon',)", "column 'ts': 'soon' is no timestamp[us]")]


def test_each_value_of_a_column_can_be_a_shard(drain: Drain) -> None:
    elements = [(1, "a"), (5, "b"), punctuation(ts=3, k="a"), (2, "a"), (6, "b")]
    connector = memory(elements, schema=SCHEMA, shard_by="k")
    assert connector.shards() == ("a", "b")
    got = drain(connector)
    assert [row["ts"] for row in got.by_shard["a"]] == [1, 2]
    assert [row["ts"] for row in got.by_shard["b"]] == [5, 6]
    feed = connector.open(connector.schema(), MemoryJournal())
    stated = {
        split.shard: [t for c in connector.read(split, connector.schema(), ["ts"]) for t in c.stated.get("ts", ())]
        for split in feed.splits({"at": 0}, {"at": 5})
    }
    assert stated == {"a": [3], "b": []}


def test_a_table_is_cut_into_trains_and_cast_to_the_schema(drain: Drain) -> None:
    table = pa.table({"k": ["a", "b", "c"], "ts": [1.0, 2.5, 3.0]})
    got = drain(memory(table, schema=SCHEMA, train=2))
    assert got.tuples == [{"ts": 1, "k": "a"}, {"ts": 3, "k": "c"}]
    assert got.told() == [(2, None, "column 'ts': 2.5 is no int64")]
    assert got.batches == 2
    assert drain(memory(table)).tuples == table.to_pylist()
    assert drain(memory(table, shard_by="k")).by_shard["b"] == [{"k": "b", "ts": 2.5}]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: memory([punctuation(tz=5)], schema=SCHEMA), "states 'tz', which is not in the schema"),
        (lambda: memory([punctuation(k="a")], schema=SCHEMA), "states 'k', which cannot progress"),
        (lambda: memory([punctuation(ts="x")], schema=SCHEMA), "has no value of type int64"),
        (lambda: memory([punctuation(ts=1, k="a")], schema=SCHEMA), "must state one attribute"),
        (lambda: punctuation(), "states nothing"),
        (lambda: memory([]), "memory needs a schema"),
        (lambda: memory([], schema=SCHEMA, train=0), "at least one element"),
        (lambda: memory([], schema=SCHEMA, shard_by="z"), "no column 'z' to shard by"),
        (lambda: memory(pa.table({"a": [1]}), schema=SCHEMA), "the table has no column 'ts', 'k'"),
    ],
)
def test_a_script_that_makes_no_sense_is_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(QueryError, match=text):
        call()


def test_a_script_may_bring_its_own_clock() -> None:
    script = [(1,), clock(5), (2,), (3,), clock("1970-01-01 00:00:09"), (4,)]
    connector = memory(script, schema={"ts": "int64"}, train=2)
    feed = connector.open(connector.schema(), MemoryJournal())
    readings, position = [], feed.start()
    while not (step := feed.advance(position, Limit(1, 1))).ended:
        readings.append(step.clock)
        position = step.position
    # Its clock stands still between readings; before the first there is none.
    assert [*readings, step.clock] == [5_000_000, 5_000_000, 9_000_000]
    rows = [
        c.tuples
        for s in feed.splits(feed.start(), step.position)
        for c in connector.read(s, connector.schema(), ["ts"])
    ]
    assert [row["ts"] for batch in rows for row in batch.to_pylist()] == [1, 2, 3, 4]


def test_without_a_script_of_it_the_clock_is_the_machines() -> None:
    connector = memory([(1,)], schema={"ts": "int64"})
    feed = connector.open(connector.schema(), MemoryJournal())
    assert feed.advance(feed.start(), Limit(1, 1)).clock is None
