"""What aggregate() and window_function() refuse, word by word, and what they derive."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.by_group.box import GroupwiseAggregate

SCHEMA = {"ts": "int64", "at": "timestamp[ms]", "k": "string", "j": "int64", "v": "double", "ok": "bool"}
COUNT = {"n": "count(*)"}
BOX = "network 'net', box 'aggregate1': "


def stream() -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=SCHEMA))


def timed() -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=SCHEMA), on="at")


def function(**arguments: Any) -> Any:
    return pk.window_function(**{"final": lambda window: 0, **arguments})


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    (
        "an order on another attribute",
        lambda: stream().aggregate(COUNT, on="ts", size=10, assuming=pk.order("j")),
        BOX + "the order assumed is on 'j', but the windows are on 'ts'\n"
        "  expected: pk.order('ts', ...)\n"
        "  to do: order and windows must be on the same attribute",
    ),
    (
        "an order by what is no group",
        lambda: stream().aggregate(COUNT, size=10, by="k", assuming=pk.order("ts", 2, ["k", "j"])),
        BOX + "the order assumed is by 'j', which is no group of the windows\n"
        "  expected: some of by= (k)\n"
        "  found: ordered on ts, slack 2 by k, j\n"
        "  to do: add 'j' to by=, or leave it out of the order",
    ),
    (
        "an order on an attribute that has none",
        lambda: stream().aggregate(COUNT, size=10, assuming=pk.order("v")),
        BOX + "'v' has no ticks to order by\n  expected: an integer, date or timestamp attribute\n  found: v double",
    ),
    (
        "an order on an unknown attribute",
        lambda: stream().aggregate(COUNT, size=10, assuming=pk.order("time")),
        BOX + "unknown column 'time'\n  expected: one of ts, at, k, j, v, ok",
    ),
    (
        "something else in place of an order",
        lambda: stream().aggregate(COUNT, size=10, assuming="ts"),  # type: ignore[arg-type]
        BOX + "assuming= is no order specification\n  expected: pk.order(...)\n  found: 'ts'",
    ),
    (
        "slack of tuple numbers",
        lambda: stream().aggregate(COUNT, size=10, assuming=pk.order(pk.TUPLE_NUMBER, 2)),
        BOX + "tuple numbers are given in order of arrival, in each group of by=\n"
        "  found: ordered on Tup#, slack 2\n"
        "  to do: leave assuming= out",
    ),
    (
        "tuple numbers of other groups",
        lambda: stream().aggregate(COUNT, size=10, by="k", assuming=pk.order(pk.TUPLE_NUMBER, by="j")),
        BOX + "tuple numbers are given in order of arrival, in each group of by=\n"
        "  found: ordered on Tup#, slack 0 by j\n"
        "  to do: leave assuming= out",
    ),
    (
        "partial windows of time",
        lambda: stream().aggregate(COUNT, size=10, partial=True),
        BOX + "partial= is for windows of tuples\n  found: a window on 'ts'\n  to do: on=pk.TUPLE_NUMBER",
    ),
    (
        "a size of zero",
        lambda: stream().aggregate(COUNT, on=pk.TUPLE_NUMBER, size=0),
        BOX + "the size of a window must be positive\n  found: 0",
    ),
    (
        "a size of zero of opened windows",
        lambda: stream().aggregate(COUNT, size=0, advance="ok"),
        BOX + "the size of a window must be positive\n  found: 0",
    ),
    (
        "a negative advance",
        lambda: stream().aggregate(COUNT, size=10, advance=-1, origin="first"),
        BOX + "the advance of a window must be positive\n  found: -1",
    ),
    (
        "an advance that is a negative text",
        lambda: stream().aggregate(COUNT, size=10, advance="-5"),
        BOX + "the advance of a window must be positive\n  found: -5",
    ),
    (
        "a size with a unit of tuples",
        lambda: timed().aggregate(COUNT, on=pk.TUPLE_NUMBER, size="10 seconds"),
        BOX + "'10 seconds' is a duration, but the attribute is an integer\n"
        "  expected: an integer\n"
        "  found: '10 seconds' on an attribute of type int64",
    ),
    (
        "an advance that is no condition",
        lambda: stream().aggregate(COUNT, size=10, advance="v + 1"),
        BOX + "advance='v + 1' is neither a length nor a condition\n"
        "  expected: a length such as '10 seconds' (an integer on an integer attribute), or a predicate that opens a "
        "window\n"
        "  found: the predicate 'v + 1' is no condition\n"
        "  to do: compare it with something, for example '… > 0'",
    ),
    (
        "an advance that is nothing",
        lambda: timed().aggregate(COUNT, size="10 s", advance="10 sconds"),
        BOX + "advance='10 sconds' is neither a length nor a condition\n"
        "  expected: a length such as '10 seconds' (an integer on an integer attribute), or a predicate that opens a "
        "window\n"
        "  found: '10 sconds' is no predicate\n"
        "  to do: the name goes before the expression: name='expression'",
    ),
    (
        "an advance with an unknown column",
        lambda: stream().aggregate(COUNT, size=10, advance="speed > 5"),
        BOX + "advance='speed > 5' is neither a length nor a condition\n"
        "  expected: a length such as '10 seconds' (an integer on an integer attribute), or a predicate that opens a "
        "window\n"
        "  found: unknown column 'speed' in the predicate",
    ),
    (
        "an advance with a unit on an integer",
        lambda: stream().aggregate(COUNT, size=10, advance="5 seconds"),
        BOX + "'5 seconds' is a duration, but the attribute is an integer\n"
        "  expected: an integer\n"
        "  found: '5 seconds' on an attribute of type int64",
    ),
    (
        "an origin of opened windows",
        lambda: stream().aggregate(COUNT, size=10, advance="ok", origin="first"),
        BOX + "windows that a predicate opens have no origin\n  found: origin='first'",
    ),
    (
        "an unknown origin",
        lambda: stream().aggregate(COUNT, size=10, origin="now"),
        BOX + "origin='now' is unknown\n  expected: one of epoch, first",
    ),
    (
        "a timeout without a unit",
        lambda: stream().aggregate(COUNT, size=10, timeout="5"),
        BOX + "cannot read the duration '5'\n"
        "  expected: numbers with units, such as '2 seconds', '1 minute 30 s' or '500 ms'",
    ),
    (
        "no timeout at all",
        lambda: stream().aggregate(COUNT, size=10, timeout="0 seconds"),
        BOX + "a timeout must be positive\n  found: '0 seconds'",
    ),
    (
        "windows from the first value of an attribute without progress",
        lambda: stream().aggregate(COUNT, on="j", size=10, origin="first"),
        BOX + "a window on 'j' would never close: the stream makes no progress on it\n"
        "  expected: one of ts\n"
        "  found: 'j' of stream 'in'\n"
        "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
        "date_trunc('minute', ts)",
    ),
    (
        "a function with an unknown column",
        lambda: stream().aggregate({"f": function(columns=["pos"])}, size=10),
        BOX + "unknown column 'pos' of a window function\n  expected: one of ts, at, k, j, v, ok",
    ),
    (
        "an output that is neither text nor function",
        lambda: stream().aggregate({"f": len}, size=10),  # type: ignore[dict-item]
        BOX + "the output 'f' cannot be read\n"
        "  expected: an SQL text such as 'count(*)', or pk.window_function(...)\n"
        "  found: <built-in function len>",
    ),
    (
        "outputs without names",
        lambda: stream().aggregate("count(*)", size=10),  # type: ignore[arg-type]
        BOX + "the outputs of an aggregate cannot be read\n"
        "  expected: {'name': 'SQL with aggregates'}, or pk.window_function(...)\n"
        "  found: 'count(*)'",
    ),
    (
        "several attributes under one name",
        lambda: stream().aggregate({"f": function(returns={"a": "int64", "b": "bool"})}, size=10),
        BOX + "the function of output 'f' returns several attributes: a, b\n"
        "  to do: pass the function itself in place of the outputs, or let it return one value",
    ),
    (
        "a function without a name",
        lambda: stream().aggregate(function(), size=10),
        BOX + "a window function in place of the outputs does not say what they are called\n"
        "  found: returns='double'\n"
        "  to do: give it a name, {'name': function}, or returns={'name': 'double'}",
    ),
    (
        "an attribute of a function that is a group",
        lambda: stream().aggregate(function(returns={"k": "string"}), size=10, by="k"),
        BOX + "the output 'k' has the name of a result column\n"
        "  to do: the window start and the by attributes are in the result already; rename the output",
    ),
    (
        "an attribute of a function that is the window start",
        lambda: stream().aggregate(function(returns={"ts": "int64"}), size=10),
        BOX + "the output 'ts' collides with the window attribute 'ts'\n  to do: give the output another name",
    ),
    ("init alone", lambda: pk.window_function(init=list), "init and incr belong together\n  found: init alone\n"),
    ("incr alone", lambda: function(incr=max), "init and incr belong together\n  found: incr alone\n"),
    ("nothing", pk.window_function, "a window function without a function\n  expected: final=, or init= and incr="),
    ("no function", lambda: function(final=7), "final is no function\n  found: 7"),
    ("an unknown type", lambda: function(returns="number"), "unknown type name 'number'\n"),
    (
        "no type",
        lambda: function(returns=7),
        "what a window function returns cannot be read\n"
        "  expected: a type such as 'double', or a schema such as {'time': 'int64', 'over': 'bool'}\n"
        "  found: 7",
    ),
]


@pytest.mark.parametrize(("build", "said"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refused(build: Callable[[], object], said: str) -> None:
    with pytest.raises(pk.QueryError) as refusal:
        build()
    assert str(refusal.value).startswith(said)


def box(found: pk.Stream) -> Any:
    return found._port.box


def test_plain_windows_stay_order_agnostic() -> None:
    assert isinstance(box(stream().aggregate(COUNT, size=10, advance="5", by="k")), Aggregate)
    assert isinstance(box(stream().aggregate({"f": function(columns="v")}, size=10)), Aggregate)
    others: list[dict[str, Any]] = [
        {"size": 10, "on": pk.TUPLE_NUMBER},
        {"size": 10, "origin": "first"},
        {"size": 10, "advance": "v > 1"},
        {"size": 10, "timeout": "1 s"},
        {"size": 10, "assuming": pk.order("ts")},
    ]
    assert all(isinstance(box(stream().aggregate(COUNT, **other)), GroupwiseAggregate) for other in others)


def test_what_makes_progress() -> None:
    def progressing(**arguments: Any) -> tuple[str, ...]:
        return stream().aggregate(COUNT, **{"size": 10, **arguments}).progressing

    assert progressing(origin="first", by="k") == ("ts",)
    assert progressing(advance="ok", by="k") == ("ts",)
    assert progressing(timeout="1 s", by="k") == ("ts",)
    assert progressing(on=pk.TUPLE_NUMBER) == ("Tup#",)
    assert progressing(on=pk.TUPLE_NUMBER, by="k") == ()
    # One order for all says how far the results have come; orders of groups only with the input's own progress.
    assert progressing(assuming=pk.order("j")) == ("j",)
    assert progressing(assuming=pk.order("j"), by="k") == ("j",)
    assert progressing(assuming=pk.order("j", by="k"), by="k") == ()
    assert progressing(assuming=pk.order("ts", by="k"), by="k") == ("ts",)


def test_only_boxes_that_set_tuples_aside_have_a_late_stream() -> None:
    for arguments in ({"timeout": dt.timedelta(seconds=2)}, {"assuming": pk.order("ts")}):
        late = stream().aggregate(COUNT, size=10, **arguments).late()  # type: ignore[arg-type]
        assert late.schema.names == list(SCHEMA)
        assert late.progressing == ()
    with pytest.raises(pk.QueryError, match="nothing comes too late"):
        stream().aggregate(COUNT, on=pk.TUPLE_NUMBER, size=10).late()


def test_the_schema_of_results() -> None:
    found = timed().aggregate(
        {"n": "count(*)", "f": function(returns="list<int64>", columns="v"), "m": "max(v)"},
        assuming=pk.order("at", 1, "k"),
        size="1 minute",
        by=["k", "j"],
    )
    kinds = {"at": pa.timestamp("ms"), "k": pa.string(), "j": pa.int64()}
    assert found.schema == pa.schema({**kinds, "n": pa.int64(), "f": pa.list_(pa.int64()), "m": pa.float64()})
    assert box(found).keys(0) == ("k",)
    several = stream().aggregate(function(returns={"a": "int64", "b": "bool"}), on=pk.TUPLE_NUMBER, size=3)
    assert several.schema == pa.schema({"Tup#": pa.int64(), "a": pa.int64(), "b": pa.bool_()})


def test_tuple_numbers_can_be_used_in_outputs_and_a_column_of_their_name_comes_first() -> None:
    numbers = stream().aggregate({"f": "first(v)", "l": 'max("Tup#")'}, on=pk.TUPLE_NUMBER, size=3)
    assert numbers.schema.names == ["Tup#", "f", "l"]
    again = numbers.aggregate({"l": 'max("Tup#")'}, size=2, by="f")
    assert again.schema.names == ["Tup#", "f", "l"]
    assert isinstance(box(again), Aggregate)
    mapped = stream().map(**{"Tup#": "k", "ts": "ts"})
    with pytest.raises(pk.QueryError, match="'Tup#' is a column of this stream"):
        mapped.aggregate({"n": "count(*)"}, on=pk.TUPLE_NUMBER, size=2)


def test_a_box_describes_itself_without_the_code_of_its_functions() -> None:
    one = stream().aggregate({"f": function(columns=["v", "k"])}, size=10)
    two = stream().aggregate({"f": pk.window_function(final=min, columns=["v", "k"])}, size=10)
    assert box(one).describe() == box(two).describe() == "f=window_function(v, k) on ts, size 10, advance 10"
    full = stream().aggregate(
        COUNT, size=10, advance=5, by=["k", "j"], assuming=pk.order("ts", 2, "k"), timeout="5 seconds", origin="first"
    )
    assert box(full).describe() == (
        "n=count(*) on ts, size 10, advance 5 from the first value by k, j, ordered on ts, slack 2 by k, timeout 5 s"
    )
    opened = timed().aggregate(COUNT, on=pk.TUPLE_NUMBER, size=3, advance="v > 1", partial=True)
    assert box(opened).describe() == "n=count(*) on Tup#, size 3, opened by v > 1, partial windows too"


EARLY = {"n": "count(*)"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"emit": "soon"}, "emit='soon' is unknown"),
        ({"emit": "speculative", "timeout": "5 seconds"}, "early results are those of windows that punctuation closes"),
        ({"emit": "speculative", "assuming": pk.order("ts")}, "windows that punctuation closes"),
        ({"emit": "speculative", "flush": "slow"}, "windows that punctuation closes"),
        ({"emit": "speculative", "origin": "first"}, "windows that punctuation closes"),
        ({"emit": "speculative", "advance": "v > 1"}, "windows that punctuation closes"),
        ({"emit": "speculative", "on": pk.TUPLE_NUMBER}, "windows that punctuation closes"),
        ({"emit": "speculative", "outputs": {"ve": "count(*)"}}, "early results have a column 've' of their own"),
        ({"emit": "speculative", "by": "kind"}, "early results have a column 'kind' of their own"),
    ],
)
def test_early_results_that_are_refused(arguments: dict[str, Any], told: str) -> None:
    schema = {"ts": "int64", "kind": "string", "v": "int64"}
    stream = pk.Network("net").source("in", pk.memory([], schema=schema))
    with pytest.raises(pk.QueryError, match=told):
        stream.aggregate(arguments.pop("outputs", EARLY), size=10, **arguments)


def test_early_results_of_an_attribute_that_decreases_are_refused() -> None:
    script = pk.memory([], schema={"left": "int64"})
    stream = pk.Network("net").source("in", script, on="left", progress=pk.ordered(descending=True))
    with pytest.raises(pk.QueryError, match="'left' decreases, and lifetimes of events do not"):
        stream.aggregate(EARLY, size=10, emit="speculative")


def test_early_results_are_a_temporal_stream() -> None:
    schema = {"ts": "timestamp[us]", "k": "string"}
    net = pk.Network("net")
    early = net.source("in", pk.memory([], schema=schema)).aggregate(EARLY, size="1 minute", by="k", emit="speculative")
    assert early.schema.names == ["sync", "kind", "vs", "ve", "vold", "k", "n"]
    assert early.progressing == ("sync",)
    assert early._port.temporal
    assert early._port.properties.words() == "unique"
    early.output("early")
    assert "early results leave in every batch" in net.explain()
    with pytest.raises(pk.QueryError, match="a bsort takes no temporal stream"):
        early.bsort(on="sync", slack=1)
    with pytest.raises(pk.QueryError, match="an in-order system sorts its streams"):
        net.run("local", architecture="in-order")
