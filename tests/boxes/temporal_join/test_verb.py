"""What join() refuses of temporal streams, and what it derives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of
from tests.properties.temporal_source import temporal_source

import penstock as pk

PAYLOAD = {"k": "string", "v": "int64"}


def streams(**others: Any) -> tuple[pk.Network, pk.Stream, pk.Stream]:
    net = pk.Network("net")
    return net, temporal_source(net, "a", PAYLOAD), temporal_source(net, "b", **{"payload": PAYLOAD, **others})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"size": 5}, "a join of temporal streams has no window"),
        ({"on": "sync", "band": (1, 2)}, "leave out on= and band="),
        ({"progress": "min"}, "leave out progress="),
        ({"assuming": (None, pk.order("sync"))}, "leave out assuming="),
        ({"how": "left"}, "how='left' is not known of temporal streams"),
        ({"predicate": "l.vs = r.vs"}, "unknown column 'l.vs' in the predicate"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], told: str) -> None:
    _, a, b = streams()
    with pytest.raises(pk.QueryError, match=told):
        a.join(b, **{"predicate": "l.k = r.k", **arguments})


def test_times_of_two_types_are_refused() -> None:
    _, a, b = streams(time=pa.timestamp("us"))
    with pytest.raises(pk.QueryError, match="the times of the streams cannot be compared"):
        a.join(b, "l.k = r.k")


def test_a_stream_of_facts_and_a_table_are_refused() -> None:
    net, a, _ = streams()
    facts = net.source("facts", pk.memory([], schema={"ts": "int64", "k": "string"}))
    for one, other in ((a, facts), (facts, a)):
        with pytest.raises(pk.QueryError, match="'facts', whose tuples have none"):
            one.join(other, "l.k = r.k", size=5)
    rows = pa.table({"k": ["x"], "name": ["y"]})
    with pytest.raises(pk.QueryError, match="takes no temporal stream"):
        a.join(pk.table(rows), "l.k = r.k")


def test_what_is_derived() -> None:
    net, a, b = streams()
    pairs = a.join(b, "l.k = r.k AND l.k = r.k AND l.v < r.v", names=("l", "r"))
    assert pairs.schema.names == ["sync", "kind", "vs", "ve", "vold", "l_k", "l_v", "r_k", "r_v"]
    assert pairs.progressing == ("sync",)
    assert pairs._port.temporal
    assert box_of(pairs).keys(0) == ("k",)
    assert box_of(pairs).partition == ("l_k",)
    assert pairs._port.properties.words() == "nothing known"
    pairs.output("pairs")
    assert "keeps events until sync of both streams has passed their end" in net.explain()
    with pytest.raises(pk.QueryError, match="an in-order system sorts its streams"):
        net.run("local", architecture="in-order")
