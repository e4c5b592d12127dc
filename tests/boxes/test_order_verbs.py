"""What BSort, Assume, Cleanse and Merge refuse, word by word, and what they derive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as pk
from penstock.boxes.assume.verb import assume

SCHEMA = {"ts": "int64", "at": "timestamp[ms]", "day": "date", "k": "string", "v": "double"}


def stream(schema: dict[str, str] = SCHEMA, net: pk.Network | None = None, name: str = "in") -> pk.Stream:
    return (net or pk.Network("net")).source(name, pk.memory([], schema=schema))


def several() -> pk.Stream:
    return stream().map(name="both", a="ts", b="ts + 1", k="k")


def pair(left: dict[str, str], right: dict[str, str]) -> list[pk.Stream]:
    net = pk.Network("net")
    return [stream(schema, net, name) for schema, name in ((left, "left"), (right, "right"))]


NO_TICKS = (
    "'k' has no ticks to order by\n"
    "  expected: an integer, date or timestamp attribute\n"
    "  found: k string\n"
    "  to do: choose another attribute with on=, or compute one with map()"
)
NO_PROGRESS = (
    "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
    "date_trunc('minute', ts)"
)
SLACK = "slack is a number of tuples\n  expected: an integer of 0 or more\n"
UNKNOWN = "unknown column 'x'\n  expected: one of ts, at, day, k, v"

REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    ("bsort on nothing known", lambda: stream().bsort(on="x", slack=1), f"box 'bsort1': {UNKNOWN}"),
    ("bsort by nothing known", lambda: stream().bsort(by=["x"], slack=1), f"box 'bsort1': {UNKNOWN}"),
    (
        "bsort by a group twice",
        lambda: stream().bsort(by=["k", "k"], slack=1),
        "box 'bsort1': 'k' is named twice in by=",
    ),
    ("bsort on text", lambda: stream().bsort(on="k", slack=1), f"box 'bsort1': {NO_TICKS}"),
    ("a negative slack", lambda: stream().bsort(slack=-1), f"box 'bsort1': {SLACK}  found: -1"),
    ("a slack in words", lambda: stream().bsort(slack="2"), f"box 'bsort1': {SLACK}  found: '2'"),  # type: ignore[arg-type]
    ("a slack that is no number", lambda: stream().bsort(slack=True), f"box 'bsort1': {SLACK}  found: True"),
    ("a slack in parts", lambda: stream().bsort(slack=1.5), f"box 'bsort1': {SLACK}  found: 1.5"),  # type: ignore[arg-type]
    (
        "bsort on what it groups by",
        lambda: stream().bsort(slack=1, by=["k", "ts"]),
        "box 'bsort1': 'ts' is named twice: in on= and in by=\n  to do: leave it out of by=",
    ),
    (
        "bsort without a word on what",
        lambda: several().bsort(slack=1),
        "box 'bsort1': say which attribute to sort on\n  found: progress on a, b\n  to do: give on=",
    ),
    (
        "bsort on nothing at all",
        lambda: stream().late().bsort(slack=1),
        "box 'bsort1': say which attribute to sort on\n  found: progress on nothing\n  to do: give on=",
    ),
    (
        "an order that is none",
        lambda: assume(stream(), "ts"),  # type: ignore[arg-type]
        "box 'assume1': that is no order specification\n  expected: pk.order(on=, slack=0, by=())\n  found: 'ts'",
    ),
    ("an order on text", lambda: assume(stream(), pk.order("k"), name="o"), f"box 'o': {NO_TICKS}"),
    ("an order on nothing known", lambda: assume(stream(), pk.order("x")), f"box 'assume1': {UNKNOWN}"),
    ("an order by nothing known", lambda: assume(stream(), pk.order("ts", by="x")), f"box 'assume1': {UNKNOWN}"),
    ("cleanse on nothing known", lambda: stream().cleanse(on="x"), f"box 'cleanse1': {UNKNOWN}"),
    ("cleanse on text", lambda: stream().cleanse(on="k"), f"box 'cleanse1': {NO_TICKS}"),
    (
        "cleanse without progress",
        lambda: stream().cleanse(on="at"),
        "box 'cleanse1': a sort on 'at' would never let anything go: the stream makes no progress on it\n"
        f"  expected: one of ts\n  found: 'at' of stream 'in'\n{NO_PROGRESS}",
    ),
    (
        "cleanse of late tuples",
        lambda: stream().late().cleanse(on="ts"),
        "box 'cleanse1': a sort on 'ts' would never let anything go: the stream makes no progress on it\n"
        f"  expected: an attribute that progresses\n  found: 'ts' of stream 'in.late'\n{NO_PROGRESS}",
    ),
    (
        "merge of different schemas",
        lambda: pk.merge(*pair({"ts": "int64", "k": "string"}, {"ts": "int64", "k": "int64"})),
        "box 'merge1': the inputs of a merge differ in their schemas\n"
        "  expected: ts int64, k string (of 'left')\n"
        "  found: ts int64, k int64 (of 'right')\n"
        "  to do: give the streams the same attributes and types with map()",
    ),
    (
        "merge of different networks",
        lambda: pk.merge(stream(), stream()),
        "box 'merge1': the streams of a merge belong to different networks",
    ),
    (
        "merge without a word on what",
        lambda: pk.merge(*[several()] * 2),
        "box 'merge1': say which attribute to merge on\n  found: progress on a, b in all streams\n  to do: give on=",
    ),
    (
        "merge on what one stream has lost",
        lambda: pk.merge((source := stream()), source.map(ts="ts % 60", at="at", day="day", k="k", v="v"), on="ts"),
        "box 'merge1': a merge on 'ts' would never let anything go: the stream makes no progress on it; "
        "box 'map1' (ts=ts % 60, at, day, k, v) lost it\n"
        f"  expected: an attribute that progresses\n  found: 'ts' of stream 'map1'\n{NO_PROGRESS}",
    ),
]


@pytest.mark.parametrize(("build", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals_say_what_was_expected(build: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert str(refused.value) == f"network 'net', {text}"


def test_a_merge_of_one_stream_is_none() -> None:
    with pytest.raises(pk.QueryError, match="a merge needs at least two streams"):
        pk.merge(stream())


@pytest.mark.parametrize("on", ["ts", "at", "day"])
def test_any_attribute_with_ticks_can_be_sorted_on(on: str) -> None:
    source = stream()
    for made in (source.bsort(on=on, slack=3), assume(source, pk.order(on, by="k"))):
        assert made.schema == source.schema
        assert made.progressing == ("ts",)


def test_an_order_without_groups_is_progress() -> None:
    ordered = assume(stream(), pk.order("at", slack=2), name="o")
    assert ordered.progressing == ("ts", "at")
    assert ordered.late().progressing == ()
    ordered.aggregate({"n": "count(*)"}, on="at", size="1 second")


def test_a_sort_that_punctuation_releases_keeps_all_progress() -> None:
    assert several().cleanse(on="b").progressing == ("b", "a")
    one, other = several(), None
    other = one.map(a="a", b="0 - b", k="k")
    assert pk.merge(one, other).progressing == ("a",)


def test_inputs_of_a_merge_may_name_their_attributes_in_another_order() -> None:
    net = pk.Network("net")
    left = net.source("left", pk.memory([(1, "a"), (3, "c")], schema={"ts": "int64", "k": "string"}))
    right = net.source("right", pk.memory([("b", 2)], schema={"k": "string", "ts": "int64"}))
    pk.merge(left, right).output("out")
    assert net.run("local")["out"].to_pylist() == [{"ts": n, "k": k} for n, k in ((1, "a"), (2, "b"), (3, "c"))]


def test_broken_records_can_be_sorted_though_nothing_numbers_them() -> None:
    net = pk.Network("net")
    rows: list[Any] = [("x",), ("y",), (1,)]
    source = net.source("in", pk.memory(rows, schema={"ts": "int64"}))
    source.errors().bsort(on="rows", slack=5).output("out")
    assert net.run("local")["out"]["record"].to_pylist() == ["('x',)", "('y',)"]


def test_explain_says_what_is_sorted_and_by_what() -> None:
    net = pk.Network("net")
    source = stream(net=net)
    source.bsort(slack=3, by="k").output("a")
    pk.merge(source, source.cleanse(by=["k"], name="tidy")).output("b")
    assume(source, pk.order("at", 2, "k")).output("c")
    text = net.explain()
    assert "bsort bsort1 <- in: on ts, slack 3 by k" in text
    assert "cleanse tidy <- in: on ts by k" in text
    assert "merge merge1 <- in, tidy: in + tidy on ts" in text
    assert "assume assume1 <- in: ordered on at, slack 2 by k" in text
