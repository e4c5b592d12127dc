"""What is refused says which box, what was expected, what came, and what to do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

import pytest

import penstock as pk
from penstock.errors import QueryError

PACKETS = {"ts": "int64", "link": "string", "len": "int64"}
LARGEST = Decimal("9" * 36 + ".99")


def _packets(schema: Any = PACKETS, rows: Any = (), **options: Any) -> pk.Stream:
    return pk.Network("net").source("packets", pk.memory(list(rows), schema=schema), **options)


def _said(build: Any) -> str:
    with pytest.raises(QueryError) as refused:
        build()
    return str(refused.value)


class TestMissingOn:
    def test_the_columns_that_would_do_are_named(self) -> None:
        assert _said(lambda: _packets({"time": "timestamp[ms]", "link": "string", "len": "int64"})) == (
            "network 'net', box 'packets': say on which attribute the input makes progress: it has no 'ts', which is "
            "meant without on=\n"
            "  expected: on= one of time, len (integers, dates and timestamps)\n"
            "  found: time timestamp[ms], link string, len int64\n"
            "  to do: net.source(..., on='time')"
        )

    def test_without_such_a_column_there_are_other_ways(self) -> None:
        assert _said(lambda: _packets({"at": "string"})) == (
            "network 'net', box 'packets': say on which attribute the input makes progress: it has no 'ts', which is "
            "meant without on=\n"
            "  expected: an integer, date or timestamp attribute\n"
            "  found: at string\n"
            "  to do: declare one of them as such with schema={...}, or let tuples have the time of their arrival: "
            "timestamps='internal'"
        )

    def test_a_name_that_is_given_and_wrong_is_another_matter(self) -> None:
        assert _said(lambda: _packets(on="tss")) == (
            "network 'net', box 'packets': unknown column 'tss'\n"
            "  expected: one of ts, link, len\n"
            "  to do: did you mean ts?"
        )


DROPPED = "  to do: box 'few' (link, len) leaves 'ts' out: add ts='ts' to it"


class TestDroppedTime:
    @pytest.mark.parametrize(
        "build",
        [
            lambda s, _: s.aggregate({"n": "count(*)"}, size=10),
            lambda s, _: s.where("len > 0").aggregate({"n": "count(*)"}, on="ts", size=10),
            lambda s, o: s.join(o, "l.link = r.link", size=10),
            lambda s, o: o.join(s, "l.link = r.link", on="ts", size=10),
            lambda s, _: s.dedupe(),
            lambda s, _: s.cleanse(),
            lambda s, _: s.cleanse(on="ts"),
            lambda s, _: s.bsort(slack=2),
            lambda s, _: pk.merge(s, s),
            lambda s, _: pk.merge(s, s, on="ts"),
            lambda s, o: s.resample(o, {"n": "count(*)"}, size=10),
            lambda s, o: o.resample(s, {"n": "count(*)"}, on="ts", size=10),
        ],
    )
    def test_the_map_that_dropped_it_is_named(self, build: Any) -> None:
        packets = _packets()
        few = packets.map(link="link", len="len", name="few")
        assert DROPPED in _said(lambda: build(few, packets))

    def test_the_whole_text(self) -> None:
        few = _packets().map(link="link", len="len", name="few")
        assert _said(lambda: few.aggregate({"n": "count(*)"}, size=10)) == (
            "network 'net', box 'aggregate1': say which attribute the windows are on\n"
            "  found: progress on nothing\n" + DROPPED
        )
        assert _said(lambda: few.aggregate({"n": "count(*)"}, on="ts", size=10)) == (
            "network 'net', box 'aggregate1': unknown column 'ts'\n  expected: one of link, len\n" + DROPPED
        )


class TestFunctions:
    def test_a_map_takes_sql(self) -> None:
        said = _said(lambda: _packets().map(ts="ts", x=lambda row: row["len"]))
        assert said.startswith(
            "network 'net', box 'map1': the attribute 'x' is no text\n"
            "  expected: SQL over the attributes of the stream, such as 'ts / 60'\n"
            "  found: <function "
        )
        assert said.endswith(
            "\n  to do: write it in SQL; functions in Python go over windows: "
            "aggregate({...: pk.window_function(final=...)}, ...)"
        )

    def test_so_do_filters(self) -> None:
        for build in (lambda s: s.where(lambda row: True), lambda s: s.filter("len > 1", lambda row: True)):
            assert "the predicate is no text" in _said(lambda build=build: build(_packets()))  # type: ignore[misc]

    def test_a_number_is_no_text_either(self) -> None:
        assert _said(lambda: _packets().map(ts="ts", one=1)) == (  # type: ignore[arg-type]
            "network 'net', box 'map1': the attribute 'one' is no text\n"
            "  expected: SQL over the attributes of the stream, such as 'ts / 60'\n"
            "  found: 1\n"
            "  to do: put it in quotes: '1'"
        )

    def test_an_advance_is_a_length_or_sql(self) -> None:
        said = _said(lambda: _packets().aggregate({"n": "count(*)"}, size=3, advance=lambda row: True))  # type: ignore[arg-type]
        assert "advance= is a length or a condition in SQL" in said


class TestDidYouMean:
    @pytest.mark.parametrize(
        ("text", "hint"),
        [("lenn", "did you mean len?"), ("lnik", "did you mean link?"), ("zzz", None), ("elephant", None), ("t", None)],
    )
    def test_columns(self, text: str, hint: str | None) -> None:
        said = _said(lambda: _packets().map(x=text))
        assert said.endswith(f"to do: {hint}" if hint else "expected: one of ts, link, len")

    def test_functions_that_are_near(self) -> None:
        assert _said(lambda: _packets().map(x="uper(link)")).endswith("to do: did you mean upper?")
        assert _said(lambda: _packets().aggregate({"n": "cuont(*)"}, size=1)).endswith("to do: did you mean count?")

    def test_functions_that_are_far_from_all(self) -> None:
        assert _said(lambda: _packets().map(x="frobnicate(len)")) == (
            "network 'net', box 'map1': unknown function frobnicate() in the attribute 'x'\n"
            "  expected: a scalar function of DuckDB, such as abs, coalesce, date_trunc, length, lower, round, "
            "substring"
        )
        said = _said(lambda: _packets().aggregate({"n": "frobnicate(len)"}, size=1))
        assert "expected: one of " in said
        assert {"approx_count_distinct", "arg_max", "median"} <= set(said.partition("one of ")[2].split(", "))
        assert "did you mean" not in said


class TestOverflow:
    SCHEMA: ClassVar[Any] = {"ts": "int64", "price": "decimal(38, 2)", "n": "int64"}
    ROWS: ClassVar[Any] = ((1, LARGEST, 1), (2, LARGEST, 2**63 - 1))

    def _run(self, build: Any) -> str:
        net = pk.Network("net")
        stream = net.source("trades", pk.memory(list(self.ROWS), schema=self.SCHEMA))
        build(stream).output("o")
        return _said(lambda: net.run(engine="local"))

    def test_a_product_of_decimals(self) -> None:
        said = self._run(lambda s: s.map(ts="ts", n="n", square="price * price", name="squares"))
        lines = said.splitlines()
        assert lines[0].startswith(
            "network 'net', box 'squares': the attribute 'square' overflows: Overflow in multiplication of DECIMAL(38)"
        )
        assert lines[1:] == [
            "  found: price * price",
            "  to do: decimals have at most 38 digits: cast to fewer before, such as CAST(x AS DECIMAL(18, 2)), or to "
            "DOUBLE; TRY(...) gives NULL instead",
        ]

    def test_a_predicate(self) -> None:
        said = self._run(lambda s: s.where("price + price > 1", name="dear"))
        assert "box 'dear': the predicate overflows: Overflow in addition of DECIMAL(38)" in said
        assert "found: price + price > 1\n  to do: decimals have at most 38 digits" in said

    def test_a_sum_of_decimals(self) -> None:
        said = self._run(lambda s: s.aggregate({"total": "sum(price)"}, size=10, name="totals"))
        assert said.startswith("network 'net', box 'totals': ")
        assert "found: total=sum(price) on ts, size 10, advance 10\n" in said
        assert said.endswith("to do: sum(CAST(x AS DOUBLE)) has room for it")

    def test_a_cast(self) -> None:
        said = self._run(lambda s: s.map(ts="ts", small="CAST(price AS DECIMAL(5, 2))", name="cut"))
        assert "box 'cut': the attribute 'small' overflows: Casting value" in said
        assert "decimals have at most 38 digits" in said

    def test_whole_numbers(self) -> None:
        said = self._run(lambda s: s.map(ts="ts", more="n + 1", name="more"))
        assert "the attribute 'more' overflows: Overflow in addition of INT64" in said
        assert said.endswith("to do: CAST(x AS DOUBLE) on one side has room for it; TRY(...) gives NULL instead")


class TestTypeTexts:
    def test_nested_types_are_read_in_every_spelling(self) -> None:
        schema = {
            "ts": "int64",
            "at": "struct<lat: double, lon: double, tags: list<string>>",
            "spark": "struct<a:int,b:array<struct<c:bigint>>>",
            "counts": "map<string, list<decimal(10, 2)>>",
            "times": "list<timestamp[us, UTC]>",
        }
        net = pk.Network("net")
        rows = [(1, {"lat": 1.5, "lon": 2.5, "tags": ["x"]}, {"a": 1, "b": [{"c": 2}]}, [("k", [])], [])]
        packets = net.source("packets", pk.memory(rows, schema=schema))
        assert [str(kind) for kind in packets.schema.types[1:]] == [
            "struct<lat: double, lon: double, tags: list<item: string>>",
            "struct<a: int32, b: list<item: struct<c: int64>>>",
            "map<string, list<item: decimal128(10, 2)>>",
            "list<item: timestamp[us, tz=UTC]>",
        ]
        packets.map(ts="ts", lat="at.lat", tag="at.tags[1]", c="spark.b[1].c", k="map_keys(counts)[1]").output("o")
        assert net.run(engine="local")["o"].to_pylist() == [{"ts": 1, "lat": 1.5, "tag": "x", "c": 2, "k": "k"}]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("struct<a>", "a field of 'struct<a>' has no type\n  expected: struct<name: type, ...>\n  found: 'a'"),
            ("struct<>", "a field of 'struct<>' has no type"),
            ("struct<a: int64, a: string>", "two fields of 'struct<a: int64, a: string>' have the same name"),
            ("map<string>", "a map has a type of keys and one of values\n  expected: map<string, int64>"),
            ("list<int64, string>", "a list has one type of items"),
            ("struct<a: int64", "cannot read the type 'struct<a: int64': its brackets do not match"),
            ("list<intt>", "unknown type name 'intt'"),
            ("struct<a: strin>", "unknown type name 'strin'"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, text: str, said: str) -> None:
        assert f"column 'p': {said}" in _said(lambda: _packets({"ts": "int64", "p": text}))

    def test_a_name_that_is_nearly_right(self) -> None:
        said = _said(lambda: _packets({"ts": "int64", "p": "strin"}))
        assert said.endswith("to do: did you mean string?")
