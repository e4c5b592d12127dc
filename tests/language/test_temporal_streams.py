"""Temporal streams as they are declared: what they look like, and what is refused when the network is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.temporal.properties import Properties

ROWS = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "k": "string", "v": "int64"}
ELEMENTS = ["sync", "kind", "vs", "ve", "vold", "k", "v"]


def elements(net: pk.Network, name: str = "in", **options: Any) -> pk.Stream:
    return net.source(name, pk.temporal(pk.memory([], schema=ROWS), **options))


def facts(net: pk.Network, name: str = "facts") -> pk.Stream:
    return net.source(name, pk.memory([], schema={"ts": "int64", "k": "string"}))


def test_an_input_of_elements_progresses_on_sync_and_has_what_was_promised() -> None:
    stream = elements(pk.Network("net"), ordered=True, unique=True)
    assert stream.schema.names == ELEMENTS
    assert stream.progressing == ("sync",)
    assert stream._port.temporal
    assert stream._port.properties == Properties(ordered=True, unique=True)
    assert not stream.late()._port.temporal
    assert not stream.errors()._port.temporal


def test_inserts_that_rise_are_unique_and_have_one_order() -> None:
    stream = elements(pk.Network("net"), strict=True, insert_only=True)
    assert stream._port.properties == Properties(True, True, True, True, True)


def test_columns_are_named_and_the_rest_is_payload() -> None:
    rows = {"what": "string", "begin": "timestamp[us]", "until": "timestamp[us]", "was": "timestamp[us]", "p": "string"}
    net = pk.Network("net")
    connector = pk.temporal(pk.memory([], schema=rows), start="begin", end="until", old="was", kind="what")
    assert net.source("in", connector).schema.names == ["sync", "kind", "vs", "ve", "vold", "p"]


def test_inserts_alone_need_neither_kind_nor_old() -> None:
    net = pk.Network("net")
    connector = pk.temporal(pk.memory([], schema={"vs": "date", "ve": "date", "p": "string"}), insert_only=True)
    assert net.source("in", connector).schema.names == ["sync", "kind", "vs", "ve", "vold", "p"]


@pytest.mark.parametrize(
    ("rows", "options", "told"),
    [
        ({"vs": "int64", "p": "string"}, {}, "no column 've', which is the end="),
        ({**ROWS, "vs": "double"}, {}, "'vs' cannot be the time of an event"),
        ({**ROWS, "ve": "int32"}, {}, "'ve' has another type than 'vs'"),
        ({**ROWS, "kind": "int64"}, {}, "'kind' is no text"),
        ({**ROWS, "sync": "string"}, {}, "'sync' has another type than 'vs'"),
        ({**ROWS, "begin": "int64"}, {"start": "begin"}, "a column of the payload is called 'vs'"),
        ({**ROWS, "for": pa.duration("us")}, {}, "'for' cannot be in the payload, since it is a length of time"),
        ({"kind": "string", "p": "string"}, {"form": "open-close"}, "no column 'at', which is the start="),
        ({"kind": "string", "at": "double"}, {"form": "open-close"}, "'at' cannot be the time of an event"),
        ({"kind": "string", "at": "date", "vs": "date"}, {"form": "open-close"}, "the payload is called 'vs'"),
    ],
)
def test_rows_that_can_be_no_elements_are_refused(rows: dict[str, Any], options: dict[str, Any], told: str) -> None:
    net = pk.Network("net")
    with pytest.raises(pk.QueryError, match=told):
        net.source("in", pk.temporal(pk.memory([], schema=rows), **options))


def test_a_declaration_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(pk.QueryError, match="'vs' is named twice"):
        pk.temporal(pk.memory([], schema=ROWS), end="vs")
    with pytest.raises(pk.QueryError, match="is no input"):
        pk.temporal("elements.parquet")  # type: ignore[arg-type]
    with pytest.raises(pk.QueryError, match="form='rows' is unknown"):
        pk.temporal(pk.memory([], schema=ROWS), form="rows")
    with pytest.raises(pk.QueryError, match="goes with start= and kind= alone"):
        pk.temporal(pk.memory([], schema=ROWS), form="open-close", end="ve", ordered=True)
    net = pk.Network("net")
    connector = pk.temporal(pk.memory([], schema=ROWS))
    for given in (
        {"on": "vs"},
        {"progress": {"vs": pk.ordered()}},
        {"timestamps": "internal"},
        {"progress": pk.delayed(2, by="k")},
        {"progress": pk.ordered(descending=True)},
    ):
        with pytest.raises(pk.QueryError):
            net.source("in", connector, **given)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda s: s.where("ve > 5"), "a filter of a temporal stream cannot use 've'"),
        (lambda s: s.filter("v > 5", "kind = 'insert'"), "a filter of a temporal stream cannot use 'kind'"),
        (lambda s: s.map(late="vold"), "a map of a temporal stream cannot use 'vold'"),
        (lambda s: s.map(vs="vs + 1"), "computes the payload, and 'vs' is no part of it"),
        (lambda s: s.as_temporal(), "the stream is temporal already"),
    ],
)
def test_what_may_change_while_an_event_lives_is_out_of_reach(build: Callable[[pk.Stream], Any], told: str) -> None:
    with pytest.raises(pk.QueryError, match=told):
        build(elements(pk.Network("net")))


def test_filter_map_and_union_keep_a_stream_temporal() -> None:
    net = pk.Network("net")
    one, rest = elements(net).filter("vs > 3 AND k = 'a'")
    mapped = rest.map(k="k", v="v * 2")
    both = pk.union(one, mapped)
    assert both._port.temporal
    assert mapped.schema.names == both.schema.names == ELEMENTS
    assert mapped.progressing == both.progressing == ("sync",)


@pytest.mark.parametrize(
    "build",
    [
        lambda s, t: s.aggregate({"n": "count(*)"}, on="sync", size=10),
        lambda s, t: s.aggregate({"n": "count(*)"}, on="sync", size=10, flush="slow"),
        lambda s, t: s.bsort(on="sync", slack=3),
        lambda s, t: s.cleanse(),
        lambda s, t: s.dedupe(on="sync"),
        lambda s, t: s.resample(t, {"n": "count(*)"}, on=("sync", "ts"), size=5),
        lambda s, t: s.top(3, by="v", on="sync", size=10),
        lambda s, t: pk.merge(s, s),
    ],
)
def test_other_boxes_refuse_temporal_streams(build: Callable[[pk.Stream, pk.Stream], Any]) -> None:
    net = pk.Network("net")
    with pytest.raises(pk.QueryError, match="takes no temporal stream"):
        build(elements(net), facts(net))


def test_a_union_of_events_and_facts_is_refused() -> None:
    net = pk.Network("net")
    same = net.source("same", pk.memory([], schema={"sync": "int64", **ROWS}), on="sync")
    with pytest.raises(pk.QueryError, match="temporal streams or ordinary ones, but not both"):
        pk.union(elements(net), same)


def test_an_in_order_system_refuses_events() -> None:
    net = pk.Network("net")
    elements(net).output("out")
    with pytest.raises(pk.QueryError, match="an adjust must not come before its insert"):
        net.explain(architecture="in-order")


def test_tuples_become_events_of_what_they_are() -> None:
    net = pk.Network("net")
    events = facts(net).as_temporal(end="ts + 5")
    assert events.schema.names == ["sync", "kind", "vs", "ve", "vold", "k"]
    assert events._port.properties.insert_only
    assert events.progressing == ("sync",)
    assert events.as_facts().progressing == ("vs",)
    assert not events.as_facts()._port.temporal


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"end": 0}, "a positive length"),
        ({"end": "1 minute"}, "is a duration, but the attribute is an integer"),
        ({"end": "k"}, "another type than 'ts'"),
        ({"end": "nothing"}, "unknown column"),
        ({"start": "k"}, "the stream makes no progress on it"),
        ({"start": "nothing"}, "unknown column"),
    ],
)
def test_lifetimes_that_make_no_sense_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(pk.QueryError, match=told):
        facts(pk.Network("net")).as_temporal(**options)


def test_columns_with_the_names_of_a_lifetime_are_refused() -> None:
    net = pk.Network("net")
    stream = net.source("in", pk.memory([], schema={"ts": "int64", "kind": "string"}))
    with pytest.raises(pk.QueryError, match="a column is called 'kind'"):
        stream.as_temporal()
    with pytest.raises(pk.QueryError, match="as_facts takes a temporal stream"):
        stream.as_facts()


def test_opens_and_closes_become_events_that_are_unique() -> None:
    net = pk.Network("net")
    rows = pk.memory([], schema={"what": "string", "moment": "timestamp[ms]", "p": "string"})
    events = net.source("in", pk.temporal(rows, form="open-close", start="moment", kind="what"))
    assert events.schema.names == ["sync", "kind", "vs", "ve", "vold", "p"]
    assert events._port.temporal
    assert events._port.properties.unique
    assert events.errors()._port.name == "in.errors"
    assert events.late()._port.name == "in.late"
    back = events.as_open_close()
    assert back.schema.names == ["sync", "kind", "at", "p"]
    assert back.progressing == ("sync",)
    with pytest.raises(pk.QueryError, match="the payload is called 'at'"):
        events.map(at="p").as_open_close()
