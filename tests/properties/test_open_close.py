"""Opens and closes against events in plain Python, and there and back again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.events import Database, database_of, element
from tests.thoroughness import tries

import penstock as pk
from penstock.storage.temporary import TemporaryFolder

SCHEMA = {"kind": "string", "at": "int64", "k": "string"}
Row = tuple[str, int, str | None]


def events_of(rows: list[Row]) -> tuple[Database, Counter[str]]:
    """What rows come to by the rule, one after the other, and the reasons of those that are refused."""
    events: dict[str | None, dict[int, int | None]] = {}
    refused: Counter[str] = Counter()
    for kind, at, k in rows:
        own = events.setdefault(k, {})
        start = max((vs for vs in own if vs <= at), default=None)
        end = None if start is None else own[start]
        if kind == "open":
            if start is not None and (end is None or at < end):
                refused["opens an event while one of its payload is open"] += 1
            else:
                own[at] = None
        elif start is None:
            refused["closes an event that does not exist"] += 1
        elif end == at:
            refused["closes an event where it ends already"] += 1
        elif start == at:
            del own[start]
        else:
            own[start] = at
    found = Counter(((k,), vs, ve) for k, own in events.items() for vs, ve in own.items())
    return found, refused


ROWS = st.lists(
    st.tuples(st.sampled_from(["open", "close"]), st.integers(0, 9), st.sampled_from([None, "a", "b"])), max_size=25
)


@settings(max_examples=tries(30))
@given(rows=ROWS, train=st.sampled_from([1, 3, None]), buckets=st.integers(1, 3))
def test_opens_and_closes_in_any_order_come_to_the_events_of_the_rule(
    rows: list[Row], train: int | None, buckets: int
) -> None:
    net = pk.Network("net")
    connector = pk.temporal(pk.memory(rows, schema=SCHEMA, train=train), form="open-close")
    net.source("in", connector, progress=pk.punctuated()).output("out")
    result = net.run(engine="local", buckets=buckets)
    events, refused = events_of(rows)
    assert database_of(result["out"], ("k",)) == events
    assert Counter(result.errors("in")["reason"].to_pylist()) == refused
    assert result.record().inputs["in"].refused == refused.total()
    if result["out"].num_rows:
        # What leaves is legal, element by element.
        again = pk.Network("again")
        again.source("in", pk.temporal(pk.memory(result["out"]), unique=True), progress=pk.punctuated()).output("out")
        assert again.run(engine="local")["out"].num_rows == result["out"].num_rows


@st.composite
def alternating(draw: Any) -> list[Row | tuple[str, int, None]]:
    """Events of each payload one after the other, with ends that move, and stable points behind them."""
    rows: list[Row | tuple[str, int, None]] = []
    now, opened = 0, dict[str, int]()
    for _ in range(draw(st.integers(0, 25))):
        now += draw(st.integers(0, 2))
        k = draw(st.sampled_from(["a", "b"]))
        if draw(st.integers(0, 4)) == 0:
            rows.append(("stable", min([now, *opened.values()]), None))
        elif k in opened:
            rows.append(("close", max(now, opened[k] + 1), k))
            if draw(st.booleans()):
                rows.append(("close", max(now, opened[k] + 1) + 1, k))
            now = max(now, rows[-1][1])
            del opened[k]
        else:
            opened[k] = now
            rows.append(("open", now, k))
    return rows


@settings(max_examples=tries(20))
@given(rows=alternating(), train=st.sampled_from([1, 2, None]), buckets=st.integers(1, 3))
def test_there_and_back_is_the_same_database(rows: Any, train: int | None, buckets: int) -> None:
    place = TemporaryFolder("open-close-")
    table = str(Path(place.path) / "table")
    there = pk.Network("there")
    events = there.source(
        "in", pk.temporal(pk.memory(rows, schema=SCHEMA, train=train), form="open-close"), progress=pk.punctuated()
    )
    events.output("out")
    events.as_open_close().output("rows", to=pk.delta(table))
    first = there.run(engine="local", buckets=buckets)
    assert first.errors("in").num_rows == 0
    back = pk.Network("back")
    back.source("in", pk.temporal(pk.delta(table), form="open-close")).output("out")
    second = back.run(engine="local", buckets=buckets, train_rows=3)
    assert second.errors("in").num_rows == 0
    assert database_of(second["out"], ("k",)) == database_of(first["out"], ("k",))


def test_revised_and_removed_events_look_as_the_page_says() -> None:
    rows = [
        element("insert", ("a", 1), 2, None),
        element("adjust", ("a", 1), 2, 6, None),
        element("adjust", ("a", 1), 2, 5, 6),
        element("adjust", ("a", 1), 2, None, 5),
        element("adjust", ("a", 1), 2, 2, None),
        element("insert", ("b", 1), 3, 4),
    ]
    net = pk.Network("net")
    schema = pa.schema(
        [("kind", pa.string()), *((n, pa.int64()) for n in ("vs", "ve", "vold")), ("k", pa.string()), ("v", pa.int64())]
    )
    source = net.source(
        "in", pk.temporal(pk.memory(pa.Table.from_pylist(rows, schema=schema))), progress=pk.punctuated()
    )
    source.as_open_close().output("out")
    out = net.run(engine="local", buckets=1)["out"]
    assert [(row["kind"], row["at"], row["k"]) for row in out.to_pylist()] == [
        ("open", 2, "a"),
        ("close", 6, "a"),
        ("close", 5, "a"),
        ("close", None, "a"),
        ("close", 2, "a"),
        ("open", 3, "b"),
        ("close", 4, "b"),
    ]
