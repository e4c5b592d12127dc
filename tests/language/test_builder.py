"""What the Python language refuses, word by word, and what it derives."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as pk

SCHEMA = {"ts": "int64", "at": "timestamp[ms]", "k": "string", "v": "double"}


def stream(net: pk.Network | None = None, name: str = "in", **options: object) -> pk.Stream:
    net = net if net is not None else pk.Network("net")
    return net.source(name, pk.memory([], schema=SCHEMA), **options)  # type: ignore[arg-type]


def two(left: dict[str, str], right: dict[str, str]) -> tuple[pk.Stream, pk.Stream]:
    net = pk.Network("net")
    return tuple(net.source(n, pk.memory([], schema=s)) for n, s in (("left", left), ("right", right)))  # type: ignore[return-value]


def named_twice() -> None:
    net = pk.Network("net")
    stream(net)
    stream(net)


def two_outputs_of_one_name() -> None:
    one = stream()
    one.output("out")
    one.where("v > 1").output("out")


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    (
        "an unknown column in a window",
        lambda: stream().aggregate({"n": "count(*)"}, on="time", size=10),
        "network 'net', box 'aggregate1': unknown column 'time'\n  expected: one of ts, at, k, v",
    ),
    (
        "an unknown group",
        lambda: stream().aggregate({"n": "count(*)"}, on="ts", size=10, by=["key"]),
        "network 'net', box 'aggregate1': unknown column 'key'\n  expected: one of ts, at, k, v",
    ),
    (
        "a window on an attribute that never progressed",
        lambda: stream().aggregate({"n": "count(*)"}, on="at", size="1 s"),
        "network 'net', box 'aggregate1': a window on 'at' would never close: the stream makes no progress on it\n"
        "  expected: one of ts\n"
        "  found: 'at' of stream 'in'\n"
        "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
        "date_trunc('minute', ts)",
    ),
    (
        "a window on an attribute whose progress a box lost",
        lambda: (
            stream().map(name="turn", ts="ts % 7", k="k").where("k = 'x'").aggregate({"n": "count(*)"}, on="ts", size=9)
        ),
        "network 'net', box 'aggregate1': a window on 'ts' would never close: the stream makes no progress on it; "
        "box 'turn' (ts=ts % 7, k) lost it\n"
        "  expected: an attribute that progresses\n"
        "  found: 'ts' of stream 'filter1'\n"
        "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
        "date_trunc('minute', ts)",
    ),
    (
        "a window without a word on what",
        lambda: stream().map(a="ts", b="ts + 1").aggregate({"n": "count(*)"}, size=9),
        "network 'net', box 'aggregate1': say which attribute the windows are on\n"
        "  found: progress on a, b\n  to do: give on=",
    ),
    (
        "a size of nothing",
        lambda: stream().aggregate({"n": "count(*)"}, size=0),
        "network 'net', box 'aggregate1': the size of a window must be positive\n  found: 0",
    ),
    (
        "a step backwards",
        lambda: stream().aggregate({"n": "count(*)"}, size=5, advance=-1),
        "network 'net', box 'aggregate1': the advance of a window must be positive\n  found: -1",
    ),
    (
        "a duration on an integer",
        lambda: stream().aggregate({"n": "count(*)"}, size="10 seconds"),
        "network 'net', box 'aggregate1': '10 seconds' is a duration, but the attribute is an integer\n"
        "  expected: an integer\n  found: '10 seconds' on an attribute of type int64",
    ),
    (
        "an integer on a time",
        lambda: stream(on="at").aggregate({"n": "count(*)"}, size=10),
        "network 'net', box 'aggregate1': 10 has no unit, but the attribute is a time\n"
        "  expected: a duration such as '10 seconds'\n  found: 10 on an attribute of type timestamp[ms]",
    ),
    (
        "a unit finer than the attribute",
        lambda: stream(on="at").aggregate({"n": "count(*)"}, size="10 us"),
        "network 'net', box 'aggregate1': '10 us' is not a whole number of ticks of timestamp[ms]\n"
        "  expected: a multiple of its unit",
    ),
    (
        "a word that is no unit",
        lambda: stream(on="at").aggregate({"n": "count(*)"}, size="10 parsecs"),
        "network 'net', box 'aggregate1': cannot read the duration '10 parsecs'\n"
        "  expected: numbers with units, such as '2 seconds', '1 minute 30 s' or '500 ms'",
    ),
    (
        "an output named like a group",
        lambda: stream().aggregate({"k": "count(*)"}, size=10, by="k"),
        "network 'net', box 'aggregate1': the output 'k' has the name of a result column\n"
        "  to do: the window start and the by attributes are in the result already; rename the output",
    ),
    (
        "a group named twice",
        lambda: stream().aggregate({"n": "count(*)"}, size=10, by=["k", "k"]),
        "network 'net', box 'aggregate1': 'k' is named twice in by=",
    ),
    (
        "a union of streams that differ",
        lambda: pk.union(*two({"ts": "int64", "v": "double"}, {"ts": "int64", "v": "int64"})),
        "network 'net', box 'union1': the inputs of a union differ in their schemas\n"
        "  expected: ts int64, v double (of 'left')\n"
        "  found: ts int64, v int64 (of 'right')\n"
        "  to do: give the streams the same attributes and types with map()",
    ),
    ("a union of one", lambda: pk.union(stream()), "a union needs at least two streams\n  found: 1"),
    (
        "a union across networks",
        lambda: pk.union(stream(), stream()),
        "network 'net', box 'union1': the streams of a union belong to different networks",
    ),
    (
        "two boxes of one name",
        named_twice,
        "network 'net', box 'in': there is already a box named 'in'\n  found: in\n  to do: give it another name",
    ),
    (
        "two outputs of one name",
        two_outputs_of_one_name,
        "network 'net', box 'out': there is already an output named 'out'\n  found: out\n  to do: give it another name",
    ),
    (
        "a box named like a stream of another",
        lambda: stream().where("v > 1", name="in.late"),
        "network 'net', box 'in.late': there is already a stream named 'in.late', of the source 'in'\n"
        "  to do: give the box another name",
    ),
    (
        "a name that leads out of the checkpoint",
        lambda: stream().output("../elsewhere"),
        "network 'net', box '../elsewhere': '../elsewhere' cannot be a name\n"
        "  expected: a name that is not empty, does not begin with a dot and has no '/', '\\' or '!' in it",
    ),
    (
        "a name that the plan uses",
        lambda: stream().output("in!late"),
        "network 'net', box 'in!late': 'in!late' cannot be a name\n"
        "  expected: a name that is not empty, does not begin with a dot and has no '/', '\\' or '!' in it",
    ),
    (
        "a filter without predicates",
        lambda: stream().filter(),
        "network 'net', box 'filter1': a filter needs at least one predicate\n  to do: filter('len > 100')",
    ),
    (
        "a map without attributes",
        lambda: stream().map(),
        "network 'net', box 'map1': a map needs at least one output attribute\n  to do: map(minute='ts / 60')",
    ),
    (
        "progress on a string",
        lambda: stream(on="k"),
        "network 'net', box 'in': 'k' cannot carry progress\n"
        "  expected: an integer, date or timestamp attribute\n  found: k string\n"
        "  to do: choose another attribute with on=; if its texts are times, give schema= with k as a timestamp, "
        "and timestamp_formats= where they are not in ISO 8601",
    ),
    (
        "an unknown choice for late tuples",
        lambda: stream(late="ignore"),
        "network 'net', box 'in': late='ignore' is unknown\n  expected: one of route, drop, error",
    ),
    (
        "a delay into the future",
        lambda: stream(progress=pk.delayed(-1)),
        "network 'net', box 'in': a delay cannot be negative\n  found: -1",
    ),
    (
        "late tuples of a box",
        lambda: stream().where("v > 1").late(),
        "network 'net', box 'filter1': nothing comes too late for a filter\n"
        "  expected: an input, or a box with assuming= or timeout=",
    ),
]


@pytest.mark.parametrize(("build", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refused_where_it_was_written(build: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: stream().where("vv > 1"), ["box 'filter1'", "vv", "ts, at, k, v"]),
        (lambda: stream().where("v + 1"), ["box 'filter1'", "v + 1", "double"]),
        (lambda: stream().map(x="k + 1.5"), ["box 'map1'", "'k + 1.5' does not fit its columns", "k: string"]),
        (lambda: stream().aggregate({"s": "sum(k)"}, size=10), ["box 'aggregate1'", "sum(k)", "string"]),
        (lambda: stream().aggregate({"s": "v + 1"}, size=10), ["box 'aggregate1'", "v + 1"]),
        (lambda: stream().aggregate({"#window": "count(*)"}, size=10), ["box 'aggregate1'", "'#window'"]),
    ],
    ids=["unknown column", "no predicate", "type clash", "sum of a string", "no aggregate", "a name the kernel uses"],
)
def test_refused_naming_the_box_and_the_fault(build: Callable[[], object], words: list[str]) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert [word for word in words if word not in str(refused.value)] == [], str(refused.value)


def test_a_refused_box_leaves_no_trace() -> None:
    net = pk.Network("net")
    source = stream(net)
    with pytest.raises(pk.QueryError):
        source.aggregate({"n": "count(*)"}, size=0)
    source.aggregate({"n": "count(*)"}, size=5).output("out")
    assert [box.name for box in net.network.boxes] == ["in", "aggregate1", "out"]


def test_a_network_without_outputs_is_refused() -> None:
    net = pk.Network("net")
    stream(net)
    with pytest.raises(pk.QueryError, match="the network has no output"):
        net.explain()


def test_schema_and_progress_are_derived_box_by_box() -> None:
    source = stream()
    assert source.progressing == ("ts",)
    mapped = source.map(minute="ts / 60", ts="ts", k="k")
    assert mapped.progressing == ("minute", "ts")
    counted = mapped.aggregate({"n": "count(*)"}, on="minute", size=1, by="k")
    assert counted.schema == pa.schema({"minute": pa.int64(), "k": pa.string(), "n": pa.int64()})
    assert counted.progressing == ("minute",)
    assert source.late().progressing == source.errors().progressing == ()
    assert repr(counted) == "<stream 'aggregate1' (minute int64, k string, n int64), progress on minute>"


def test_a_union_progresses_on_what_all_its_inputs_progress_on() -> None:
    source = stream()
    both = source.map(a="ts", b="ts + 1")
    one = source.map(a="ts", b="0 - ts")
    assert pk.union(both, both).progressing == ("a", "b")
    assert pk.union(both, one).progressing == ("a",)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_the_start_of_a_window_has_room_below_the_attribute(kind: str) -> None:
    net = pk.Network("net")
    source = net.source("in", pk.memory([(1,), (9,)], schema={"ts": kind}))
    source.aggregate({"n": "count(*)"}, size=10, advance=4).output("out")
    result = net.run("local")
    assert result["out"]["ts"].to_pylist() == [-8, -4, 0, 4, 8]


def test_a_date_has_no_hours() -> None:
    net = pk.Network("net")
    source = net.source("in", pk.memory([], schema=pa.schema({"ts": pa.date64()})))
    with pytest.raises(pk.QueryError, match="'12 hours' is not a whole number of ticks of date64"):
        source.aggregate({"n": "count(*)"}, size="12 hours")
