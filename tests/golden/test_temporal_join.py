"""Golden cases of joins of temporal streams, on both engines."""

from __future__ import annotations

import datetime as dt
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from tests.golden.conftest import Runner
from tests.properties.temporal import Database
from tests.properties.temporal_source import temporal_source

import penstock as pk
from penstock.cli.accounts import accounts, balanced
from penstock.testing import play

USERS = {"who": "string", "room": "string"}
ROOMS = {"room": "string", "state": "string"}


def network() -> pk.Network:
    net = pk.Network("rooms")
    users, rooms = temporal_source(net, "users", USERS), temporal_source(net, "rooms", ROOMS)
    users.join(rooms, "l.room = r.room", name="seen").output("seen")
    return net


def stable(at: int) -> Any:
    return pk.punctuation(sync=at)


# Ann is in room 1 from 2 on, Bob in room 2 from 3 on; room 1 is open from 0 to 5, and from 8 on.
SCRIPT: list[dict[str, list[Any]]] = [
    {
        "users": [(2, "insert", 2, None, None, "ann", "1"), (3, "insert", 3, None, None, "bob", "2")],
        "rooms": [(0, "insert", 0, 5, None, "1", "open")],
    },
    {"rooms": [(5, "adjust", 0, 9, 5, "1", "open"), (8, "insert", 8, None, None, "1", "open"), stable(3)]},
    {"users": [(4, "adjust", 2, 4, None, "ann", "1"), stable(4)]},
    {"users": [(8, "adjust", 3, 9, 8, "bob", "2"), (4, "adjust", 2, 8, 4, "ann", "1")]},
    {"users": [(8, "adjust", 2, 10, 8, "ann", "1")], "rooms": [(8, "adjust", 8, 8, None, "1", "open"), stable(8)]},
]


def test_pairs_are_revised_as_events_are(engine: str) -> None:
    played = play(network(), SCRIPT, engine=engine, buckets=2, end=False)
    ann = ("ann", "1", "1", "open")
    found = [sorted(tuple(row.values()) for row in batch) for batch in played.batches("seen")]
    assert found == [
        [(2, "insert", 2, 5, None, *ann)],
        [(5, "adjust", 2, 9, 5, *ann), (8, "insert", 8, None, None, *ann)],
        [(4, "adjust", 2, 4, 9, *ann), (8, "adjust", 8, 8, None, *ann)],
        [(4, "adjust", 2, 8, 4, *ann)],
        [(8, "adjust", 2, 9, 8, *ann)],
    ]
    assert [str(mark) for mark in played.marks("seen")] == ["-inf", "-inf", "3", "3", "4"]
    (refused,) = played.errors("seen").to_pylist()
    assert (refused["origin"], refused["reason"]) == ("seen", "it adjusts an event that is not there")
    assert '"who":"bob"' in refused["record"]
    assert played.records[-1].boxes["seen"].refused == 1


def test_early_results_of_two_aggregates_are_joined(run: Runner) -> None:
    net = pk.Network("early")
    sent, received = (
        net.source(name, pk.memory(rows, schema={"ts": "timestamp[s]", "k": "string"}, train=2))
        for name, rows in (
            ("sent", [(at(1), "x"), (at(2), "x"), (at(3), "y"), (at(61), "x")]),
            ("received", [(at(2), "x"), (at(59), "x"), (at(60), "y"), (at(62), "x")]),
        )
    )
    counts = [
        stream.aggregate({name: "count(*)"}, size="1 minute", by="k", emit="speculative")
        for stream, name in ((sent, "sent"), (received, "received"))
    ]
    counts[0].join(counts[1], "l.k = r.k").output("both")
    result = run(net)
    database = Database()
    database.apply(result["both"].to_pylist())
    assert result["both"].schema.field("vs").type == pa.timestamp("s")
    assert database.events == Counter(
        {(("x", 2, "x", 2), at(0), at(60)): 1, (("x", 1, "x", 1), at(60), at(120)): 1},
    )
    assert result.errors("join1").num_rows == 0


def chained(train: int) -> pk.Network:
    """Counts by one attribute, joined with counts by another: behind another exchange."""
    net = pk.Network("chained")
    rows = [(n, "xyz"[n % 3], n % 4) for n in range(40)]
    stream = net.source("in", pk.memory(rows, schema={"ts": "int64", "k": "string", "v": "int64"}, train=train))
    one = stream.aggregate({"n": "count(*)"}, size=10, advance=5, by="k", emit="speculative").output("one")
    other = stream.aggregate({"m": "count(*)"}, size=10, by="v", emit="speculative").output("other")
    one.join(other, "l.n = r.m", name="equal").output("equal")
    one.join(other, "l.n > r.m", name="more").output("more")
    return net


def joined(one: Database, other: Database, predicate: Callable[[int, int], bool]) -> Counter[Any]:
    return Counter(
        ((*p, *q), max(start, begin), min(stop, end))
        for p, start, stop in one.events
        for q, begin, end in other.events
        if predicate(p[1], q[1]) and max(start, begin) < min(stop, end)
    )


def test_pairs_behind_another_exchange(run: Runner) -> None:
    result = run(chained(7), buckets=3)
    found = {name: Database() for name in result.outputs()}
    for name, database in found.items():
        database.apply(result[name].to_pylist())
    assert found["equal"].events == joined(found["one"], found["other"], operator.eq)
    assert found["more"].events == joined(found["one"], found["other"], operator.gt)
    assert found["equal"].events
    assert found["more"].events
    assert result.errors("equal").num_rows + result.errors("more").num_rows == 0


def test_one_element_at_a_time_comes_to_the_same_events() -> None:
    stepper, result = chained(7).stepper(), chained(7).run("local")
    stepper.run(inputs=True)
    for name in ("equal", "more"):
        stepped, batched = Database(), Database()
        stepped.apply(stepper.output(name).to_pylist())
        batched.apply(result[name].to_pylist())
        assert stepped.events == batched.events


def test_books_balance_while_windows_are_open() -> None:
    records: list[Any] = []
    net = chained(7)
    net.run("local", on_batch=records.append)
    assert all(balanced(accounts(net.network, record)) for record in records)


def at(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)
