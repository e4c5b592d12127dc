"""What a join refuses, word by word, and what it derives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.boxes.join.band import LONGEST, Band
from penstock.plan.compile import compile_network

SCHEMA = {"ts": "int64", "at": "timestamp[ms]", "k": "string", "v": "int32"}


def joined(
    predicate: Any = None,
    *,
    left: dict[str, str] = SCHEMA,
    right: dict[str, str] = SCHEMA,
    sources: tuple[str, str] = ("ts", "ts"),
    **options: Any,
) -> pk.Stream:
    net = pk.Network("net")
    a, b = (
        net.source(name, pk.memory([], schema=schema), on=on)
        for name, schema, on in zip("ab", (left, right), sources, strict=True)
    )
    return a.join(b, predicate, **options)


def of_two_networks() -> None:
    one, two = (pk.Network(n).source("in", pk.memory([], schema=SCHEMA)) for n in ("net", "other"))
    one.join(two, size=1)


def after_a_map() -> None:
    net = pk.Network("net")
    a = net.source("a", pk.memory([], schema=SCHEMA))
    a.join(a.map(name="turn", ts="ts % 60"), size=1, on="ts")


def of_two_attributes() -> None:
    pairs = joined("l.k = r.k", size=1)
    pairs.join(pairs, size=1)


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    (
        "streams of different networks",
        of_two_networks,
        "network 'net', box 'join1': the streams of a join belong to different networks",
    ),
    (
        "something that is no stream",
        lambda: joined(size=1).join("b", size=1),  # type: ignore[arg-type]
        "network 'net', box 'join2': a stream is joined with another stream or with a table\n  found: 'b'",
    ),
    (
        "an unknown how",
        lambda: joined(size=1, how="cross"),
        "network 'net', box 'join1': how='cross' is unknown\n  expected: one of inner, left, right, full, semi, anti",
    ),
    (
        "an unknown progress",
        lambda: joined(size=1, progress="both"),
        "network 'net', box 'join1': progress='both' is unknown\n  expected: one of pair, left, right, min, max",
    ),
    (
        "progress on an attribute that may be NULL",
        lambda: joined(size=1, how="left", progress="right"),
        "network 'net', box 'join1': the results of a left join make no progress='right'\n"
        "  expected: one of pair, left, min, max\n"
        "  to do: an attribute that is NULL or absent in some results says nothing of those that follow",
    ),
    (
        "progress of pairs where there are none",
        lambda: joined(size=1, how="anti", progress="max"),
        "the results of an anti join make no progress='max'",
    ),
    (
        "an unbounded band",
        lambda: joined("l.k = r.k"),
        "network 'net', box 'join1': unbounded band: nothing says how far apart l.ts and r.ts of a pair may be, so all "
        "tuples would be kept\n  to do: give size= or band=, or a predicate with l.ts = r.ts",
    ),
    (
        "times equated, but only in one of two cases",
        lambda: joined("l.ts = r.ts OR l.k = r.k"),
        "unbounded band",
    ),
    (
        "a negative size",
        lambda: joined(size=-1),
        "network 'net', box 'join1': the size of a join is negative\n  expected: 0 or more\n  found: -1",
    ),
    (
        "a negative duration",
        lambda: joined(size="-1 second", sources=("at", "at")),
        "the size of a join is negative\n  expected: 0 or more\n  found: '-1 second'",
    ),
    (
        "an empty band",
        lambda: joined(band=(3, -4)),
        "the band is empty: no pair could ever qualify\n  expected: before + after >= 0\n  found: before 3, after -4",
    ),
    (
        "a band that does not fit",
        lambda: joined(size=LONGEST + 1),
        f"the band is too long\n  expected: at most {LONGEST} ticks either way",
    ),
    (
        "two sizes",
        lambda: joined(size=1, band=(1, 1)),
        "size= and band= are two ways to say the same\n  to do: give one of them",
    ),
    (
        "half a band",
        lambda: joined(band=5),
        "band= takes two durations\n  expected: (before, after)\n  found: 5",
    ),
    (
        "a size that is no number of ticks",
        lambda: joined(size=1.5),
        "size= takes a number of ticks or a duration\n  expected: such as 5 or '10 seconds'\n  found: 1.5",
    ),
    (
        "a size without a unit",
        lambda: joined(size=5, sources=("at", "at")),
        "5 has no unit, but the attribute is a time",
    ),
    (
        "a duration that is no whole number of ticks",
        lambda: joined(size="1 us", sources=("at", "at")),
        "'1 us' is not a whole number of ticks of timestamp[ms]",
    ),
    (
        "an attribute without progress",
        lambda: joined(size=1, on=("ts", "v")),
        "network 'net', box 'join1': a join on 'v' would never close: the stream makes no progress on it\n"
        "  expected: one of ts\n  found: 'v' of stream 'b'",
    ),
    (
        "an attribute whose progress a box lost",
        after_a_map,
        "a join on 'ts' would never close: the stream makes no progress on it; box 'turn' (ts=ts % 60) lost it",
    ),
    (
        "one of several attributes",
        of_two_attributes,
        "say which attributes the join is on\n  found: 'join1' makes progress on l_ts, r_ts\n"
        "  to do: give on=('A', 'B'), one progressing attribute of each stream",
    ),
    (
        "an unknown attribute",
        lambda: joined(size=1, on="time"),
        "unknown column 'time'\n  expected: one of ts, at, k, v",
    ),
    (
        "three attributes",
        lambda: joined(size=1, on=("ts", "ts", "ts")),
        "on= names the progressing attributes of the join\n  expected: two names, or one of both",
    ),
    (
        "times that cannot be compared",
        lambda: joined(size=1, sources=("ts", "at")),
        "the progressing attributes of the streams cannot be compared\n"
        "  expected: two integers, two dates, or two timestamps of the same unit\n"
        "  found: ts int64 and at timestamp[ms]\n  to do: cast one of them with map()",
    ),
    (
        "timestamps of two units",
        lambda: joined(size="1 s", left={"ts": "timestamp[s]"}, right={"ts": "timestamp[us]"}),
        "found: ts timestamp[s] and ts timestamp[us]",
    ),
    (
        "a predicate that is no condition",
        lambda: joined("l.v + r.v", size=1),
        "network 'net', box 'join1': the predicate 'l.v + r.v' is no condition\n  expected: a boolean\n  found: int32",
    ),
    (
        "an unknown column in the predicate",
        lambda: joined("l.key = r.k", size=1),
        "unknown column 'l.key' in the predicate\n  expected: one of l.ts, l.at, l.k, l.v",
    ),
    (
        "a predicate that is no text",
        lambda: joined(True, size=1),
        "a predicate is a text\n  expected: such as 'l.k = r.k'\n  found: True",
    ),
    (
        "one name for both sides",
        lambda: joined(size=1, names=("x", "x")),
        "the sides need two different names\n  found: ('x', 'x')\n  to do: names=('l', 'r')",
    ),
    (
        "an added attribute whose name is taken",
        lambda: joined(
            size=1, left={"ts": "int64", "min_ts_b": "int8"}, right={"b": "int64"}, sources=("ts", "b"), progress="min"
        ),
        "there is already a column 'min_ts_b' in the pairs\n  to do: rename it with map()",
    ),
    (
        "an order on another attribute",
        lambda: joined(size=1, on="ts", assuming=(pk.order("at"), None)),
        "the order assumed of 'a' is not on the attribute of the join\n  expected: ts\n  found: at",
    ),
    (
        "one order for both",
        lambda: joined(size=1, assuming=pk.order("ts")),
        "assuming= takes an order for each stream\n  expected: a pair, such as (pk.order('ts', slack=2), None)",
    ),
    (
        "something that is no order",
        lambda: joined(size=1, assuming=("ts", None)),
        "assuming= takes an order for each stream",
    ),
    (
        "an order of groups, from which no progress follows",
        lambda: joined(size=1, assuming=(pk.order("v", by="k"), None)),
        "a join on 'v' would never close: the stream makes no progress on it",
    ),
]


@pytest.mark.parametrize(("act", "text"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refused(act: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        act()
    assert text in str(refused.value)


def test_a_refused_join_leaves_nothing_behind() -> None:
    net = pk.Network("net")
    a = net.source("a", pk.memory([], schema=SCHEMA))
    for options in ({}, {"size": 1, "assuming": (pk.order("ts"), pk.order("ts", by="no"))}):
        with pytest.raises(pk.QueryError):
            a.join(a, "l.k = r.k", **{"assuming": (pk.order("ts"), None), **options})  # type: ignore[arg-type]
    assert [box.name for box in net._boxes] == ["a"]


@pytest.mark.parametrize(
    ("options", "band"),
    [
        ({"size": 5}, Band(5, 5)),
        ({"size": 0}, Band(0, 0)),
        ({"band": (1, 2)}, Band(1, 2)),
        ({"band": (-1, 2)}, Band(-1, 2)),
        ({"predicate": "r.ts = l.ts AND l.k = r.k"}, Band(0, 0)),
        ({"size": "2 s", "sources": ("at", "at")}, Band(2000, 2000)),
        ({"size": dt.timedelta(seconds=2), "sources": ("at", "at")}, Band(2000, 2000)),
        ({"band": ("-1 s", "2 s"), "sources": ("at", "at")}, Band(-1000, 2000)),
        ({"band": (dt.timedelta(seconds=-1), "2 s"), "sources": ("at", "at")}, Band(-1000, 2000)),
        ({"predicate": "l.v = r.ts", "sources": ("v", "ts")}, Band(0, 0)),
    ],
)
def test_bands(options: dict[str, Any], band: Band) -> None:
    assert box_of(joined(**options)).band == band


@pytest.mark.parametrize(
    ("options", "progressing"),
    [
        ({}, ("l_ts", "r_ts")),
        ({"progress": "left"}, ("l_ts",)),
        ({"progress": "right"}, ("r_ts",)),
        ({"progress": "min"}, ("ts",)),
        ({"how": "left"}, ("l_ts",)),
        ({"how": "right"}, ("r_ts",)),
        ({"how": "full"}, ()),
        ({"how": "full", "progress": "max"}, ("ts",)),
        ({"how": "semi"}, ("ts",)),
        ({"how": "anti", "progress": "left"}, ("ts",)),
        ({"right": {"b": "int32"}, "sources": ("ts", "b")}, ("ts", "b")),
        ({"right": {"b": "int32"}, "sources": ("ts", "b"), "progress": "max"}, ("max_ts_b",)),
    ],
)
def test_what_makes_progress(options: dict[str, Any], progressing: tuple[str, ...]) -> None:
    assert joined(size=1, **options).progressing == progressing


def test_columns_of_the_results() -> None:
    assert joined(size=1, right={"ts": "int64", "w": "string"}).schema == pa.schema(
        [
            ("l_ts", pa.int64()),
            ("at", pa.timestamp("ms")),
            ("k", pa.string()),
            ("v", pa.int32()),
            ("r_ts", pa.int64()),
            ("w", pa.string()),
        ]
    )
    assert joined(size=1, how="anti").schema.names == list(SCHEMA)
    assert joined(size=1, progress="max", sources=("v", "ts")).schema.field("max_v_ts").type == pa.int64()
    assert joined(size=1, progress="max", sources=("v", "v")).schema.field("v").type == pa.int32()


@pytest.mark.parametrize(
    ("predicate", "options", "keys", "partition"),
    [
        ("l.k = r.k", {}, (("k",), ("k",)), ("l_k",)),
        ("l.k = r.k", {"how": "right"}, (("k",), ("k",)), ("r_k",)),
        ("l.k = r.k", {"how": "semi"}, (("k",), ("k",)), ("k",)),
        ("l.k = r.k", {"how": "full"}, (("k",), ("k",)), None),
        ("l.v = r.v AND r.k = l.k AND l.ts = r.ts", {}, (("v", "k"), ("v", "k")), ("l_v", "l_k")),
        ("l.k = r.k AND l.v = r.v AND l.v = r.v", {}, (("k", "v"), ("k", "v")), ("l_k", "l_v")),
        ("l.ts = r.ts", {}, (("ts",), ("ts",)), ("l_ts",)),
        (None, {"size": 0}, (("ts",), ("ts",)), ("l_ts",)),
        (None, {}, (("#segment",), ("#segment",)), None),
        ("l.k = r.k OR l.v = 1", {"how": "right"}, (("#segment",), ("#segment",)), None),
        (None, {"how": "full"}, ((), ()), ()),
    ],
)
def test_how_tuples_find_their_bucket(
    predicate: str | None, options: dict[str, Any], keys: tuple[tuple[str, ...], ...], partition: tuple[str, ...] | None
) -> None:
    box = box_of(joined(predicate, **{"size": 3, **options}))
    assert (box.keys(0), box.keys(1)) == keys
    assert box.partition == partition


@pytest.mark.parametrize(
    ("how", "progress", "marks", "stated"),
    [
        # before 2, after 3; the left stream stands at 10, the right one at 20
        ("inner", "pair", (10, 20), {"l_ts": 10, "r_ts": 8}),
        ("inner", "min", (10, 20), {"ts": 8}),
        ("inner", "max", (10, 20), {"ts": 10}),
        ("inner", "max", (20, 10), {"ts": 10}),
        ("left", "pair", (20, 10), {"l_ts": 7}),
        ("left", "min", (20, 10), {"ts": 7}),
        ("left", "max", (20, 10), {"ts": 7}),  # a left tuple at 7 may still leave alone
        ("right", "max", (10, 20), {"ts": 8}),
        ("full", "max", (10, 10), {"ts": 7}),
        ("anti", "pair", (20, 10), {"ts": 7}),
        ("inner", "pair", (2**63 - 1, 20), {"l_ts": 17, "r_ts": 20}),
        ("inner", "pair", (-(2**63), 20), {"l_ts": -(2**63), "r_ts": -(2**63)}),
        ("full", "max", (2**63 - 1, 2**63 - 1), {"ts": 2**63 - 1}),
    ],
)
def test_marks(how: str, progress: str, marks: tuple[int, int], stated: dict[str, int]) -> None:
    box = box_of(joined(band=(2, 3), how=how, progress=progress))
    found = box.progress(0, [Marks({"ts": mark}) for mark in marks])
    assert found.alone == Marks(stated)


def test_marks_of_narrow_attributes_say_nothing_below_their_smallest_value() -> None:
    box = box_of(joined(size=100, left={"ts": "int8"}, right={"ts": "uint8"}))
    found = box.progress(0, [Marks({"ts": -50}), Marks({"ts": 60})])
    assert (found.of("l_ts"), found.of("r_ts")) == (-50, -(2**63))
    box = box_of(joined(band=(-100, 100), left={"ts": "int8"}, right={"ts": "int8"}))
    assert box.progress(0, [Marks({"ts": 100}), Marks({"ts": 127})]).of("r_ts") == 127


def test_explain_tells_the_band_and_the_exchange() -> None:
    net = pk.Network("net")
    a, b = (net.source(n, pk.memory([], schema=SCHEMA), on="at") for n in "ab")
    a.join(b, "l.k = r.k", band=("-5 s", "1 minute"), how="left").output("near")
    a.join(b, size="30 s").output("all")
    said = net.explain()
    assert "join join1 <- a, b: left, l.k = r.k and l.at + 5 s <= r.at <= l.at + 60 s, progress=pair" in said
    assert "exchange of a: by k" in said
    assert "keeps l until r.at has passed l.at + 60 s, r until l.at has passed r.at - 5 s" in said
    assert "exchange of b: by segment of time, as there are no keys" in said


def test_a_join_works_at_the_stage_of_its_inputs_where_their_keys_are_its_own() -> None:
    net = pk.Network("net")
    a, b, c = (net.source(n, pk.memory([], schema=SCHEMA)) for n in "abc")
    counts = [s.aggregate({"n": "count(*)"}, size=10, by="k") for s in (a, b)]
    pairs = counts[0].join(counts[1], "l.k = r.k", size=10, name="here")
    pairs.join(c, "l_k = r.k", on=("l_ts", "ts"), size=10, name="here too").output("near")
    pairs.join(c, "r_n = r.ts", on=("l_ts", "ts"), size=10, name="elsewhere").output("far")
    stages = compile_network(net.network).stage_of
    assert (stages["here"], stages["here too"], stages["elsewhere"]) == (1, 1, 2)
