from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.algebra.expressions.binding import bind, bind_predicate
from penstock.algebra.expressions.expression import evaluate, mask
from penstock.errors import QueryError

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "i": pa.int32(),
        "u": pa.uint64(),
        "x": pa.float64(),
        "s": pa.string(),
        "ok": pa.bool_(),
        "t": pa.timestamp("us", tz="UTC"),
        "srcIP": pa.string(),
        "words": pa.list_(pa.string()),
        "place": pa.struct({"lat": pa.float64(), "Long Name": pa.float64()}),
        "code": pa.dictionary(pa.int32(), pa.string()),
        "A": pa.int64(),
        "a": pa.int64(),
    }
)


@pytest.mark.parametrize(
    ("text", "kind", "columns"),
    [
        ("ts", pa.int64(), ("ts",)),
        ("TS + i", pa.int64(), ("ts", "i")),
        ("srcip || 'x'", pa.string(), ("srcIP",)),
        ("A", pa.int64(), ("A",)),
        ("a", pa.int64(), ("a",)),
        ("x > 1 AND ok", pa.bool_(), ("x", "ok")),
        ("place.lat", pa.float64(), ("place",)),
        ('place."Long Name" * 2', pa.float64(), ("place",)),
        ("list_transform(words, w -> w || s)", pa.list_(pa.string()), ("words", "s")),
        ("date_trunc('hour', t)", pa.timestamp("us", tz="UTC"), ("t",)),
        ("CASE WHEN ok THEN 1 ELSE 2 END", pa.int32(), ("ok",)),
        ("code = 'a'", pa.bool_(), ("code",)),
        ("code", SCHEMA.field("code").type, ("code",)),
        ("'constant'", pa.string(), ()),
        ("nullif(ts, 0) -- why", pa.int64(), ("ts",)),
        ("age(t, t) = INTERVAL 0 days", pa.bool_(), ("t",)),
    ],
)
def test_binds_to_type_and_columns(text: str, kind: pa.DataType, columns: tuple[str, ...]) -> None:
    bound = bind(text, SCHEMA)
    assert (bound.text, bound.type, bound.columns) == (text, kind, columns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ts +", r"cannot read .*\n.*missing here\n +ts \+\n +\^"),
        ("sum(ts", r"cannot read .*\n.*\n +sum\(ts\n +\^"),
        ("", "0 expressions"),
        ("ts; i", "2 expressions"),
        ("SELECT ts", "is no expression"),
        ("ts AS other", "the name goes before"),
        ("(ts, i)", "is no expression"),
        ("DROP TABLE tuples", "cannot read|is no expression"),
        ("srcIPs", "unknown column 'srcIPs'(.|\n)*one of ts, i, u(.|\n)*did you mean srcIP"),
        ("rowid", "unknown column"),
        ("a + A", "differ in case only"),
        ("s + 1", r"does not fit(.|\n)*VARCHAR(.|\n)*found: s: string"),
        ("ts + 'a'", r"Could not convert string 'a'(.|\n)*found: ts: int64"),
        ("place.nowhere", "nowhere"),
        ("count(*)", "an aggregate"),
        ("sum(ts) + 1", r"an aggregate, sum\(\)"),
        ("geomean(x)", "an aggregate"),
        ("sum(ts) OVER ()", "a window function"),
        ("row_number() OVER (ORDER BY ts)", "a window function"),
        ("(SELECT 1)", "is no expression|subquery"),
        ("ts IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("ts > (SELECT count(*) FROM read_csv('/etc/passwd'))", "a subquery"),
        ("*", "a star"),
        ("COLUMNS('t.*')", "a star"),
        ("unnest(words)", "several rows"),
        ("read_csv('/etc/passwd')", "unknown function"),
        ("flor(x)", r"unknown function flor\(\)(.|\n)*did you mean (.* or )?floor"),
        ("NULL", "always NULL(.|\n)*CAST"),
        ("?", "parameters"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        bind(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "random()",
        "uuid()",
        "gen_random_uuid()",
        "now()",
        "today()",
        "current_timestamp",
        "current_date",
        "current_time",
        "localtimestamp",
        "get_current_timestamp()",
        "ago(INTERVAL 1 hour)",
        "age(t)",
        "nextval('numbers')",
        "getvariable('v')",
        "current_setting('threads')",
        "txid_current()",
        "list_transform(words, w -> w || random())",
    ],
)
def test_refuses_what_cannot_be_replayed(text: str) -> None:
    with pytest.raises(QueryError, match="same tuples"):
        bind(f"coalesce(CAST({text} AS VARCHAR), s)", SCHEMA)


def test_names_that_differ_in_case_are_ambiguous_unless_exact() -> None:
    schema = pa.schema({"Key": pa.int64(), "kEY": pa.int64()})
    assert bind("kEY", schema).column == "kEY"
    with pytest.raises(QueryError, match="ambiguous"):
        bind("key", schema)


def test_a_predicate_must_be_a_condition() -> None:
    assert bind_predicate("x > 1", SCHEMA).type == pa.bool_()
    with pytest.raises(QueryError, match=r"no condition(.|\n)*int64"):
        bind_predicate("ts + 1", SCHEMA)


INT64 = st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(INT64, INT64), min_size=1, max_size=20))
def test_integer_division_floors(pairs: list[tuple[int, int]]) -> None:
    table = pa.table(
        {"ts": pa.array([a for a, _ in pairs], pa.int64()), "a": pa.array([b for _, b in pairs], pa.int64())}
    )
    texts = {"by_constant": "ts / 60", "double": "ts / 60 / 7", "negative": "ts / -7", "by_column": "ts // a"}
    found = evaluate([(name, bind(text, table.schema)) for name, text in texts.items()], table)
    assert found.schema.types == [pa.int64()] * 4
    assert found["by_constant"].to_pylist() == [a // 60 for a, _ in pairs]
    assert found["double"].to_pylist() == [a // 60 // 7 for a, _ in pairs]
    assert found["negative"].to_pylist() == [a // -7 for a, _ in pairs]
    assert found["by_column"].to_pylist() == [a // b if b else None for a, b in pairs]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i / 2", pa.int32()),
        ("u / 60", pa.uint64()),
        ("u / u", pa.uint64()),
        ("u / i", pa.int64()),
        ("x / 2", pa.float64()),
        ("CAST(ts AS DOUBLE) / 60", pa.float64()),
        ("ts / 2.0", pa.float64()),
    ],
)
def test_division_keeps_integers_integers_and_fractions_fractions(text: str, kind: pa.DataType) -> None:
    assert bind(text, SCHEMA).type == kind


def test_evaluate_keeps_row_order_names_and_bare_columns() -> None:
    table = pa.table(
        {
            "ts": pa.chunked_array([[3, 1], [2]]),
            "code": pa.array(["p", "q", "p"]).dictionary_encode(),
            "odd name": pa.array([1.5, None, 2.5]),
        }
    )
    outputs = {"code": "code", "B": "ts * 10", "b": '"odd name"', "one": "1", "twice": '"odd name" * 2'}
    found = evaluate([(name, bind(text, table.schema)) for name, text in outputs.items()], table)
    assert found.column_names == list(outputs)
    assert found["code"].type == table["code"].type
    assert found["B"].to_pylist() == [30, 10, 20]
    assert found["b"].to_pylist() == [1.5, None, 2.5]
    assert found["one"].to_pylist() == [1, 1, 1]
    assert found["twice"].to_pylist() == [3.0, None, 5.0]


def test_evaluate_takes_columns_that_differ_in_case() -> None:
    table = pa.table({"A": [1], "a": [2]})
    assert evaluate([("x", bind("a + 1", table.schema))], table)["x"].to_pylist() == [3]
    assert evaluate([("x", bind("A + 1", table.schema))], table)["x"].to_pylist() == [2]


def test_evaluate_nothing_on_no_rows() -> None:
    table = SCHEMA.empty_table()
    found = evaluate([("y", bind("x * 2", SCHEMA)), ("one", bind("1", SCHEMA))], table)
    assert (found.num_rows, found.schema.types) == (0, [pa.float64(), pa.int32()])


def test_mask_gives_the_first_true_predicate_and_null_is_not_true() -> None:
    table = pa.table({"x": [5, 15, None, 25, -1]})
    predicates = [bind_predicate(text, table.schema) for text in ("x > 20", "x > 10", "x > 0")]
    ports = mask(predicates, table)
    assert ports.type == pa.int32()
    assert ports.to_pylist() == [2, 1, 3, 0, 3]
    assert mask([], table).to_pylist() == [0] * 5


def test_a_fault_in_the_data_is_reported() -> None:
    table = pa.table({"s": ["1", "x"]})
    with pytest.raises(QueryError, match="'x'"):
        evaluate([("n", bind("CAST(s AS BIGINT)", table.schema))], table)
