from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.algebra.schema import parse_schema, parse_type
from penstock.errors import QueryError


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int8", pa.int8()),
        ("uint32", pa.uint32()),
        ("BIGINT", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("float64", pa.float64()),
        (" string ", pa.string()),
        ("bool", pa.bool_()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp[ms]", pa.timestamp("ms")),
        ("timestamp[us, UTC]", pa.timestamp("us", "UTC")),
        ("timestamp[ns, tz=Europe/Berlin]", pa.timestamp("ns", "Europe/Berlin")),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("decimal(5)", pa.decimal128(5, 0)),
        ("list<list<int32>>", pa.list_(pa.list_(pa.int32()))),
    ],
)
def test_a_type_name_is_read(name: str, kind: pa.DataType) -> None:
    assert parse_type(name) == kind


def test_every_pyarrow_name_of_a_simple_type_is_read_back() -> None:
    kinds = [pa.int16(), pa.uint64(), pa.string(), pa.bool_(), pa.timestamp("us", "UTC"), pa.decimal128(9, 3)]
    assert [parse_type(str(kind)) for kind in kinds] == kinds
    assert parse_type(str(pa.list_(pa.int64()))) == pa.list_(pa.int64())


def test_an_unknown_type_is_refused_with_the_list_of_names() -> None:
    with pytest.raises(QueryError, match="column 'ts': unknown type name 'in64'") as refused:
        parse_schema({"ts": "in64"})
    assert "int64" in str(refused.value)
    assert "decimal(p, s)" in str(refused.value)


def test_a_mapping_keeps_its_order_and_takes_pyarrow_types() -> None:
    schema = parse_schema({"k": "string", "ts": pa.int64()})
    assert schema == pa.schema([("k", pa.string()), ("ts", pa.int64())])


def test_metadata_and_nullability_are_left_behind() -> None:
    given = pa.schema([pa.field("a", pa.int64(), nullable=False, metadata={"x": "y"})], metadata={"m": "n"})
    assert parse_schema(given).equals(pa.schema([("a", pa.int64())]), check_metadata=True)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "no columns"),
        (pa.schema([]), "no columns"),
        (pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.string())]), "more than one column named 'a'"),
        ({"a": 5}, "column 'a' has no type"),
        ({"": "int64"}, "a column name is not a text"),
        ("ts int64", "a schema cannot be read"),
        ({"a": "decimal(39, 2)"}, "1 to 38 digits"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(spec: object, text: str) -> None:
    with pytest.raises(QueryError, match=text):
        parse_schema(spec)  # type: ignore[arg-type]
